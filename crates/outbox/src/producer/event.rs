//! The events of a producer, for whoever watches it.

use std::time::Duration;

use semel_core::Error;

/// A decision or incident of a producer. Borrowed: an observer copies what it keeps.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProducerEvent<'a> {
    /// An earlier opening has left messages, which are sent first.
    Repeated {
        /// Their number.
        count: u64,
    },
    /// Messages that were perhaps sent before are sent again later than the broker's own memory of ids goes: only readers
    /// that go by ids drop the second one. Told once.
    Late {
        /// The time for which the broker remembers.
        window: Duration,
    },
    /// The sink confirmed messages.
    Published {
        /// Their number.
        count: u64,
    },
    /// The broker said of confirmed messages that it had them already, and dropped the second of each.
    Duplicates {
        /// Their number.
        count: u64,
    },
    /// The sink takes this message in no case. It is in no stream, and its sequence is left out.
    Refused {
        /// The sequence.
        sequence: u64,
        /// The reason, one line without secrets.
        error: &'a str,
    },
    /// The sink takes nothing now; told once.
    SinkAway {
        /// The reason.
        error: &'a Error,
    },
    /// The sink has not answered for a while; told once a call.
    SinkSilent {
        /// The time since the call.
        since: Duration,
    },
    /// The sink takes messages again.
    SinkBack {
        /// The time for which it was away.
        lasted: Duration,
    },
    /// The journal cannot be written now; told once.
    JournalAway {
        /// The reason.
        error: &'a Error,
    },
    /// The journal can be written again.
    JournalBack {
        /// The time for which it was away.
        lasted: Duration,
    },
    /// The producer is frozen: messages are kept, and not sent.
    Frozen,
    /// It is frozen no more.
    Thawed,
}

/// Receives the events of a producer.
pub trait ProducerObserver: Send + Sync + 'static {
    /// Takes one event; must not block.
    fn observe(&self, event: &ProducerEvent<'_>);
}

impl ProducerObserver for () {
    fn observe(&self, _: &ProducerEvent<'_>) {}
}
