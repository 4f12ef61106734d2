//! The events of a relay, for whoever watches it.

use std::time::Duration;

use semel_core::outbox::OutboxId;
use semel_core::{Error, TraceContext};

use crate::publication::PublicationSpan;

/// A decision or incident of a relay. Borrowed: an observer copies what it keeps.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The process publishes so many partitions now; told when the number changes.
    Leased {
        /// Their number.
        partitions: usize,
    },
    /// Leases ran out or changed hands while the process counted on them: it was stopped for too long, or cut off from
    /// the outbox. What it published meanwhile may be published again, under the same ids.
    Fenced {
        /// The number of partitions.
        partitions: usize,
    },
    /// Messages were published and recorded.
    Published {
        /// Their number.
        count: u64,
    },
    /// Messages were published, and the run ends before the outbox has taken that. They are published again, under the
    /// same ids, unless the answer of the outbox alone was lost.
    Unrecorded {
        /// Their number.
        count: u64,
        /// The reason.
        error: &'a Error,
    },
    /// A message could not be published, and is tried again later. What has its order key waits. Of those of a batch
    /// whose tries are not counted, the first is told.
    PutOff {
        /// The message.
        id: OutboxId,
        /// The reason, one line without secrets.
        error: &'a str,
        /// The time until the next try.
        wait: Duration,
        /// The span of the try, if anybody wants spans.
        span: Option<TraceContext>,
    },
    /// A message will never be published as it is. What has its order key waits until a person decides.
    Dead {
        /// The message.
        id: OutboxId,
        /// The reason, one line without secrets.
        error: &'a str,
        /// The span of the last try, if anybody wants spans.
        span: Option<TraceContext>,
    },
    /// The sink takes no message at all now; told once.
    SinkAway {
        /// The reason.
        error: &'a Error,
    },
    /// The sink takes messages again.
    SinkBack {
        /// The time for which it was away.
        lasted: Duration,
    },
    /// The outbox cannot be reached; told once.
    OutboxAway {
        /// The reason.
        error: &'a Error,
    },
    /// The outbox answers again.
    OutboxBack {
        /// The time for which it was away.
        lasted: Duration,
    },
}

/// Receives the events of a relay.
pub trait Observer: Send + Sync {
    /// Takes an event. It is called between the steps of the relay: one that waits holds it up.
    fn observe(&self, relay: &str, event: &Event<'_>);

    /// Returns whether anybody wants spans. Otherwise nobody asks for one, and the headers of no message are read for it.
    fn wants_spans(&self) -> bool {
        false
    }

    /// Returns the span under which a message is tried that came with this one; nothing if it gets none.
    ///
    /// The message names it as that of its producer. It is of the trace that it came with, if it came with one.
    fn span_of(&self, id: OutboxId, parent: Option<TraceContext>) -> Option<TraceContext> {
        let _ = (id, parent);
        None
    }

    /// Takes the span of a try that is over, if it is recorded.
    fn observe_span(&self, relay: &str, span: &PublicationSpan<'_>) {
        let _ = (relay, span);
    }
}
