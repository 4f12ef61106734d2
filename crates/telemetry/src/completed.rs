//! The keys that this process has completed, remembered roughly: an attempt at one of them began after its record had
//! gone. Not for deciding anything: it only counts.

use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use foldhash::quality::RandomState;
use semel_core::Operation;

/// Hashes of completed keys, in tables of fixed size: all keys in the first, each 16th in the second and each 256th in
/// the third, so that the tables reach back to different times.
///
/// A place holds 32 bits of the hash of the key that came there last. So each table remembers about as many of its last
/// keys as it has [`PLACES`]: after as many more completions, 37 % of the keys of a moment are still there. A key that was
/// never completed is taken for one that was with a probability of 2⁻³² for each table, one in four billion.
///
/// # Cost   1 MiB for the first table, which every key touches, and so fits a processor's second cache; 4 MiB for each of
/// the others, from its first key on; a hash and an access to memory for each key, no lock
#[derive(Debug)]
pub(crate) struct CompletedKeys {
    hasher: RandomState,
    tables: [OnceLock<Box<[AtomicU32]>>; SAMPLES.len()],
    places: [usize; SAMPLES.len()],
}

impl CompletedKeys {
    pub(crate) fn new() -> Self {
        Self::with_places(PLACES)
    }

    /// Returns tables of so many places, powers of two.
    fn with_places(places: [usize; SAMPLES.len()]) -> Self {
        debug_assert!(places.iter().all(|it| it.is_power_of_two()));
        Self {
            hasher: RandomState::default(),
            tables: [const { OnceLock::new() }; SAMPLES.len()],
            places,
        }
    }

    /// Remembers a key that was completed.
    pub(crate) fn insert(&self, operation: &Operation) {
        let hash = self.hasher.hash_one(operation);
        let mark = mark(hash);
        for ((table, sample), count) in self.tables.iter().zip(SAMPLES).zip(self.places) {
            if is_in(sample, hash) {
                let places = table.get_or_init(|| empty(count));
                places[place(hash, count)].store(mark, Ordering::Relaxed);
            }
        }
    }

    /// Forgets a key that begins; returns whether it is known to have been completed.
    pub(crate) fn take(&self, operation: &Operation) -> bool {
        let hash = self.hasher.hash_one(operation);
        let mark = mark(hash);
        let mut was_there = false;
        for (table, sample) in self.tables.iter().zip(SAMPLES) {
            if is_in(sample, hash)
                && let Some(places) = table.get()
                && let at = &places[place(hash, places.len())]
                && at.load(Ordering::Relaxed) == mark
            {
                let taken = at.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
                was_there |= taken.is_ok();
            }
        }
        was_there
    }
}

/// Returns the place of a hash among `count`, a power of two.
fn place(hash: u64, count: usize) -> usize {
    usize::try_from(hash & 0xFFFF_FFFF).unwrap_or_default() & (count - 1)
}

/// Returns the mark that a hash leaves at its place, which is not zero.
fn mark(hash: u64) -> u32 {
    u32::try_from(hash >> 32).unwrap_or_default().max(1)
}

/// Tells whether a table that takes each `sample`th key takes this one, by bits that are no part of the place.
const fn is_in(sample: u64, hash: u64) -> bool {
    (hash >> 24).is_multiple_of(sample)
}

fn empty(places: usize) -> Box<[AtomicU32]> {
    (0..places).map(|_| AtomicU32::new(0)).collect()
}

/// The number of keys of which each table takes one.
const SAMPLES: [u64; 3] = [1, 16, 256];
/// The places of each table.
const PLACES: [usize; SAMPLES.len()] = [1 << 18, 1 << 20, 1 << 20];

#[cfg(test)]
mod tests {
    use semel_core::{Key, Scope};

    use super::*;

    fn operation(number: u64) -> Operation {
        let scope = Scope::new("", "pay").expect("a scope");
        Operation::new(scope, Key::from(number))
    }

    #[test]
    fn a_key_that_was_completed_is_known_once() {
        let keys = CompletedKeys::new();
        for number in 0..1_000 {
            assert!(!keys.take(&operation(number)), "nothing is there yet");
            keys.insert(&operation(number));
        }
        let known = (0..1_000).filter(|number| keys.take(&operation(*number)));
        // One may have come to the place of another, with a probability of a thousandth each.
        assert!(known.count() >= 980);
        let again = (0..1_000).filter(|number| keys.take(&operation(*number)));
        assert_eq!(again.count(), 0, "each of them is taken");
    }

    #[test]
    fn a_key_that_was_not_completed_is_not_taken_for_one_that_was() {
        let keys = CompletedKeys::with_places([1 << 10; 3]);
        for number in 0..50_000 {
            keys.insert(&operation(number));
        }
        let strange = (50_000..150_000).filter(|number| keys.take(&operation(*number)));
        assert_eq!(strange.count(), 0);
    }

    #[test]
    fn a_sample_of_the_keys_is_known_for_longer() {
        let keys = CompletedKeys::with_places([1 << 10; 3]);
        for number in 0..102_400 {
            keys.insert(&operation(number));
        }
        // A hundred times as many keys as places came after the oldest: one of 256 is still there.
        let old = (0..20_000).filter(|number| keys.take(&operation(*number)));
        let old = old.count();
        assert!((20..150).contains(&old), "{old}");
        let new = (101_900..102_400).filter(|number| keys.take(&operation(*number)));
        assert!(new.count() > 300);
    }
}
