//! The rules of a producer, and what it did.

use std::time::Duration;

/// The most messages that are handed over, appended and sent at once.
pub const MOST_AT_ONCE: u32 = 2_000;

/// The most bytes that are handed over at once: contents, headers, ids and order keys.
pub const MOST_BYTES_AT_ONCE: usize = 32 << 20;

/// The most messages that are sent again when a process dies, or the broker.
pub const MOST_UNCONFIRMED: u64 = 4_000;

/// The rules of a producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerSettings {
    /// True if the sink may leave out a message and take a later one: then a call has one message of each order key, so
    /// that one that fails holds up those behind it.
    pub is_sent_in_waves: bool,
    /// The time for which the broker itself drops what it has already, if that is known; zero for one that drops nothing
    /// that another process sends again.
    pub broker_window: Option<Duration>,
}

/// The counts of a producer from its opening to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerSummary {
    /// Messages that the sink confirmed.
    pub published: u64,
    /// Of those, messages that an earlier opening had left: perhaps they were there already, under the same ids.
    pub repeated: u64,
    /// Messages that were perhaps sent before, and were sent again later than the broker's own memory of ids goes.
    pub late: u64,
    /// Messages that were sent again, under the same id, since a call of the sink had failed after they were perhaps sent.
    pub resent: u64,
    /// Confirmed messages of which the broker said that it had one with the same id already, and dropped the second.
    pub duplicates: u64,
    /// Messages that the sink takes in no case.
    pub refused: u64,
    /// Messages that are in the journal and not confirmed, since the producer is frozen or was stopped.
    pub kept: u64,
}
