//! Time is tokio's paused clock; entropy is a counter that is obviously not random.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::{Clock, Entropy, Timestamp};
use tokio::time::Instant;

use super::stop::Stop;

/// Wall clock and monotonic clock at once; both move as tokio's does.
#[derive(Clone, Copy, Debug)]
pub struct PausedClock {
    origin: Instant,
}

impl PausedClock {
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The time since the world began.
    pub fn elapsed(self) -> Duration {
        self.origin.elapsed()
    }
}

impl Clock for PausedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START_MILLIS).plus(self.elapsed())
    }

    fn monotonic(&self) -> Duration {
        self.elapsed()
    }
}

/// The same clock, at one look of which a request is made, as another thread can make it between any two steps of a run.
#[derive(Debug)]
pub struct AskingClock {
    clock: PausedClock,
    request: Stop,
    at_look: u64,
    looks: AtomicU64,
    asked_at: OnceLock<Duration>,
}

impl AskingClock {
    pub const fn new(clock: PausedClock, request: Stop, at_look: u64) -> Self {
        Self {
            clock,
            request,
            at_look,
            looks: AtomicU64::new(0),
            asked_at: OnceLock::new(),
        }
    }

    /// The time since the world began at which the request was made, if it was.
    pub fn asked_at(&self) -> Option<Duration> {
        self.asked_at.get().copied()
    }
}

impl Clock for AskingClock {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn monotonic(&self) -> Duration {
        let now = self.clock.monotonic();
        if self.looks.fetch_add(1, Ordering::Relaxed) + 1 == self.at_look {
            self.asked_at.get_or_init(|| now);
            self.request.request();
        }
        now
    }
}

/// Different bytes at every call, the same in every run.
#[derive(Debug, Default)]
pub struct Chance(AtomicU64);

impl Chance {
    /// Draws that are the same for the same seed.
    pub const fn seeded(seed: u64) -> Self {
        Self(AtomicU64::new(mix(seed)))
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

/// `SplitMix64`: one to one, so that no two draws are equal.
const fn mix(count: u64) -> u64 {
    let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// 2026-11-21T10:00:00Z.
const START_MILLIS: u64 = 1_795_255_200_000;
