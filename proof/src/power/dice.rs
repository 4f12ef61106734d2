//! Random draws that can be repeated: `SplitMix64`.

#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 up to `end`, without it.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// From 1 up to `end`; small numbers as often as great ones of the same number of digits.
    pub(crate) fn by_digits(&mut self, end: u64) -> u64 {
        let bits = u64::from(u64::BITS - end.leading_zeros());
        let limit = 1_u64 << self.below(bits + 1).min(62);
        1 + self.below(limit.min(end.max(1)))
    }
}
