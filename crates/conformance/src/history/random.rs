//! Chance from a seed: xorshift64*, so that a seed means the same everywhere and for ever.

/// A source of chance.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The source of this seed.
    pub(crate) const fn new(seed: u64) -> Self {
        // Neighbouring seeds must not begin alike, and zero must not stay zero.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `bound`.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    /// True once in `times`.
    pub(crate) const fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `choices`.
    pub(crate) fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        let at = self.below(choices.len() as u64);
        choices[usize::try_from(at).unwrap_or(0)].clone()
    }
}
