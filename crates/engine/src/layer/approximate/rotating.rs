//! Two generations of filters: a key is remembered at least one window and at most two.
//!
//! A generation that gets more keys than declared grows by another filter with half the error, so that
//! the declared error rate still holds; up to a limit, beyond which no new keys are accepted.

use std::time::Duration;

use semel_core::OpId;

use super::filter::{Filter, Place};

/// The keys of the last one to two windows.
#[derive(Debug)]
pub(super) struct Rotating {
    young: Generation,
    old: Generation,
    /// The beginning of the younger generation, in monotonic time.
    began: Duration,
    window: Duration,
    salt: (u64, u64),
    keys: u64,
    error_rate: f64,
}

#[derive(Debug, Default)]
struct Generation {
    filters: Vec<Filter>,
    len: u64,
}

impl Rotating {
    /// Returns generations for `keys` in each `window`, which mistake a strange key for a known one
    /// with at most `error_rate`.
    pub(super) fn new(
        (keys, error_rate): (u64, f64),
        window: Duration,
        now: Duration,
        salt: (u64, u64),
    ) -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
            began: now,
            window,
            salt,
            keys,
            error_rate,
        }
    }

    /// Returns the bytes for the declared keys in both generations.
    pub(super) fn bytes_for(keys: u64, error_rate: f64) -> u64 {
        Filter::bytes_for(keys, error_rate / 4.0).saturating_mul(2)
    }

    /// Forgets the keys that have been remembered long enough.
    pub(super) fn rotate(&mut self, now: Duration) {
        let age = now.saturating_sub(self.began);
        if age < self.window || semel_core::planted("A02") {
            return;
        }
        let young = std::mem::take(&mut self.young);
        if semel_core::planted("A01") || age >= self.window * 2 {
            self.old = Generation::default();
            self.began = now;
        } else {
            self.old = young;
            self.began += self.window;
        }
    }

    pub(super) fn place(&self, id: &OpId) -> Place {
        Place::of(id, self.salt)
    }

    pub(super) fn contains(&self, place: Place) -> bool {
        self.young.contains(place) || self.old.contains(place)
    }

    /// Remembers a key.
    pub(super) fn insert(&mut self, place: Place) {
        let (keys, error_rate) = (self.keys, self.error_rate);
        self.young.insert(place, keys, error_rate);
    }

    /// Tells whether another `count` keys can be remembered at the declared error rate.
    pub(super) const fn has_room(&self, count: u64) -> bool {
        let most = self.keys.saturating_mul(MOST_FILTERS as u64);
        self.young.len.saturating_add(count) <= most
    }

    /// Returns the time at which the older generation is dropped, in monotonic time.
    pub(super) fn rotates_at(&self) -> Duration {
        self.began + self.window
    }

    /// Counts the keys remembered; those that came twice count twice.
    pub(super) const fn len(&self) -> u64 {
        self.young.len + self.old.len
    }

    pub(super) fn bytes(&self) -> u64 {
        self.filters().map(Filter::bytes).sum()
    }

    /// Returns how likely a strange key is mistaken for a known one, as full as the filters are.
    pub(super) fn error_rate(&self) -> f64 {
        let missed = self.filters().map(|filter| 1.0 - filter.error_rate());
        1.0 - missed.product::<f64>()
    }

    fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.young.filters.iter().chain(&self.old.filters)
    }
}

impl Generation {
    fn contains(&self, place: Place) -> bool {
        self.filters.iter().any(|filter| filter.contains(place))
    }

    /// Adds a key. The errors of all filters of both generations sum up to less than `error_rate`.
    fn insert(&mut self, place: Place, keys: u64, error_rate: f64) {
        let room: u64 = self.filters.iter().map(Filter::most).sum();
        if self.len >= room {
            let halvings = u32::try_from(self.filters.len()).unwrap_or(u32::MAX);
            let error_rate = error_rate / 4.0 / 2_f64.powi(halvings.cast_signed());
            self.filters.push(Filter::new(keys, error_rate));
        }
        self.len += 1;
        if let Some(filter) = self.filters.last_mut() {
            filter.insert(place);
        }
    }
}

/// Filters of one generation: a generation takes this many times the declared keys.
pub(super) const MOST_FILTERS: usize = 4;
