//! A kit for tests of your own handlers: a clock that is set by hand, a store that fails on cue, a
//! source from a list. No sleeping, no service. (Feature `testing`.)
//!
//! ```
//! use std::time::Duration;
//! use semel::testing::{Fault, StoreCall, Testbed};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let bed = Testbed::new();
//! let (semel, faults) = bed.failing();
//! faults.next(StoreCall::Settle, Fault::LoseAnswer);
//! let receipt = semel.once("charge", "pay-1", async |_| Ok(42)).await?;
//! assert_eq!(*receipt.value(), 42, "the lost answer was asked for again");
//!
//! bed.clock().advance(Duration::from_secs(8 * 86_400));
//! let again = bed.semel().once("charge", "pay-1", async |_| Ok(43)).await?;
//! assert!(!again.is_replay(), "the window of seven days is over");
//! # Ok(())
//! # }
//! ```
//!
//! Waits inside Semel (backoff, time limits, renewals) are timers of tokio: under
//! `#[tokio::test(start_paused = true)]` they pass at once, and the clock of the bed moves with them.

mod clock;
mod faults;
mod source;

pub use clock::TestClock;
pub use faults::{Fault, Faults, StoreCall};
pub use source::{Acknowledged, ListSource};

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::{Entropy, Operation};
use semel_engine::event::{Event, Observer};
use semel_store_memory::MemoryStore;

use crate::Semel;
use faults::Failing;

/// One store in memory, one clock, and as many processes over them as a test wants.
#[derive(Clone, Debug)]
pub struct Testbed {
    store: Arc<MemoryStore>,
    clock: TestClock,
    chance: Chance,
    seen: Arc<Seen>,
}

impl Testbed {
    /// An empty store, at 2026-11-21T10:00:00Z.
    pub fn new() -> Self {
        let clock = TestClock::new();
        Self {
            store: Arc::new(MemoryStore::new(Arc::new(clock.clone()))),
            clock,
            chance: Chance::default(),
            seen: Arc::new(Seen::default()),
        }
    }

    /// A process over the bed's store. No sweep runs in the background.
    pub fn semel(&self) -> Semel {
        self.failing().0
    }

    /// A process over the bed's store, and the faults of its store calls.
    pub fn failing(&self) -> (Semel, Faults) {
        let faults = Faults::default();
        let store = Failing::new(Arc::clone(&self.store), faults.clone());
        let builder = Semel::builder()
            .clock(self.clock.clone())
            .entropy(self.chance.clone())
            .observer(Arc::clone(&self.seen) as Arc<dyn Observer>)
            .sweep_every(None);
        (builder.with_store(store), faults)
    }

    /// The clock of the store and of every process.
    pub const fn clock(&self) -> &TestClock {
        &self.clock
    }

    /// The store itself, which never fails.
    pub fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store)
    }

    /// The decisions of all processes so far, in order, one line each: `granted pay-1 attempt 1`,
    /// `completed pay-1`, `replayed pay-1`.
    pub fn events(&self) -> Vec<String> {
        locked(&self.seen.0).clone()
    }
}

impl Default for Testbed {
    fn default() -> Self {
        Self::new()
    }
}

/// Different bytes at every draw, the same in every run.
#[derive(Clone, Debug, Default)]
struct Chance(Arc<Mutex<u64>>);

impl Entropy for Chance {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let mut drawn = locked(&self.0);
            *drawn += 1;
            // One to one, so that no two draws of eight bytes are equal.
            let mixed = drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = mixed ^ (mixed >> 29);
            chunk.copy_from_slice(&mixed.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Remembers every event as a line.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<String>>);

impl Observer for Seen {
    fn observe(&self, _name: &str, event: &Event<'_>) {
        let of = |what: &str, operation: &Operation| format!("{what} {}", operation.key);
        let line = match event {
            Event::Granted { operation, grant } => {
                let line = of("granted", operation);
                let takeover = if grant.takeover { " takeover" } else { "" };
                format!("{line} attempt {}{takeover}", grant.attempt)
            }
            Event::Completed { operation, .. } => of("completed", operation),
            Event::Replayed { operation, .. } => of("replayed", operation),
            Event::Busy { operation, .. } => of("busy", operation),
            Event::Conflicted { operation, .. } => of("conflicted", operation),
            Event::Stale { operation, .. } => of("stale", operation),
            Event::TooOld { operation, .. } => of("too old", operation),
            Event::LiveOnly { operation, .. } => of("live only", operation),
            Event::Released { operation, .. } => of("released", operation),
            Event::Dead { operation, .. } => of("dead", operation),
            Event::InDoubt { operation, .. } => of("in doubt", operation),
            Event::Parked { operation, .. } => of("parked", operation),
            Event::Fenced { operation, .. } => of("fenced", operation),
            Event::OutcomeDiffers { operation } => of("outcome differs", operation),
            Event::Unusable { unusable, .. } => format!("unusable {}", unusable.code()),
            Event::StoreFailed { error, .. } => format!("store failed: {error}"),
            Event::Renewed { count, .. } => format!("renewed {count}"),
            // Figures, which differ from run to run.
            Event::EffectEnded { .. } | Event::InHand { .. } | Event::Waits { .. } => return,
            Event::Swept { removed, .. } => format!("swept {removed}"),
            // New events get their line here.
            other => format!("{other:?}"),
        };
        locked(&self.0).push(line);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
