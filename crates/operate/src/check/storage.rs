//! The space that a store will take.

use std::num::NonZeroU32;

use semel_config::{ServerKind, StoreUrl};
use semel_core::Window;
use serde::Serialize;

/// The space of one key, and of all keys at a given rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// Bytes on disk, for keys of 16 bytes; outcomes come on top.
    pub disk_bytes_per_key: u64,
    /// Bytes in memory.
    pub memory_bytes_per_key: u64,
    /// The space of all keys, if a rate is known.
    pub at_rate: Option<AtRate>,
}

/// The space of all keys at a rate of new keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AtRate {
    /// New keys.
    pub keys_per_second: u32,
    /// Keys that are remembered at once when the window is full.
    pub keys: u64,
    /// Bytes on disk at that time.
    pub disk_bytes: u64,
    /// Bytes in memory at that time.
    pub memory_bytes: u64,
    /// Bytes on disk after thirty days.
    pub first_month_disk_bytes: u64,
}

impl Storage {
    /// Estimates the space of a store at `store`, from measurements of each kind of store.
    pub fn of(store: &StoreUrl, window: Window, rate: Option<NonZeroU32>) -> Self {
        let (disk, memory) = match store {
            StoreUrl::Memory => (0, 400),
            StoreUrl::Embedded(_) => (106, 24),
            StoreUrl::Sqlite(_) => (207, 0),
            StoreUrl::Server(url) => match url.kind() {
                ServerKind::Postgres => (420, 0),
                ServerKind::Mysql => (380, 0),
                ServerKind::Redis => (440, 440),
            },
        };
        Self {
            disk_bytes_per_key: disk,
            memory_bytes_per_key: memory,
            at_rate: rate.map(|rate| {
                let secs = window.duration().as_secs_f64();
                // A record may stay an eighth of its window and one second longer.
                let longest = secs * 1.125 + 1.0;
                let keys = times(rate, longest);
                AtRate {
                    keys_per_second: rate.get(),
                    keys,
                    disk_bytes: keys.saturating_mul(disk),
                    memory_bytes: keys.saturating_mul(memory),
                    first_month_disk_bytes: times(rate, longest.min(MONTH_SECS))
                        .saturating_mul(disk),
                }
            }),
        }
    }
}

impl Storage {
    /// Returns the bytes on disk when the window is full, if a rate is known.
    pub fn disk_bytes(&self) -> Option<u64> {
        self.at_rate.as_ref().map(|at| at.disk_bytes)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, of positive numbers; a cast stops at the largest"
)]
fn times(rate: NonZeroU32, secs: f64) -> u64 {
    (f64::from(rate.get()) * secs).round() as u64
}

const MONTH_SECS: f64 = 30.0 * 86_400.0;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_rate_fills_the_window_and_an_eighth_more() {
        let window = Window::new(Duration::from_secs(7 * 86_400));
        let store = StoreUrl::Embedded("data".into());
        let storage = Storage::of(&store, window, NonZeroU32::new(50));
        let at = storage.at_rate.expect("a rate");
        assert_eq!(at.keys, 50 * (604_800 + 75_600 + 1));
        assert_eq!(at.disk_bytes, at.keys * 106);
        assert_eq!(at.first_month_disk_bytes, at.disk_bytes, "then it is full");
        let year = Window::new(Duration::from_secs(365 * 86_400));
        let storage = Storage::of(&store, year, NonZeroU32::new(1));
        let at = storage.at_rate.expect("a rate");
        assert_eq!(at.first_month_disk_bytes, 2_592_000 * 106);
        let forever = Window::new(Duration::MAX);
        let storage = Storage::of(&store, forever, Some(NonZeroU32::MAX));
        assert_eq!(storage.at_rate.expect("a rate").keys, u64::MAX);
    }
}
