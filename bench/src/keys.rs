//! Keys like random UUIDs, a tenth of which repeat one of the last million.

/// A seeded stream of keys; the same as in `rivals/rocksdb.cc`.
pub(crate) struct Keys {
    state: u64,
    window: Vec<u64>,
    made: usize,
}

impl Keys {
    pub(crate) fn seeded(seed: u64) -> Self {
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self {
            state,
            window: vec![0; WINDOW],
            made: 0,
        }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn key(&mut self) -> String {
        let number = if self.made > 0 && self.next() >> 32 < (1 << 32) / 10 {
            let span = self.made.min(WINDOW) as u64;
            let back = usize::try_from((self.next() >> 11) % span).unwrap_or(0);
            self.window[(self.made - 1 - back) % WINDOW]
        } else {
            let number = self.next();
            self.window[self.made % WINDOW] = number;
            self.made += 1;
            number
        };
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            number >> 32,
            number >> 16 & 0xffff,
            number & 0xffff,
            number.wrapping_mul(31) & 0xffff,
            number.wrapping_mul(0x9E37_79B9_7F4A_7C15) & 0xffff_ffff_ffff
        )
    }
}

const WINDOW: usize = 1_000_000;
