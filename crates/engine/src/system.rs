//! The one real clock and the one entropy source. Nothing else in this crate is impure.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use semel_core::{Clock, Entropy, Timestamp};

/// The machine's clocks.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: std::time::Instant,
}

impl SystemClock {
    /// Returns a clock whose monotonic origin is now.
    #[expect(clippy::disallowed_methods, reason = "this is the one real clock")]
    pub fn new() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one real clock")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// The operating system's random numbers. Each thread fetches some in advance: a call to the system for the
/// bytes of one claim id costs more than everything else that is done for the id.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        ADVANCE.with_borrow_mut(|advance| {
            if advance.left < bytes.len() {
                if bytes.len() > AT_ONCE {
                    return from_system(bytes);
                }
                from_system(&mut advance.bytes);
                advance.left = AT_ONCE;
            }
            let end = advance.left;
            advance.left -= bytes.len();
            let handed = &mut advance.bytes[advance.left..end];
            bytes.copy_from_slice(handed);
            // Bytes that were handed out must not be found out later.
            handed.fill(0);
        });
    }
}

fn from_system(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system hands out random bytes");
}

thread_local! {
    static ADVANCE: RefCell<Advance> = const { RefCell::new(Advance { bytes: [0; AT_ONCE], left: 0 }) };
}

/// Random bytes that were never handed out; taken from the end.
struct Advance {
    bytes: [u8; AT_ONCE],
    left: usize,
}

const AT_ONCE: usize = 512;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_random_bytes_are_handed_out_twice() {
        let mut seen = BTreeSet::new();
        for length in (16..200).chain([2_000; 3]).cycle().take(3_000) {
            let mut bytes = vec![0; length];
            SystemEntropy.fill(&mut bytes);
            for piece in bytes.as_chunks::<16>().0 {
                assert!(seen.insert(*piece), "{piece:?}");
            }
        }
    }
}
