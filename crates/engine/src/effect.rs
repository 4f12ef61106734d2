//! Effects that run under a claim, and their reports.
//!
//! An effect is called message by message ([`Effect`]), or batch by batch if it is one stream
//! ([`BatchEffect`]) or takes several batches at once ([`BulkEffect`]), or it is an output file that the
//! store's marks keep exact ([`Output`]).

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use semel_core::outcome::Gathering;
use semel_core::trace_context::{TRACEPARENT, TRACESTATE};
use semel_core::{
    ByteString, Carried, Certainty, Claim, Outcome, Recovery, Result, Start, TraceContext,
};

/// The way in which an effect takes part in the proof that it happens once. Names the guarantee; see the
/// README's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Commits together with the record, or is cut back to the recorded length: exactly once.
    Transactional,
    /// Is a message of a broker, committed there together with its record and with the position up to which
    /// its input was read: exactly once inside one cluster, for readers of committed messages.
    Streamed,
    /// An external call whose provider recognises the operation's key for this long.
    Keyed {
        /// The time for which the provider remembers a key, less a margin for clocks and queues.
        provider_window: Duration,
    },
    /// An external call that no provider recognises.
    Unkeyed(OnDoubt),
}

/// The reaction when nobody knows whether an unkeyed effect happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDoubt {
    /// Run it again: at least once, every possible repeat listed.
    Repeat,
    /// Leave it: at most once, every doubt listed.
    Park,
}

impl Class {
    /// Returns its name for people and programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Transactional => "transactional",
            Self::Streamed => "streamed",
            Self::Keyed { .. } => "keyed",
            Self::Unkeyed(_) => "unkeyed",
        }
    }

    /// Returns the way in which a claim for such an effect begins.
    pub fn start(self) -> Start {
        match self {
            Self::Transactional | Self::Streamed => Start::Unmarked,
            Self::Unkeyed(OnDoubt::Park) if semel_core::planted("M10") => Start::Unmarked,
            Self::Keyed { provider_window } => {
                Start::Marked(Recovery::RerunWithin(provider_window))
            }
            Self::Unkeyed(OnDoubt::Repeat) => Start::Marked(Recovery::Rerun),
            Self::Unkeyed(OnDoubt::Park) => Start::Marked(Recovery::Park),
        }
    }

    /// Tells whether a claim of such an effect is found again, so that each needs an id of its own.
    pub(crate) const fn stores_claims(self) -> bool {
        !matches!(self, Self::Streamed)
    }
}

/// Returns the time that remains of a provider's window after a margin for clocks and queues: an eighth, at most one
/// minute.
pub fn within_provider_window(provider_window: Duration) -> Duration {
    provider_window.saturating_sub((provider_window / 8).min(Duration::from_secs(60)))
}

/// One call of an effect: the message, and the claim under which it runs.
#[derive(Clone, Debug)]
pub struct Call {
    /// The claim. Its operation's id, attempt and fencing token are for the effect to pass on.
    pub claim: Claim,
    /// The message, byte for byte.
    pub payload: Bytes,
    /// Its headers.
    pub headers: Vec<(ByteString, Bytes)>,
    /// The place where it was read.
    pub coordinates: ByteString,
    /// The span of the effect, if anybody wants spans.
    pub span: Option<TraceContext>,
}

/// A trace as its two headers carry it. What an effect is told to hand on is printable ASCII, and tabs in the state; at
/// most 256 and 512 bytes: so a header can carry it, and so can an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceHeaders {
    /// The value of `traceparent`.
    pub parent: ByteString,
    /// The value of `tracestate`.
    pub state: Option<ByteString>,
}

impl TraceHeaders {
    /// Returns the trace to hand on: the span of the effect, or, if nobody wants spans, that with which its message or its
    /// call came.
    pub(crate) fn handed_on(span: Option<TraceContext>, carried: Option<Carried>) -> Option<Self> {
        let Some(span) = span else {
            return carried.map(|Carried { parent, state, .. }| Self { parent, state });
        };
        Some(Self {
            parent: span.to_string().into(),
            state: carried.and_then(|it| it.state),
        })
    }

    /// Returns the trace that is carried so, if it is a valid one.
    pub(crate) fn carried(self) -> Option<Carried> {
        let parent = (TRACEPARENT, self.parent);
        let headers = [Some(parent), self.state.map(|state| (TRACESTATE, state))];
        let headers = headers.into_iter().flatten();
        let headers =
            headers.map(|(name, value)| (ByteString::from_static(name), value.into_bytes()));
        Carried::of(&headers.collect::<Vec<_>>())
    }
}

impl From<TraceContext> for TraceHeaders {
    fn from(span: TraceContext) -> Self {
        Self {
            parent: span.to_string().into(),
            state: None,
        }
    }
}

impl Call {
    /// Returns the trace to hand on: the span of the effect, or, if nobody wants spans, that with which the message came.
    pub fn trace(&self) -> Option<TraceHeaders> {
        TraceHeaders::handed_on(self.span, Carried::of(&self.headers))
    }

    /// Returns the key to pass downstream: derived from the operation alone, so the same on every attempt. 64
    /// hexadecimal digits.
    pub fn idempotency_key(&self) -> String {
        let id = self.claim.operation.id();
        if semel_core::planted("M08") {
            return format!("{id}-{}", self.claim.attempt);
        }
        id.to_string()
    }
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The effect happened; this is its result.
    Done(Bytes),
    /// The effect happened; its result was too long to hand over.
    DoneUnkept {
        /// Length of the result in bytes.
        len_bytes: u64,
        /// BLAKE3-256 of the result.
        digest: [u8; 32],
    },
    /// The effect surely did not happen; try again.
    NotApplied {
        /// The reason, one line without secrets.
        error: Box<str>,
        /// The time that the effect asks to wait, if it does.
        retry_after: Option<Duration>,
    },
    /// Nobody knows whether it happened; the class decides.
    MaybeApplied {
        /// The reason, one line without secrets.
        error: Box<str>,
    },
    /// This attempt surely did not apply the effect, and no other would.
    Dead {
        /// The reason, one line without secrets.
        error: Box<str>,
        /// The verdict speaks for the earlier attempts as well, because it comes from behind the provider's
        /// own look-up of the key. If it does not, and an earlier attempt may have applied the effect, the
        /// operation is in doubt.
        decisive: bool,
    },
    /// The target was not reached: the effect was not begun, and would not be for any other message either.
    /// Costs no attempt; the pipeline waits for the target.
    Away {
        /// The reason, one line without secrets.
        error: Box<str>,
    },
    /// The program that handles the messages is broken: it ended before its first answer, or its answers are
    /// not valid. Costs no attempt; the pipeline waits until the program works for a message.
    Broken {
        /// The reason, one line without secrets.
        error: Box<str>,
        /// The certainty: the program surely has not seen this message, or it may have.
        certainty: Certainty,
    },
}

impl Verdict {
    /// Returns its name for programs: `applied`, `not_applied`, `maybe_applied` or `failed`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done(_) | Self::DoneUnkept { .. } => "applied",
            Self::NotApplied { .. }
            | Self::Away { .. }
            | Self::Broken {
                certainty: Certainty::NotApplied,
                ..
            } => "not_applied",
            Self::MaybeApplied { .. }
            | Self::Broken {
                certainty: Certainty::MaybeApplied,
                ..
            } => "maybe_applied",
            Self::Dead { .. } => "failed",
        }
    }
}

impl From<Gathering> for Verdict {
    /// Makes a done verdict of the gathered result.
    fn from(result: Gathering) -> Self {
        match result.finish() {
            Ok(bytes) | Err(Outcome::Kept { bytes, .. }) => Self::Done(bytes),
            Err(Outcome::TooLarge { len_bytes, digest }) => Self::DoneUnkept { len_bytes, digest },
        }
    }
}

/// The finding of a probe about an effect in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It happened; this is its result.
    Applied(Bytes),
    /// It did not happen. Believed only after quiescence (DBT-5).
    NotApplied,
    /// The probe cannot tell, or there is none.
    Unknown,
}

/// An effect that is called message by message, many calls in flight at once.
///
/// # Cancel safety
///
/// A call may be dropped at any point (the claim was lost, or shutdown ran out of patience); the
/// engine then treats it as maybe applied.
pub trait Effect: Send + Sync + 'static {
    /// Runs the effect for one message.
    fn call(&self, call: Call) -> impl Future<Output = Verdict> + Send;

    /// Runs the effect for one message, and returns as well the status of the HTTP answer that it got, if it got one; for
    /// the span of the effect. The engine calls this, and whatever is no request of HTTP leaves it alone.
    fn call_with_status(&self, call: Call) -> impl Future<Output = (Verdict, Option<u16>)> + Send {
        async { (self.call(call).await, None) }
    }

    /// Finds out what became of an effect in doubt.
    fn probe(&self, call: &Call) -> impl Future<Output = Probe> + Send {
        let _ = call;
        std::future::ready(Probe::Unknown)
    }

    /// Returns the longest life of a call, after which a probe's "not applied" is believed.
    fn quiet(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// An effect that takes whole batches, in order: one stream.
pub trait BatchEffect: Send + 'static {
    /// Runs the effect for each message; one verdict per call, in the same order.
    fn call(&mut self, batch: &[Call]) -> impl Future<Output = Vec<Verdict>> + Send;
}

/// An effect that takes whole batches, several of them at once: messages of one order key are never in two
/// batches.
///
/// # Cancel safety
///
/// As [`Effect`]: a call may be dropped at any point, and its whole batch then counts as maybe applied
pub trait BulkEffect: Send + Sync + 'static {
    /// Runs the effect for each message; one verdict per call, in the same order.
    fn call(&self, batch: &[Call]) -> impl Future<Output = Vec<Verdict>> + Send;
}

/// An append-only output whose length the store records with each batch, so that a crash between the two can
/// be undone by cutting back.
///
/// One writer: an implementation holds a lock on its target for as long as it lives.
pub trait Output: Send + 'static {
    /// Returns the name of the mark that keeps this output's length; the same for the same target.
    fn mark_name(&self) -> String;

    /// Returns the current length in bytes.
    ///
    /// # Errors
    ///
    /// `Unavailable`
    fn len_bytes(&mut self) -> impl Future<Output = Result<u64>> + Send;

    /// Cuts the output back to `len_bytes`, durably.
    ///
    /// # Errors
    ///
    /// `Corrupt` with code `target-shortened` if it is shorter than that
    fn cut_back(&mut self, len_bytes: u64) -> impl Future<Output = Result<()>> + Send;

    /// Appends each message and its terminator, makes them durable, and returns the new length.
    ///
    /// # Errors
    ///
    /// `Unavailable`: cut back before going on
    fn append(&mut self, batch: &[Bytes]) -> impl Future<Output = Result<u64>> + Send;
}
