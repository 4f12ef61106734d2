//! The share of messages whose payload came a moment ago under another key: a producer that gives each attempt to send
//! a new id makes its duplicates look new.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::Operation;

/// The payloads that began of late and their keys, as hashes in tables of fixed size.
///
/// A message counts once, however often it is tried: keys that began of late are known, and begin no more. A place of
/// the payloads holds 32 bits each of the hashes of a payload and of its key, those that came there last, so that the table
/// knows about the last [`PLACES`] payloads, and no longer than [`RECENT`]. Two payloads are equal that are equally long
/// and equal in their first [`READ_BYTES`]; empty ones are equal to none.
///
/// # Cost   768 KiB; a hash of the key for each first attempt, and one of the payload for each message, no lock
#[derive(Debug)]
pub(crate) struct Churn {
    hasher: RandomState,
    places: Box<[AtomicU64]>,
    /// Parts of the hashes of the keys that came last to each place.
    keys: Box<[AtomicU32]>,
    begun: AtomicU64,
    churned: AtomicU64,
    samples: Mutex<Samples>,
}

/// Counts since the start, with the time at which they were taken; the first is the beginning of the recent time.
#[derive(Debug, Default)]
struct Samples {
    taken: VecDeque<(Duration, [u64; 2])>,
    cleared_at: Duration,
}

impl Churn {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            keys: (0..PLACES).map(|_| AtomicU32::new(0)).collect(),
            begun: AtomicU64::new(0),
            churned: AtomicU64::new(0),
            samples: Mutex::default(),
        }
    }

    /// Notes that a first attempt began for a message. One that costs no attempt is followed by another first one.
    pub(crate) fn begins(&self, payload: &[u8], operation: &Operation) {
        if payload.is_empty() {
            return;
        }
        let key = self.hasher.hash_one(operation);
        let part = u32::try_from(key >> 32).unwrap_or_default();
        if self.keys[place(key)].swap(part, Ordering::Relaxed) == part {
            return;
        }
        let key = key & LOW;
        self.begun.fetch_add(1, Ordering::Relaxed);
        let read = &payload[..payload.len().min(READ_BYTES)];
        // Two tenants may well send the same.
        let content = (read, payload.len(), operation.scope.tenant());
        let payload = self.hasher.hash_one(content);
        let mark = (payload & !LOW) | key;
        let found = self.places[place(payload)].swap(mark, Ordering::Relaxed);
        let is_churn = found != 0 && found & !LOW == mark & !LOW && found & LOW != key;
        self.churned.fetch_add(is_churn.into(), Ordering::Relaxed);
    }

    /// Returns the share of what began in the last [`RECENT`]. To be called every few seconds.
    #[expect(clippy::cast_precision_loss, reason = "a share of two counts")]
    pub(crate) fn look(&self, now: Duration) -> f64 {
        let counts = [&self.begun, &self.churned].map(|it| it.load(Ordering::Relaxed));
        let mut samples = self.lock();
        if now.saturating_sub(samples.cleared_at) >= RECENT {
            samples.cleared_at = now;
            for place in &self.places {
                place.store(0, Ordering::Relaxed);
            }
            for key in &self.keys {
                key.store(0, Ordering::Relaxed);
            }
        }
        let taken = &mut samples.taken;
        if taken
            .back()
            .is_none_or(|(at, _)| now.saturating_sub(*at) >= STEP)
        {
            taken.push_back((now, counts));
        }
        while taken
            .get(1)
            .is_some_and(|(at, _)| now.saturating_sub(*at) >= RECENT)
        {
            taken.pop_front();
        }
        let before = taken.front().map_or([0, 0], |(_, counts)| *counts);
        let [begun, churned] = [0, 1].map(|it| counts[it].saturating_sub(before[it]));
        churned as f64 / begun.max(1) as f64
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the place of a hash, by its low bits.
fn place(hash: u64) -> usize {
    usize::try_from(hash & LOW).unwrap_or_default() & (PLACES - 1)
}

const LOW: u64 = 0xFFFF_FFFF;
/// The places of the table.
const PLACES: usize = 1 << 16;
/// The time of which the share is taken.
const RECENT: Duration = Duration::from_secs(5 * 60);
/// The time between two samples.
const STEP: Duration = Duration::from_secs(5);
/// The bytes of a payload that are read.
const READ_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use semel_core::{Key, Scope};

    use super::*;

    fn key(number: u64) -> Operation {
        let scope = Scope::new("", "pay").expect("a scope");
        Operation::new(scope, Key::from(number))
    }

    #[track_caller]
    fn is(churn: &Churn, second: u64, share: f64) {
        let found = churn.look(Duration::from_secs(second));
        assert!((found - share).abs() < 1e-9, "{found}");
    }

    #[test]
    fn equal_payloads_under_other_keys_are_the_share() {
        let churn = Churn::new();
        is(&churn, 0, 0.0);
        for number in 0..75 {
            churn.begins(format!("payload {number}").as_bytes(), &key(number));
        }
        is(&churn, 1, 0.0);
        // One payload under 26 keys: all but the first come under another.
        for number in 0..26 {
            churn.begins(b"the same", &key(1_000 + number));
        }
        is(&churn, 2, 25.0 / 101.0);
    }

    #[test]
    fn another_attempt_and_an_empty_payload_are_none() {
        let churn = Churn::new();
        is(&churn, 0, 0.0);
        for number in 0..10 {
            churn.begins(b"the same", &key(1));
            churn.begins(b"", &key(number));
        }
        is(&churn, 1, 0.0);
    }

    /// Attempts that cost none, such as those at a target that is away, are first ones again and again.
    #[test]
    fn equal_payloads_of_two_tenants_are_none() {
        let churn = Churn::new();
        is(&churn, 0, 0.0);
        for number in 0..100 {
            for tenant in ["acme", "other"] {
                let scope = Scope::new(tenant, "pay").expect("a scope");
                let operation = Operation::new(scope, Key::from(number));
                churn.begins(format!("payload {number}").as_bytes(), &operation);
            }
        }
        is(&churn, 1, 0.0);
    }

    #[test]
    fn messages_that_begin_in_turns_count_once() {
        let churn = Churn::new();
        is(&churn, 0, 0.0);
        for _ in 0..3 {
            churn.begins(b"the same", &key(1));
            churn.begins(b"the same", &key(2));
        }
        is(&churn, 1, 0.5);
    }

    #[test]
    fn payloads_that_differ_in_length_or_at_their_beginning_are_not_equal() {
        let churn = Churn::new();
        is(&churn, 0, 0.0);
        let mut long = vec![b'x'; 10_000];
        churn.begins(&long, &key(1));
        churn.begins(&long[1..], &key(2));
        long[0] = b'y';
        churn.begins(&long, &key(3));
        is(&churn, 1, 0.0);
    }

    #[test]
    fn what_is_five_minutes_past_counts_no_more() {
        let churn = Churn::new();
        is(&churn, 0, 0.0);
        for number in 0..10 {
            churn.begins(b"the same", &key(number));
        }
        is(&churn, 10, 0.9);
        for second in (20..=310).step_by(10) {
            churn.look(Duration::from_secs(second));
        }
        is(&churn, 320, 0.0);
        // Nor is it compared with what comes now.
        churn.begins(b"the same", &key(99));
        is(&churn, 330, 0.0);
    }
}
