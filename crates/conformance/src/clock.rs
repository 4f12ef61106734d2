//! A clock that stands still until a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::{Clock, Timestamp};

/// A clock that moves only when a test moves it. Clones share the time.
#[derive(Clone, Debug)]
pub struct TestClock(Arc<AtomicU64>);

impl TestClock {
    /// A clock that shows 2026-11-21T10:00:00Z.
    pub fn new() -> Self {
        Self(Arc::new(AtomicU64::new(START_MILLIS)))
    }

    /// Moves the time on.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst) - START_MILLIS)
    }
}

const START_MILLIS: u64 = 1_795_255_200_000;
