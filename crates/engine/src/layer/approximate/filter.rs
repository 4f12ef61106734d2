//! A Bloom filter of fixed size.

use std::hash::Hasher as _;

use semel_core::OpId;
use siphasher::sip128::{Hasher128, SipHasher13};

/// The place of a key in every filter with the same salt: two hashes from which all bits follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place(u64, u64);

impl Place {
    /// Returns the place of an operation. The salt keeps outsiders from choosing keys that look like
    /// one another.
    pub(super) fn of(id: &OpId, salt: (u64, u64)) -> Self {
        let mut hasher = SipHasher13::new_with_keys(salt.0, salt.1);
        hasher.write(id.as_bytes());
        let hash = hasher.finish128();
        Self(hash.h1, hash.h2 | 1)
    }

    fn bits(self, hashes: u32, len: u64) -> impl Iterator<Item = u64> {
        (0..u64::from(hashes)).map(move |nth| self.0.wrapping_add(nth.wrapping_mul(self.1)) % len)
    }
}

/// A set of keys that may mistake a strange key for one of its own, and never the other way round.
#[derive(Debug)]
pub(super) struct Filter {
    words: Vec<u64>,
    hashes: u32,
    len: u64,
    most: u64,
    ones: u64,
}

impl Filter {
    /// Returns a filter that mistakes a strange key for one of its own with `error_rate` once it has
    /// `most` keys.
    pub(super) fn new(most: u64, error_rate: f64) -> Self {
        let (len, hashes) = dimensions(most, error_rate);
        let words = usize::try_from(len.div_ceil(64)).unwrap_or(usize::MAX);
        Self {
            words: vec![0; words],
            hashes,
            len: words as u64 * 64,
            most,
            ones: 0,
        }
    }

    /// Returns the bytes of such a filter.
    pub(super) fn bytes_for(most: u64, error_rate: f64) -> u64 {
        dimensions(most, error_rate)
            .0
            .div_ceil(64)
            .saturating_mul(8)
    }

    pub(super) fn contains(&self, place: Place) -> bool {
        let mut bits = place.bits(self.hashes, self.len);
        bits.all(|bit| self.words[word(bit)] & mask(bit) != 0)
    }

    pub(super) fn insert(&mut self, place: Place) {
        for bit in place.bits(self.hashes, self.len) {
            let word = &mut self.words[word(bit)];
            self.ones += u64::from(*word & mask(bit) == 0);
            *word |= mask(bit);
        }
    }

    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    /// Returns how likely the filter, as full as it is, mistakes a strange key for one of its own.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_wrap,
        reason = "an estimate of a share"
    )]
    pub(super) fn error_rate(&self) -> f64 {
        (self.ones as f64 / self.len as f64).powi(self.hashes as i32)
    }
}

/// Returns bits and hashes: n keys at rate p take -n ln p / ln² 2 bits and -log₂ p hashes.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded up, and far below the limits of the types"
)]
fn dimensions(most: u64, error_rate: f64) -> (u64, u32) {
    let hashes = (-error_rate.log2()).ceil().clamp(1.0, 64.0);
    // For this many hashes, not for the best number, which is not a whole one.
    let share = error_rate.powf(1.0 / hashes);
    let bits = -hashes * most.max(1) as f64 / (1.0 - share).ln();
    ((bits.ceil() as u64).saturating_add(64), hashes as u32)
}

fn word(bit: u64) -> usize {
    usize::try_from(bit / 64).unwrap_or(usize::MAX)
}

const fn mask(bit: u64) -> u64 {
    1 << (bit % 64)
}
