//! Counts of the fates that the deliveries of a run met.

use std::time::Duration;

pub use semel_core::Fate;

/// Counts of a run. Each delivery counts once, by its final fate, however many attempts it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Deliveries by fate, in the order of [`Fate`].
    fates: [u64; 10],
    /// Claims that took the place of one whose lease ran out.
    pub takeovers: u64,
    /// Claims that were lost while their effect ran: results discarded.
    pub fenced: u64,
    /// Calls of the effect that began without a claim while the store was away, whatever their end.
    pub unprotected_calls: u64,
    /// Deliveries with a replay id, whatever their fate.
    pub sent_again: u64,
    /// Those of them that an effect for live messages alone did not get; they are among the
    /// quarantined.
    pub suppressed: u64,
    /// Wall time of the run.
    pub elapsed: Duration,
}

impl Summary {
    /// Counts one delivery.
    pub fn count(&mut self, fate: Fate) {
        self.fates[fate as usize] += 1;
    }

    /// Counts several deliveries of one fate.
    pub fn count_many(&mut self, fate: Fate, count: u64) {
        self.fates[fate as usize] += count;
    }

    /// Returns the count of deliveries that met `fate`.
    pub const fn of(&self, fate: Fate) -> u64 {
        self.fates[fate as usize]
    }

    /// Returns the counts of this run and another one together.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (count, others) in self.fates.iter_mut().zip(&other.fates) {
            *count += others;
        }
        self.takeovers += other.takeovers;
        self.fenced += other.fenced;
        self.unprotected_calls += other.unprotected_calls;
        self.sent_again += other.sent_again;
        self.suppressed += other.suppressed;
        self.elapsed += other.elapsed;
        self
    }

    /// Returns the count of all deliveries.
    pub fn deliveries(&self) -> u64 {
        self.fates.iter().sum()
    }
}
