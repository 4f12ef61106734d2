//! One typed event per decision, for whoever observes: metrics, traces, a console, a log.

use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::DeliveryId;
use semel_core::{
    ByteString, Code, Differing, Duplicate, Error, FencingToken, Grant, Operation, StateKind,
    Unusable,
};

use crate::summary::Fate;

/// Something that the engine decided or met. Borrowed: an observer copies what it keeps.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt begins.
    Granted {
        /// The operation.
        operation: &'a Operation,
        /// Says which attempt it is, and whether it is a takeover, a resumption or a possible repeat.
        grant: Grant,
    },
    /// The effect happened and is recorded. Acknowledged next.
    Completed {
        /// The operation.
        operation: &'a Operation,
    },
    /// A duplicate of something finished. Acknowledged next.
    Replayed {
        /// The operation.
        operation: &'a Operation,
        /// How it came about.
        duplicate: Duplicate,
    },
    /// Somebody else is at it, or a retry is due later. Held back.
    Busy {
        /// The operation.
        operation: &'a Operation,
        /// How long it is held back.
        wait: Duration,
    },
    /// The key was used with another request. Quarantined.
    Conflicted {
        /// The operation.
        operation: &'a Operation,
        /// Where the message was read.
        coordinates: &'a str,
        /// How it came about.
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
        /// Where the message was read.
        coordinates: &'a str,
    },
    /// No record, and a replay id, while the effect is for live messages alone. Quarantined.
    LiveOnly {
        /// The operation.
        operation: &'a Operation,
        /// Where the message was read.
        coordinates: &'a str,
    },
    /// No usable key. Quarantined.
    Unusable {
        /// Where the message was read.
        coordinates: &'a str,
        /// Why.
        unusable: &'a Unusable,
    },
    /// The attempt failed; another follows.
    Released {
        /// The operation.
        operation: &'a Operation,
        /// Why, one line.
        error: &'a str,
        /// When the next attempt is due.
        wait: Duration,
    },
    /// Failed for good or out of attempts. A dead letter is kept.
    Dead {
        /// The operation.
        operation: &'a Operation,
        /// Where the message was read.
        coordinates: &'a str,
        /// Why, one line.
        error: &'a str,
    },
    /// Nobody knows whether the effect happened; a record says so.
    InDoubt {
        /// The operation.
        operation: &'a Operation,
        /// Where the message was read.
        coordinates: &'a str,
        /// Why nobody knows.
        error: &'a str,
    },
    /// A message met an operation that is dead or in doubt already.
    Parked {
        /// The operation.
        operation: &'a Operation,
        /// Where the message was read.
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
    /// A delivery met its fate and is acknowledged next.
    Settled {
        /// The delivery.
        delivery: DeliveryId,
        /// What became of it.
        fate: Fate,
    },
    /// The store failed, or the target of an output; the call is repeated.
    StoreFailed {
        /// How.
        error: &'a Error,
        /// When it is repeated.
        wait: Duration,
    },
    /// The store has failed so often and for so long that it is left alone from now on, but for one
    /// probe at a time. Told once, by whichever pipeline met the last failure.
    BreakerOpened {
        /// The last failure.
        error: &'a Error,
        /// When it is tried again at first.
        wait: Duration,
    },
    /// The store answers again. Told once, by whichever pipeline got the answer.
    BreakerClosed {
        /// How long the store was away, from the first failure.
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
        /// Why.
        error: &'a Error,
    },
    /// The broker of the source is there again, after it was told that it is away.
    SourceBack {
        /// For how long it was.
        lasted: Duration,
    },
    /// There is nothing to fetch, and others of the source's consumer have deliveries in hand. One that
    /// vanished leaves them to the broker's patience.
    Elsewhere {
        /// How many.
        deliveries: u64,
        /// When the broker takes back those that nobody extends, at the latest.
        within: Duration,
    },
    /// The place that an effect publishes to, or that dead letters go to, takes none now; it is tried
    /// again, and what waits for it is not acknowledged.
    TargetAway {
        /// Why.
        error: &'a Error,
        /// When it is tried again.
        wait: Duration,
    },
    /// The place that was told to be away takes what is published again.
    TargetBack {
        /// For how long it was away.
        lasted: Duration,
    },
    /// The pipeline begins no more effects, but for one message at a time that tries its target. Told once when
    /// it begins; another one, of another cause, takes its place.
    Paused {
        /// What is wrong.
        cause: Pause,
        /// The failure, one line without secrets.
        error: &'a str,
        /// When the first message is tried.
        wait: Duration,
    },
    /// The pause is over. Told once.
    Resumed {
        /// What was wrong last.
        cause: Pause,
        /// How long the pause took, from its first cause on.
        lasted: Duration,
    },
    /// The broker takes no such dead letter, whenever it is tried. It is in the store alone, and the
    /// delivery is acknowledged.
    DeadLetterRefused {
        /// Where the message was read.
        coordinates: &'a str,
        /// Why.
        error: &'a Error,
    },
    /// Deliveries are about to belong to another consumer.
    Revoked {
        /// How many.
        deliveries: usize,
        /// How many of them had not begun, and were given back at once.
        given_back: usize,
    },
    /// Leases were extended.
    Renewed {
        /// How many.
        count: usize,
    },
    /// A sweep removed what had passed its window.
    Swept {
        /// Records removed.
        removed: u64,
        /// Started operations found in doubt.
        doubted: u64,
    },
}

/// Why a pipeline begins no more effects for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Pause {
    /// The target was not reached at all.
    TargetAway,
    /// One and the same failure came so often in a row that it is none of the messages.
    TargetFailing,
    /// The program that is handed the messages ends before its first answer, or answers with nonsense.
    HandlerBroken,
}

impl Pause {
    /// Every cause.
    pub const ALL: &[Self] = &[Self::TargetAway, Self::TargetFailing, Self::HandlerBroken];

    /// Its code.
    pub const fn code(self) -> Code {
        match self {
            Self::TargetAway => Code::TargetAway,
            Self::TargetFailing => Code::TargetFailing,
            Self::HandlerBroken => Code::HandlerBroken,
        }
    }
}

/// The message that an event is about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Origin<'a> {
    /// Where it was read.
    pub coordinates: &'a str,
    /// Its headers, in the order of the broker.
    pub headers: &'a [(ByteString, Bytes)],
}

impl<'a> Origin<'a> {
    /// The message with these headers, read there.
    pub const fn new(coordinates: &'a str, headers: &'a [(ByteString, Bytes)]) -> Self {
        Self {
            coordinates,
            headers,
        }
    }
}

/// Watches the engine. Called on the engine's own task: be quick.
pub trait Observer: Send + Sync + 'static {
    /// Takes note of `event` of a pipeline.
    fn observe(&self, pipeline: &str, event: &Event<'_>);

    /// The same for what concerns one message; goes to [`observe`](Self::observe) unless the
    /// observer wants to know the message too.
    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        let _ = origin;
        self.observe(pipeline, event);
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _pipeline: &str, _event: &Event<'_>) {}
}
