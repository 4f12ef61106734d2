//! The rules of a relay, and what it did.

use std::num::NonZeroU32;
use std::time::Duration;

use semel_core::Backoff;

/// The rules of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The time for which a partition is leased; it is renewed after a third.
    pub lease: Duration,
    /// The tries after which a message that keeps failing, while the sink takes others, is dead. An outage counts none.
    pub attempts: NonZeroU32,
    /// The pauses between the tries of a message.
    pub backoff: Backoff,
    /// The time for which published messages are kept; none to remove them at once.
    pub keep: Option<Duration>,
    /// The time that a publication under way has once a stop is asked for.
    pub patience: Duration,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Messages that were published and recorded.
    pub published: u64,
    /// Tries that failed and were counted, those of dead messages left out.
    pub put_off: u64,
    /// Messages that are dead.
    pub dead: u64,
    /// Messages that were published when the run ended, and could not be recorded: they are published again, under the
    /// same ids.
    pub unrecorded: u64,
    /// The time from begin to end.
    pub elapsed: Duration,
}

impl Summary {
    /// The counts of both runs.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            published: self.published + other.published,
            put_off: self.put_off + other.put_off,
            dead: self.dead + other.dead,
            unrecorded: self.unrecorded + other.unrecorded,
            elapsed: self.elapsed.saturating_add(other.elapsed),
        }
    }
}
