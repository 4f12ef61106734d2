//! Random draws without shared state: every draw is made from the seed and the place that asks, so that switching
//! off one fault leaves all others unchanged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::Entropy;

/// `SplitMix64`: one to one, so that no two draws are equal.
pub(crate) const fn mix(count: u64) -> u64 {
    let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A place in a scenario where something may happen, the same in each run of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(u64);

impl Site {
    /// The place that these numbers lead to.
    pub(crate) fn at(path: &[u64]) -> Self {
        let step = |place: u64, number: &u64| mix(place ^ number.wrapping_add(1));
        Self(path.iter().fold(0x5e3e_1000, step))
    }
}

/// Draws for one place.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, site: Site) -> Self {
        Self(mix(seed) ^ site.0)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `below`, which is not zero.
    pub(crate) fn roll(&mut self, below: u64) -> u64 {
        self.draw() % below
    }

    /// A place below `below`, which is not zero.
    pub(crate) fn place(&mut self, below: usize) -> usize {
        usize::try_from(self.roll(below as u64)).unwrap_or_default()
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.roll(many) == 0
    }

    /// From `from` to just before `to`, in whole milliseconds.
    pub(crate) fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let span = to.saturating_sub(from).as_millis().max(1);
        from + Duration::from_millis(self.roll(u64::try_from(span).unwrap_or(u64::MAX)))
    }

    /// One of these, by their weights; `None` if none has any.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(u64, T)]) -> Option<T> {
        let all: u64 = choices.iter().map(|(weight, _)| weight).sum();
        let mut rest = self.roll(all.max(1));
        choices.iter().find_map(|&(weight, choice)| {
            let is_it = rest < weight;
            rest = rest.saturating_sub(weight);
            is_it.then_some(choice)
        })
    }
}

/// The entropy of one worker's life.
#[derive(Debug)]
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn new(seed: u64, site: Site) -> Self {
        Self(AtomicU64::new(mix(mix(seed) ^ site.0)))
    }
}

impl Entropy for Chance {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = mix(self.0.fetch_add(1, Ordering::Relaxed));
            chunk.copy_from_slice(&drawn.to_le_bytes()[..chunk.len()]);
        }
    }
}
