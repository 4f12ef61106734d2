//! Typed events, one per decision, for observers: metrics, traces, a console, a log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::DeliveryId;
use semel_core::{
    ByteString, Code, Differing, Duplicate, Error, FencingToken, Grant, Operation, StateKind,
    TraceContext, Unusable,
};

use crate::effect::Verdict;
use crate::summary::Fate;
use crate::trace::{SampleShare, Spans};

/// A decision or incident of the engine. Borrowed: an observer copies what it keeps.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt begins.
    Granted {
        /// The operation.
        operation: &'a Operation,
        /// The number of the attempt, and whether it is a takeover, a resumption or a possible repeat.
        grant: Grant,
    },
    /// The effect happened and is recorded. Acknowledged next.
    Completed {
        /// The operation.
        operation: &'a Operation,
        /// True if its claim took the place of a vanished one and no [`Granted`](Self::Granted) said so, since the
        /// claim was part of the effect's transaction.
        takeover: bool,
    },
    /// A duplicate of something finished. Acknowledged next.
    Replayed {
        /// The operation.
        operation: &'a Operation,
        /// The way in which the duplicate came about.
        duplicate: Duplicate,
    },
    /// Another worker runs the operation, or a retry is due later. Held back.
    Busy {
        /// The operation.
        operation: &'a Operation,
        /// The time for which it is held back.
        wait: Duration,
    },
    /// The key was used with another request. Quarantined.
    Conflicted {
        /// The operation.
        operation: &'a Operation,
        /// The place where the message was read.
        coordinates: &'a str,
        /// The way in which the duplicate came about.
        duplicate: Duplicate,
        /// The members in which the message differs from the first one under its key.
        differing: &'a Differing,
    },
    /// The entity has this version or a later one. Acknowledged next; no duplicate.
    Stale {
        /// The operation.
        operation: &'a Operation,
        /// The version that was applied.
        applied: u64,
    },
    /// No record, and older than the window. Quarantined.
    TooOld {
        /// The operation.
        operation: &'a Operation,
        /// The place where the message was read.
        coordinates: &'a str,
    },
    /// No record, and a replay id, while the effect is for live messages alone. Quarantined.
    LiveOnly {
        /// The operation.
        operation: &'a Operation,
        /// The place where the message was read.
        coordinates: &'a str,
    },
    /// No usable key. Quarantined.
    Unusable {
        /// The place where the message was read.
        coordinates: &'a str,
        /// The reason.
        unusable: &'a Unusable,
    },
    /// The attempt failed; another follows.
    Released {
        /// The operation.
        operation: &'a Operation,
        /// The reason, one line.
        error: &'a str,
        /// The time until the next attempt is due.
        wait: Duration,
    },
    /// Failed for good or out of attempts. A dead letter is kept.
    Dead {
        /// The operation.
        operation: &'a Operation,
        /// The place where the message was read.
        coordinates: &'a str,
        /// The reason, one line.
        error: &'a str,
    },
    /// Nobody knows whether the effect happened; a record says so.
    InDoubt {
        /// The operation.
        operation: &'a Operation,
        /// The place where the message was read.
        coordinates: &'a str,
        /// The reason why nobody knows.
        error: &'a str,
    },
    /// A message met an operation that is dead or in doubt already.
    Parked {
        /// The operation.
        operation: &'a Operation,
        /// The place where the message was read.
        coordinates: &'a str,
        /// Dead or in doubt.
        state: StateKind,
    },
    /// The claim was lost while its effect ran or before it could be settled: the result is
    /// discarded and nothing is acknowledged.
    Fenced {
        /// The operation.
        operation: &'a Operation,
        /// The token of the lost claim.
        token: FencingToken,
        /// The state that was found; `None` is absent.
        found: Option<StateKind>,
    },
    /// A call of an effect ended. Of a batch, each message has the time of the whole.
    EffectEnded {
        /// The operation.
        operation: &'a Operation,
        /// The end.
        verdict: &'a Verdict,
        /// The time from its begin to its end.
        took: Duration,
        /// True if the call was its claim as well, in one transaction: no [`Granted`](Self::Granted) went before.
        with_claim: bool,
    },
    /// A delivery met its fate and is acknowledged next.
    Settled {
        /// The delivery.
        delivery: DeliveryId,
        /// The delivery's fate.
        fate: Fate,
        /// The time since it was fetched that was neither its effects' nor a wait for its order or for a time; none
        /// of a message without a usable key.
        overhead: Option<Duration>,
        /// True if it carried a replay id.
        sent_again: bool,
    },
    /// An effect ended with an outcome, its claim was lost, and the operation was completed with another outcome. The
    /// recorded one stays.
    OutcomeDiffers {
        /// The operation.
        operation: &'a Operation,
    },
    /// A message waits, for the first time for this reason.
    Waits {
        /// The reason.
        why: Wait,
    },
    /// The consumer has turned to its messages. Emitted often.
    InHand {
        /// Messages that are worked on: claimed, called, settled or parked.
        running: usize,
        /// Messages that wait for an earlier one of their order key, or for a time.
        held: usize,
    },
    /// The store failed, or the target of an output; the call is repeated.
    StoreFailed {
        /// The failure.
        error: &'a Error,
        /// The time until the call is repeated.
        wait: Duration,
    },
    /// The breaker opened: the store kept failing, so only one probe at a time is sent. Emitted once, by the
    /// pipeline that saw the last failure.
    BreakerOpened {
        /// The last failure.
        error: &'a Error,
        /// The time until the store is first tried again.
        wait: Duration,
    },
    /// The store answers again. Emitted once, by the pipeline that got the answer.
    BreakerClosed {
        /// The time for which the store was away, from the first failure.
        lasted: Duration,
    },
    /// An attempt begins without a claim, because the store is away and the pipeline fails open.
    /// Nothing is recorded; if the effect happens, the message is acknowledged.
    Unprotected {
        /// The operation.
        operation: &'a Operation,
        /// Number of such attempts with this delivery, from 1.
        attempt: u32,
    },
    /// The broker cannot be reached; the source tries again.
    SourceAway {
        /// The reason.
        error: &'a Error,
    },
    /// The broker of the source is reachable again, after it was reported away.
    SourceBack {
        /// The time for which it was away.
        lasted: Duration,
    },
    /// There is nothing to fetch, and other members of the source's consumer have deliveries in hand. A member
    /// that vanished leaves its deliveries until the broker takes them back.
    Elsewhere {
        /// The count of these deliveries.
        deliveries: u64,
        /// The time until the broker takes back unextended deliveries, at the latest.
        within: Duration,
    },
    /// The place that an effect publishes to, or that dead letters go to, accepts no messages now; it is tried
    /// again, and messages that wait for it are not acknowledged.
    TargetAway {
        /// The reason.
        error: &'a Error,
        /// The time until it is tried again.
        wait: Duration,
    },
    /// The place that was reported away accepts messages again.
    TargetBack {
        /// The time for which it was away.
        lasted: Duration,
    },
    /// The pipeline begins no more effects, except for one message at a time that tries its target. Emitted
    /// once when the pause begins; a pause of another cause takes its place.
    Paused {
        /// The cause.
        cause: Pause,
        /// The failure, one line without secrets.
        error: &'a str,
        /// The time until the first message is tried.
        wait: Duration,
    },
    /// The pause is over: the target's return is confirmed. Emitted once.
    Resumed {
        /// The last cause.
        cause: Pause,
        /// The duration of the pause, from its first cause to the first success.
        lasted: Duration,
    },
    /// The broker refuses this dead letter, however often it is tried. Only the store has it, and the delivery
    /// is acknowledged.
    DeadLetterRefused {
        /// The place where the message was read.
        coordinates: &'a str,
        /// The reason.
        error: &'a Error,
    },
    /// Deliveries are about to belong to another consumer.
    Revoked {
        /// The count of these deliveries.
        deliveries: usize,
        /// The count of those that had not begun, and were given back at once.
        given_back: usize,
    },
    /// Leases were to be extended.
    Renewed {
        /// The count of leases that were extended.
        count: usize,
        /// The count of claims that turned out to be lost.
        lost: usize,
    },
    /// A sweep removed records that had passed their window.
    Swept {
        /// Records removed.
        removed: u64,
        /// Started operations found in doubt.
        doubted: u64,
    },
}

/// The reason why a pipeline begins no more effects for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Pause {
    /// The target was not reached at all.
    TargetAway,
    /// One and the same failure came so often in a row that it is not the messages' own.
    TargetFailing,
    /// The program that handles the messages ends before its first answer, or answers with nonsense.
    HandlerBroken,
}

impl Pause {
    /// Every cause.
    pub const ALL: &[Self] = &[Self::TargetAway, Self::TargetFailing, Self::HandlerBroken];

    /// Returns the code of this cause.
    pub const fn code(self) -> Code {
        match self {
            Self::TargetAway => Code::TargetAway,
            Self::TargetFailing => Code::TargetFailing,
            Self::HandlerBroken => Code::HandlerBroken,
        }
    }
}

/// The reason why a message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Wait {
    /// Another claimant has its operation.
    Busy,
    /// An attempt failed, and the next is due later.
    Backoff,
    /// An earlier message of its order key is in hand.
    Order,
    /// The store did not decide about it.
    Store,
    /// Its dead letter is not confirmed by the broker that it goes to.
    DeadLetter,
}

impl Wait {
    /// Every reason.
    pub const ALL: &[Self] = &[
        Self::Busy,
        Self::Backoff,
        Self::Order,
        Self::Store,
        Self::DeadLetter,
    ];
}

/// The message that an event is about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Origin<'a> {
    /// The place where it was read.
    pub coordinates: &'a str,
    /// Its headers, in the order of the broker.
    pub headers: &'a [(ByteString, Bytes)],
    /// The message; empty where it is not told.
    pub payload: &'a [u8],
    /// The span of the attempt with it, if anybody wants spans.
    pub span: Option<TraceContext>,
}

impl<'a> Origin<'a> {
    /// Returns the origin of a message with these headers, read at `coordinates`.
    pub const fn new(coordinates: &'a str, headers: &'a [(ByteString, Bytes)]) -> Self {
        Self {
            coordinates,
            headers,
            payload: &[],
            span: None,
        }
    }

    /// Adds the message itself.
    #[must_use]
    pub const fn with_payload(self, payload: &'a [u8]) -> Self {
        Self { payload, ..self }
    }

    /// Returns the same of a message that is worked on in a span.
    #[must_use]
    pub const fn in_span(self, span: Option<TraceContext>) -> Self {
        Self { span, ..self }
    }
}

/// Watches the engine. Called on the engine's own task: be quick.
pub trait Observer: Send + Sync + 'static {
    /// Notes `event` of a pipeline.
    fn observe(&self, pipeline: &str, event: &Event<'_>);

    /// Notes an event that concerns one message; calls [`observe`](Self::observe) unless the observer wants to
    /// know the message too.
    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        let _ = origin;
        self.observe(pipeline, event);
    }

    /// Tells whether anybody looks at what is noted. What is found out only to be told, such as the text of a failure or
    /// whether two outcomes differ, is not found out otherwise.
    fn is_watching(&self) -> bool {
        true
    }

    /// Returns the share of traces to record of those that begin here, if the observer wants spans. Asked once per
    /// run of a consumer, and once per handle for calls; if nobody wants any, none are gathered.
    fn wants_spans(&self) -> Option<SampleShare> {
        None
    }

    /// Notes the spans of an attempt that has ended, with a message or with an item of a call, if they
    /// [are recorded](Spans::are_recorded).
    fn observe_spans(&self, pipeline: &str, spans: &Spans<'_>) {
        let _ = (pipeline, spans);
    }
}

/// Tells several observers, in their order.
#[derive(Clone)]
pub struct FanOut(Arc<[Arc<dyn Observer>]>);

impl FanOut {
    /// Returns an observer that tells all of `observers`.
    pub fn new(observers: impl IntoIterator<Item = Arc<dyn Observer>>) -> Self {
        Self(observers.into_iter().collect())
    }
}

impl Observer for FanOut {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        for observer in &*self.0 {
            observer.observe(pipeline, event);
        }
    }

    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        for observer in &*self.0 {
            observer.observe_message(pipeline, event, origin);
        }
    }

    fn is_watching(&self) -> bool {
        self.0.iter().any(|observer| observer.is_watching())
    }

    /// Returns the share of the first that wants any.
    fn wants_spans(&self) -> Option<SampleShare> {
        self.0.iter().find_map(|observer| observer.wants_spans())
    }

    fn observe_spans(&self, pipeline: &str, spans: &Spans<'_>) {
        for observer in &*self.0 {
            observer.observe_spans(pipeline, spans);
        }
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _pipeline: &str, _event: &Event<'_>) {}

    fn is_watching(&self) -> bool {
        false
    }
}
