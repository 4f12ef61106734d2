//! Makes inputs from a corpus: a few changes to one of its inputs, the same for the same seed.

use std::collections::BTreeMap;

/// A seeded source of changes: `SplitMix64`.
pub(super) struct Mutator(u64);

impl Mutator {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An input, and in `dealt` the changes that were made to it.
    pub(super) fn input(
        &mut self,
        corpus: &[Vec<u8>],
        words: &[&[u8]],
        dealt: &mut BTreeMap<String, u64>,
    ) -> Vec<u8> {
        let mut input = self.one_of(corpus).cloned().unwrap_or_default();
        loop {
            let kind = self.change(&mut input, corpus, words);
            *dealt.entry(kind.to_owned()).or_default() += 1;
            if self.below(3) == 0 {
                input.truncate(LONGEST);
                return input;
            }
        }
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&[u8]]) -> &'static str {
        let at = self.below(input.len() + 1);
        let end = (at + self.length()).min(input.len());
        match self.below(8) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
                "bit flipped"
            }
            1 => {
                let byte = self.byte();
                if let Some(place) = input.get_mut(at) {
                    *place = byte;
                }
                "byte replaced"
            }
            2 => {
                input.drain(at..end);
                "piece removed"
            }
            3 => {
                let piece = input[at..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, piece);
                "piece doubled"
            }
            4 => {
                input.truncate(at);
                "cut off"
            }
            5 => {
                let other = self.one_of(corpus).cloned().unwrap_or_default();
                let from = self.below(other.len() + 1);
                let to = (from + self.length()).min(other.len());
                // Overwrites bytes, or inserts between them.
                let over = if self.below(2) == 0 { end } else { at };
                input.splice(at..over, other[from..to].iter().copied());
                "spliced"
            }
            6 => {
                let word = self.one_of(words).copied().unwrap_or_default();
                let over = if self.below(2) == 0 { end } else { at };
                input.splice(at..over, word.iter().copied());
                "word put in"
            }
            _ => {
                let length = self.one_of(LENGTHS).copied().unwrap_or_default();
                let bytes = length.to_le_bytes();
                let end = (at + bytes.len()).min(input.len());
                input.splice(at..end, bytes);
                "length set"
            }
        }
    }

    /// A length, mostly short.
    fn length(&mut self) -> usize {
        let most = 1 << self.below(8);
        1 + self.below(most)
    }

    fn byte(&mut self) -> u8 {
        let [byte, ..] = self.next().to_le_bytes();
        byte
    }

    fn one_of<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        things.get(self.below(things.len()))
    }

    /// Below `bound`, or 0.
    fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }
}

/// Numbers at which lengths are often read wrong.
const LENGTHS: &[u32] = &[
    0,
    1,
    7,
    8,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
];
const LONGEST: usize = 1 << 16;
