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
