//! Sees a runtime that hangs: a task that no longer gets its turn, watched from a thread of its own.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// The turns of a runtime, and how many of them were missed in a row.
#[derive(Debug)]
pub(super) struct Watchdog {
    every: Duration,
    turns: AtomicU64,
    missed: AtomicU32,
}

impl Watchdog {
    /// Expects a turn of the runtime in each such time.
    pub(super) const fn new(every: Duration) -> Self {
        Self {
            every,
            turns: AtomicU64::new(0),
            missed: AtomicU32::new(0),
        }
    }

    /// Takes turns, in the runtime that is watched, for as long as the future is polled.
    pub(super) async fn take_turns(&self) {
        loop {
            self.turns.fetch_add(1, Ordering::Relaxed);
            sleep(self.every).await;
        }
    }

    /// Watches from another runtime, for as long as the future is polled. It goes by its own turns and by no clock: while
    /// the process is stopped, or the machine sleeps, neither side has any.
    pub(super) async fn watch(&self) {
        let mut seen = self.turns.load(Ordering::Relaxed);
        loop {
            sleep(self.every).await;
            let turns = self.turns.load(Ordering::Relaxed);
            if turns == seen {
                self.missed.fetch_add(1, Ordering::Relaxed);
            } else {
                self.missed.store(0, Ordering::Relaxed);
            }
            seen = turns;
        }
    }

    /// Returns the time for which the runtime has hung, if that is long.
    pub(super) fn hung_for(&self) -> Option<Duration> {
        let missed = self.missed.load(Ordering::Relaxed);
        (missed >= MOST_MISSED).then(|| self.every * missed)
    }
}

/// The turns that a busy machine may cost.
const MOST_MISSED: u32 = 10;
