//! The figures of a layer about its requests. Decisions about keys are events of the engine, and counted there.

use std::sync::atomic::{AtomicU64, Ordering};

/// The requests of a layer so far, as far as no record tells of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that passed without a key.
    pub keyless: u64,
    /// Requests that were refused before their key was looked at.
    pub refused: u64,
    /// Requests that passed without protection, since the store was away.
    pub unprotected: u64,
    /// In shadow: requests that the route would have let through for the first time.
    pub shadow_first: u64,
    /// In shadow: requests that the route would have answered itself.
    pub shadow_replayed: u64,
    /// In shadow: requests whose key the route would have refused as reused.
    pub shadow_conflicts: u64,
    /// In shadow: requests of which nobody can say whether the route would have kept their answer, since its meaning is in
    /// trailers, which pass unread.
    pub shadow_unjudged: u64,
    /// In shadow: requests whose key could not be recorded, since the store was away or their body too large.
    pub shadow_unrecorded: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) keyless: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) unprotected: AtomicU64,
    pub(crate) shadow_first: AtomicU64,
    pub(crate) shadow_replayed: AtomicU64,
    pub(crate) shadow_conflicts: AtomicU64,
    pub(crate) shadow_unjudged: AtomicU64,
    pub(crate) shadow_unrecorded: AtomicU64,
}

impl Counters {
    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            keyless: read(&self.keyless),
            refused: read(&self.refused),
            unprotected: read(&self.unprotected),
            shadow_first: read(&self.shadow_first),
            shadow_replayed: read(&self.shadow_replayed),
            shadow_conflicts: read(&self.shadow_conflicts),
            shadow_unjudged: read(&self.shadow_unjudged),
            shadow_unrecorded: read(&self.shadow_unrecorded),
        }
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
