//! Seeded random numbers.

use std::time::{Duration, Instant};

/// A seeded generator (xorshift64*): good enough to pick moments, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Moments(u64);

impl Moments {
    /// The generator of `seed`; `SEMEL_SEED` overrides it.
    pub fn seeded(seed: u64) -> Self {
        let seed = std::env::var("SEMEL_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(seed);
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The generator of one of several that share a seed, also where `SEMEL_SEED` overrides it.
    #[must_use]
    pub fn apart(self, number: u64) -> Self {
        let number = number.wrapping_add(1).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let mut it = Self((self.0 ^ number) | 1);
        // Neighbours begin alike.
        for _ in 0..8 {
            it.below(2);
        }
        it
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) % bound.max(1)
    }

    /// A duration between the two.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(self.below(span + 1))
    }
}

/// This moment.
#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_of_one_seed_stand_apart() {
        let drawn = |number| {
            let mut moments = Moments::seeded(191).apart(number);
            [(); 4].map(|()| moments.below(1_000_000))
        };
        let all: std::collections::BTreeSet<_> = (0..1_000).map(drawn).collect();
        assert_eq!(all.len(), 1_000);
        assert_eq!(drawn(7), drawn(7), "each is repeatable");
    }
}
