//! A clock that moves with tokio's, and by hand.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::{Clock, Timestamp};
use tokio::time::Instant;

use super::locked;

/// Wall clock and monotonic clock at once. Clones show the same time.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<Hands>);

#[derive(Debug)]
struct Hands {
    origin: Instant,
    advanced: Mutex<Duration>,
}

impl TestClock {
    /// A clock at 2026-11-21T10:00:00Z.
    pub fn new() -> Self {
        Self(Arc::new(Hands {
            origin: Instant::now(),
            advanced: Mutex::default(),
        }))
    }

    /// Moves the clock on. Timers of tokio do not notice: waiting tasks go on waiting.
    pub fn advance(&self, by: Duration) {
        *locked(&self.0.advanced) += by;
    }

    /// The time by which the clock has moved.
    pub fn elapsed(&self) -> Duration {
        self.0.origin.elapsed() + *locked(&self.0.advanced)
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START_MILLIS).plus(self.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.elapsed()
    }
}

/// 2026-11-21T10:00:00Z.
const START_MILLIS: u64 = 1_795_255_200_000;
