//! Count of new keys in a row: decides whether an insert may hope that all of its keys are new.

use std::sync::atomic::{AtomicU64, Ordering};

/// Keys in a row that were new, over all claims of a store.
///
/// `ON CONFLICT` looks up each key before it inserts it, a fifth of the server's cost of a claim. An insert without it
/// is undone whole by one key that is there; it is tried only after so many new keys that it saves far more than such a
/// key wastes. The answers are the same: the guard is the primary key either way. Source: decision 0021.
#[derive(Debug)]
pub(crate) struct NewKeyRun {
    keys: AtomicU64,
}

impl NewKeyRun {
    /// Returns a run of so many keys.
    pub(crate) const fn of(keys: u64) -> Self {
        Self {
            keys: AtomicU64::new(keys),
        }
    }

    /// Returns whether it is worth hoping for a batch of this many keys.
    pub(crate) fn is_worth_hoping(&self, keys: usize) -> bool {
        // It only guesses, so it need not be in step with anything.
        self.keys.load(Ordering::Relaxed) >= LONG.max(keys as u64 * FAR_MORE)
    }

    /// Notes that all of this many keys were new.
    pub(crate) fn goes_on(&self, keys: usize) {
        self.keys.fetch_add(keys as u64, Ordering::Relaxed);
    }

    /// Notes that a key was there.
    pub(crate) fn ends(&self) {
        self.keys.store(0, Ordering::Relaxed);
    }
}

/// New keys in a row from which on it hopes. The server writes a line in its log for each insert that it undoes: a
/// stream with more repeats than that has none.
const LONG: u64 = 1 << 16;
/// Batches that must have gone well for one that may be undone.
const FAR_MORE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_hopes_after_many_new_keys_and_not_after_one_that_was_there() {
        let new_key_run = NewKeyRun::of(65_535);
        assert!(!new_key_run.is_worth_hoping(1));
        new_key_run.goes_on(1);
        assert!(new_key_run.is_worth_hoping(1_024));
        assert!(!new_key_run.is_worth_hoping(1_025));
        new_key_run.ends();
        assert!(!new_key_run.is_worth_hoping(1));
    }
}
