//! Points in time, and the two impure inputs that the rest of Semel receives: a clock and entropy.
//!
//! Nothing in this crate reads a clock. Stores stamp records with *their* clock; the engine measures
//! leases with [`Clock::monotonic`].

use std::fmt;
use std::time::Duration;

/// A point in time in whole milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The earliest timestamp, 1970-01-01T00:00:00Z.
    pub const EPOCH: Self = Self(0);

    /// The timestamp of this many milliseconds since the epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// `self + duration`, rounded up to a whole millisecond, saturating at the end of time.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = duration.as_nanos().div_ceil(1_000_000);
        Self(
            self.0
                .saturating_add(u64::try_from(millis).unwrap_or(u64::MAX)),
        )
    }

    /// `self - duration`, saturating at the epoch.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// The time since `earlier`, zero if that lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC with milliseconds, `2026-11-21T10:33:00.000Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = (self.0 / MILLIS_PER_DAY, self.0 % MILLIS_PER_DAY);
        let (year, month, day) = civil_from_days(days);
        let (seconds, millis) = (millis / 1_000, millis % 1_000);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60
        )
    }
}

/// A source of time. The engine and the stores read no other clock.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock, which may jump.
    fn now(&self) -> Timestamp;

    /// Time since a fixed but unknown origin; never goes back, and goes on while the process is
    /// stopped.
    fn monotonic(&self) -> Duration;
}

/// A source of random bytes.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `bytes` with unpredictable random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// Year, month and day of a number of days since 1970-01-01 in the proleptic Gregorian calendar.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    // Years are counted from 0000-03-01, so that the leap day is the last day of a year.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

const MILLIS_PER_DAY: u64 = 86_400_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_print_as_rfc_3339() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_257_180_123, "2026-11-21T10:33:00.123Z"),
            (2_147_483_648_000, "2038-01-19T03:14:08.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
        }
    }

    /// Compares with a calendar that counts day by day, from the first day to the last of the year
    /// 2800.
    #[test]
    fn every_day_for_centuries_has_its_date() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        let mut days = 0;
        while year <= 2800 {
            assert_eq!(civil_from_days(days), (year, month, day));
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            days += 1;
            day += 1;
            if day > last {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }

    #[test]
    fn every_second_of_a_day_is_shown_as_what_is_read() {
        let midnight = 1_795_219_200_000;
        for millis in (midnight..midnight + MILLIS_PER_DAY).step_by(999) {
            let shown = Timestamp::from_millis(millis).to_string();
            assert_eq!(
                crate::birth::millis_of_text(&shown),
                Some(millis),
                "{shown}"
            );
        }
    }

    #[test]
    fn arithmetic_saturates_and_rounds_a_deadline_up() {
        let late = Timestamp::from_millis(u64::MAX - 1);
        assert_eq!(late.plus(Duration::from_secs(9)).as_millis(), u64::MAX);
        assert_eq!(
            Timestamp::EPOCH.minus(Duration::from_secs(9)),
            Timestamp::EPOCH
        );
        assert_eq!(
            Timestamp::EPOCH.plus(Duration::from_micros(1)).as_millis(),
            1
        );
        assert_eq!(Timestamp::EPOCH.since(late), Duration::ZERO);
    }
}
