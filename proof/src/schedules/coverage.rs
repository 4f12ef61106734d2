//! The cases that occurred while a scenario was played. Its locks are no places to stop at.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Shared by all orders of one scenario.
pub(super) struct Coverage {
    played: AtomicU64,
    /// The first random number of this order, for scenarios with dice of their own.
    chance: AtomicU64,
    seen: Vec<(&'static str, AtomicU64)>,
    broken: Mutex<Option<(u64, String)>>,
}

impl Coverage {
    pub(super) fn new(seen: &[&'static str]) -> Arc<Self> {
        Arc::new(Self {
            played: AtomicU64::new(0),
            chance: AtomicU64::new(0),
            seen: seen.iter().map(|case| (*case, AtomicU64::new(0))).collect(),
            broken: Mutex::default(),
        })
    }

    /// Begins another order.
    pub(super) fn begins(&self) {
        self.played.fetch_add(1, Ordering::Relaxed);
        self.chance.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins a block of orders, which this seed fixes.
    pub(super) fn block(&self, seed: u64) {
        self.chance.store(seed << 32, Ordering::Relaxed);
    }

    /// The first random number of this order.
    pub(super) fn chance(&self) -> u64 {
        self.chance.load(Ordering::Relaxed)
    }

    /// Orders that began.
    pub(super) fn played(&self) -> u64 {
        self.played.load(Ordering::Relaxed)
    }

    /// Notes whether a case occurred in this order.
    pub(super) fn saw(&self, case: &str, whether: bool) {
        let known = self.seen.iter().find(|(known, _)| *known == case);
        let (_, count) = known.expect("a case that the scenario names");
        count.fetch_add(u64::from(whether), Ordering::Relaxed);
    }

    /// Notes that a law is broken, unless one was before. Does not panic: the threads run to their
    /// end.
    pub(super) fn law(&self, holds: bool, else_say: impl FnOnce() -> String) {
        if !holds {
            let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            broken.get_or_insert_with(|| (self.played(), else_say()));
        }
    }

    /// The number of the first order that broke the law, and how.
    pub(super) fn broken(&self) -> Option<(u64, String)> {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.clone()
    }

    pub(super) fn seen(&self) -> BTreeMap<String, u64> {
        let seen = self.seen.iter();
        seen.map(|(case, count)| ((*case).to_owned(), count.load(Ordering::Relaxed)))
            .collect()
    }
}
