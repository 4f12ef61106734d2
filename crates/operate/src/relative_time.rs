//! Times in the words of people: the time that has passed, the time that remains. For data, use
//! [`value`](crate::value).

use std::fmt;
use std::time::Duration;

use semel_core::Timestamp;

/// A point in time with its distance from now: `2026-11-21T10:33:00.000Z (3 h 5 min ago)`.
#[derive(Clone, Copy, Debug)]
pub struct When {
    at: Timestamp,
    now: Timestamp,
}

/// Makes the text of `at` as seen at `now`.
pub const fn when(at: Timestamp, now: Timestamp) -> When {
    When { at, now }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, now } = self;
        if at > now {
            write!(f, "{at} (in {})", in_words(at.since(*now)))
        } else {
            write!(f, "{at} ({} ago)", in_words(now.since(*at)))
        }
    }
}

/// Returns a duration in words: its two largest units, rounded down.
pub fn in_words(duration: Duration) -> String {
    let secs = duration.as_secs();
    let parts = [
        (
            secs / 86_400,
            if secs < 2 * 86_400 { "day" } else { "days" },
        ),
        (secs / 3_600 % 24, "h"),
        (secs / 60 % 60, "min"),
        (secs % 60, "s"),
    ];
    let Some(first) = parts.iter().position(|(count, _)| *count > 0) else {
        return format!("{} ms", duration.subsec_millis());
    };
    let two = parts[first..].iter().take(2);
    let said: Vec<_> = two
        .filter(|(count, _)| *count > 0)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_said_in_its_two_largest_units() {
        for (millis, said) in [
            (0, "0 ms"),
            (812, "812 ms"),
            (1_999, "1 s"),
            (60_000, "1 min"),
            (200_500, "3 min 20 s"),
            (3_600_000, "1 h"),
            (7_265_000, "2 h 1 min"),
            (86_400_000, "1 day"),
            (90_061_000, "1 day 1 h"),
            (604_860_000, "7 days"),
        ] {
            assert_eq!(in_words(Duration::from_millis(millis)), said);
        }
    }

    #[test]
    fn a_time_says_how_far_away_it_is() {
        let at = |millis| Timestamp::from_millis(millis);
        assert_eq!(
            when(at(1_000), at(61_000)).to_string(),
            "1970-01-01T00:00:01.000Z (1 min ago)"
        );
        assert_eq!(
            when(at(61_000), at(1_000)).to_string(),
            "1970-01-01T00:01:01.000Z (in 1 min)"
        );
    }
}
