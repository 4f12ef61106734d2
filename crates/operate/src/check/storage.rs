//! The space that a store will take.

use std::num::NonZeroU32;

use semel_config::{ServerKind, StoreUrl};
use semel_core::Window;
use semel_core::fingerprint::{FingerprintSelector, Members};
use serde::{Deserialize, Serialize};

/// The space of one key, and of all keys at a given rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Storage {
    /// Bytes on disk, for keys of 16 bytes; outcomes come on top. With the payload as fingerprint, for messages of
    /// eight members.
    pub disk_bytes_per_key: u64,
    /// Bytes in memory.
    pub memory_bytes_per_key: u64,
    /// The space of all keys, if a rate is known.
    pub at_rate: Option<AtRate>,
}

/// The space of all keys at a rate of new keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    ///
    /// Each was measured over 100,000 keys of 16 random digits with empty outcomes, after a clean end of the run:
    ///
    /// | Bytes a key | no fingerprint | no members | 2 members | 8 members | 32 members | by |
    /// |---|---|---|---|---|---|---|
    /// | embedded | 85 | 105 | 116 | 140 | 237 | its files |
    /// | SQLite | 186 | 208 | 220 | 249 | 332 | its file |
    /// | PostgreSQL | 397 | 407 | | 507 | | `pg_total_relation_size` |
    /// | MariaDB | 351 | 383 | 393 | 424 | | `information_schema` after `analyze table` |
    /// | Redis | 410 | 458 | 458 | 529 | | `used_memory` of `INFO memory`, before and after |
    ///
    /// The effect was a file, over Redis a keyed call. A keyed call is marked before it begins, so tables have more
    /// dead rows: with 8 members PostgreSQL took 613 bytes, MariaDB 447. A request of more than [`Members::MAX`]
    /// members keeps none.
    pub fn of(
        store: &StoreUrl,
        fingerprint: &FingerprintSelector,
        window: Window,
        rate: Option<NonZeroU32>,
    ) -> Self {
        let members = members(fingerprint);
        let [without, with, of_a_member] = match store {
            StoreUrl::Memory => [0; 3],
            StoreUrl::Embedded(_) => [85, 108, 4],
            StoreUrl::Sqlite(_) => [186, 217, 4],
            StoreUrl::Server(url) => match url.kind() {
                ServerKind::Postgres => [397, 407, 12],
                ServerKind::Mysql => [351, 384, 5],
                ServerKind::Redis => [410, 449, 10],
            },
        };
        let disk = members.map_or(without, |count| with + count * of_a_member);
        let memory = match store {
            StoreUrl::Memory => 400,
            StoreUrl::Embedded(_) => 24,
            StoreUrl::Server(url) if url.kind() == ServerKind::Redis => disk,
            StoreUrl::Sqlite(_) | StoreUrl::Server(_) => 0,
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

/// The number of members that a record keeps beside its fingerprint; nothing if it has none.
fn members(fingerprint: &FingerprintSelector) -> Option<u64> {
    match fingerprint {
        FingerprintSelector::None => None,
        FingerprintSelector::Payload => Some(MEMBERS_OF_A_PAYLOAD),
        FingerprintSelector::Fields(fields) => {
            let count = fields.selectors().len();
            Some(if count > Members::MAX {
                0
            } else {
                count as u64
            })
        }
    }
}

/// The members that a message is taken to have at its outermost level, since no setting tells.
const MEMBERS_OF_A_PAYLOAD: u64 = 8;

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

    use semel_config::Servers;

    use super::*;

    const SERVERS: Servers = Servers {
        is_built_in: |_| true,
        check: |_| Ok(()),
    };
    const PAYLOAD: FingerprintSelector = FingerprintSelector::Payload;

    #[test]
    fn a_record_takes_as_much_as_was_measured_for_the_members_that_it_keeps() {
        let fields = |count: usize| {
            let selectors = (0..count).map(|number| format!("json:/{number}").parse());
            let selectors = selectors.collect::<Result<_, _>>().expect("selectors");
            FingerprintSelector::fields(selectors).expect("some")
        };
        let window = Window::new(Duration::from_secs(1));
        let told = |store: &str, fingerprint: &FingerprintSelector| {
            let store = StoreUrl::parse(store, SERVERS).expect("a url");
            let storage = Storage::of(&store, fingerprint, window, None);
            (storage.disk_bytes_per_key, storage.memory_bytes_per_key)
        };
        for (store, memory, [none, two, eight]) in [
            ("embedded:data", Some(24), [85, 116, 140]),
            ("sqlite:data", Some(0), [186, 220, 249]),
            ("postgres://host/data", Some(0), [397, 407, 507]),
            ("mysql://host/data", Some(0), [351, 393, 424]),
            ("redis://host/0", None, [410, 458, 529]),
        ] {
            let cases = [
                (FingerprintSelector::None, none),
                (fields(2), two),
                (fields(8), eight),
                (PAYLOAD, eight),
            ];
            for (fingerprint, measured) in cases {
                let (disk, in_memory) = told(store, &fingerprint);
                assert!(
                    disk.abs_diff(measured) * 16 <= measured,
                    "{store}, {fingerprint}: {disk} told, {measured} measured"
                );
                assert_eq!(in_memory, memory.unwrap_or(disk), "{store}");
            }
            let more = told(store, &fields(Members::MAX + 1));
            assert!(more < told(store, &fields(1)), "{store}: none are kept");
        }
    }

    #[test]
    fn a_rate_fills_the_window_and_an_eighth_more() {
        let window = Window::new(Duration::from_secs(7 * 86_400));
        let store = StoreUrl::Embedded("data".into());
        let storage = Storage::of(&store, &PAYLOAD, window, NonZeroU32::new(50));
        let at = storage.at_rate.expect("a rate");
        assert_eq!(at.keys, 50 * (604_800 + 75_600 + 1));
        assert_eq!(at.disk_bytes, at.keys * 140);
        assert_eq!(at.first_month_disk_bytes, at.disk_bytes, "then it is full");
        let year = Window::new(Duration::from_secs(365 * 86_400));
        let storage = Storage::of(&store, &PAYLOAD, year, NonZeroU32::new(1));
        let at = storage.at_rate.expect("a rate");
        assert_eq!(at.first_month_disk_bytes, 2_592_000 * 140);
        let forever = Window::new(Duration::MAX);
        let storage = Storage::of(&store, &PAYLOAD, forever, Some(NonZeroU32::MAX));
        assert_eq!(storage.at_rate.expect("a rate").keys, u64::MAX);
    }
}
