//! The course of one seed: its draws, its time, its faults, and what happened so far.

use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{Clock, Timestamp};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::seeded::dice::{Dice, Site};
use crate::seeded::scenario::Told;

/// The course of a seed.
pub(super) struct Course {
    seed: u64,
    began: Instant,
    /// True where nothing ever goes wrong, but slowly.
    is_calm: bool,
    notes: Mutex<Notes>,
    /// Work that goes on whatever becomes of whoever began it.
    under_way: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Notes {
    is_over: bool,
    blows: u64,
    told: Told,
}

impl Course {
    pub(super) fn new(seed: u64, is_calm: bool) -> Self {
        Self {
            seed,
            began: Instant::now(),
            is_calm,
            notes: Mutex::default(),
            under_way: Mutex::default(),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Draws for a step of a process.
    pub(super) fn dice(&self, path: &[u64]) -> Dice {
        Dice::new(self.seed, Site::at(path))
    }

    /// Returns whether something may go wrong now.
    pub(super) fn is_faulty(&self) -> bool {
        !self.is_calm && !self.notes().is_over
    }

    /// Ends the faults.
    pub(super) fn calm(&self) {
        self.notes().is_over = true;
    }

    pub(super) fn log(&self, words: fmt::Arguments<'_>) {
        let at = self.now().as_millis();
        // A string takes everything.
        let _ = writeln!(self.notes().told.log, "{at} {words}");
    }

    pub(super) fn violation(&self, what: String) {
        self.log(format_args!("broken: {what}"));
        self.notes().told.violations.push(what);
    }

    /// Notes a fault after which something may be done again.
    pub(super) fn blow(&self, kind: &'static str) {
        self.log(format_args!("{kind}"));
        let mut notes = self.notes();
        notes.blows += 1;
        *notes.told.faults.entry(kind).or_default() += 1;
    }

    /// Returns the number of such faults.
    pub(super) fn blows(&self) -> u64 {
        self.notes().blows
    }

    /// Notes a hard case.
    pub(super) fn saw(&self, case: &'static str) {
        *self.notes().told.seen.entry(case).or_default() += 1;
    }

    pub(super) fn fenced(&self) {
        self.notes().told.fenced += 1;
    }

    pub(super) fn takeovers(&self, count: u64) {
        self.notes().told.takeovers += count;
    }

    /// Begins work that a kill does not end.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut under_way = self
            .under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        under_way.spawn(work);
    }

    /// Waits for what is under way. Nobody who waited for it knows if it panicked.
    pub(super) async fn end(&self) {
        let mut under_way = {
            let under_way = self.under_way.lock();
            std::mem::take(&mut *under_way.unwrap_or_else(PoisonError::into_inner))
        };
        while let Some(joined) = under_way.join_next().await {
            if joined.is_err() {
                self.violation("what was under way panicked".to_owned());
            }
        }
    }

    /// Returns what happened, once.
    pub(super) fn told(&self) -> Told {
        std::mem::take(&mut self.notes().told)
    }
}

/// The clock of all processes.
impl Clock for Course {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.plus(self.now())
    }

    fn monotonic(&self) -> Duration {
        self.now()
    }
}

/// Plays what `tell` tells, in a runtime of its own whose time is paused.
pub(super) fn played(tell: impl Future<Output = Told>) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let failed = |why: String| Told {
        violations: vec![why],
        ..Told::default()
    };
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(format!("no runtime: {error}")),
    };
    let played = catch_unwind(AssertUnwindSafe(|| runtime.block_on(tell)));
    played.unwrap_or_else(|_| failed("the story panicked".to_owned()))
}

pub(super) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}
