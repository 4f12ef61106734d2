//! Durations and sizes as people write them: `"500ms"`, `"72h"`, `"64KiB"`.

use std::time::Duration;

/// Reads a duration: a whole number and `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
///
/// What is wrong and how to write it, one line.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let millis_per_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => {
            return Err(not_a(
                text,
                "duration",
                "`500ms`, `30s`, `5m`, `72h` or `7d`",
            ));
        }
    };
    let number: u64 = number
        .parse()
        .map_err(|_| not_a(text, "duration", "`500ms`, `30s`, `5m`, `72h` or `7d`"))?;
    number
        .checked_mul(millis_per_unit)
        .filter(|&millis| millis <= MAX_MILLIS)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("`{text}` is longer than 100 years"))
}

/// Reads a window: a duration, or the name of one of the [`WINDOWS`].
///
/// # Errors
///
/// What is wrong and how to write it, one line.
pub fn window(text: &str) -> Result<Duration, String> {
    if let Some((_, window)) = WINDOWS.iter().find(|(name, _)| *name == text) {
        return Ok(*window);
    }
    duration(text).map_err(|error| {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return error;
        }
        let names = WINDOWS.map(|(name, _)| format!("`{name}`"));
        format!("{error}; windows with a name are {}", names.join(", "))
    })
}

/// Windows that are usual for a kind of message, by name.
pub const WINDOWS: [(&str, Duration); 5] = [
    ("business-events", Duration::from_secs(7 * 86_400)),
    ("webhooks", Duration::from_secs(86_400)),
    ("metrics", Duration::from_secs(5 * 60)),
    ("broker-messages", Duration::from_secs(72 * 3_600)),
    ("slo", Duration::from_secs(30 * 86_400)),
];

/// Reads a size in bytes: a whole number and `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB`.
///
/// # Errors
///
/// What is wrong and how to write it, one line.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let bytes_per_unit = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(not_a(text, "size", "`512B`, `64KiB`, `8MiB` or `1GiB`")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| not_a(text, "size", "`512B`, `64KiB`, `8MiB` or `1GiB`"))?;
    number
        .checked_mul(bytes_per_unit)
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// A duration as the configuration writes it: a whole number of the largest unit that says it
/// exactly, `7d`, `90s`, `1500ms`. What is less than a millisecond is left out.
pub fn duration_text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (unit, name) = UNITS
        .into_iter()
        .find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit))
        .unwrap_or((1, "ms"));
    format!("{}{name}", millis / unit)
}

/// A duration for people, down to seconds, with every unit that it has some of, such as `14d 5m`;
/// below one second in milliseconds.
pub fn spelled(duration: Duration) -> String {
    let mut secs = duration.as_secs();
    if secs == 0 {
        return format!("{}ms", duration.as_millis());
    }
    let mut parts = Vec::new();
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")] {
        if secs >= unit {
            parts.push(format!("{}{name}", secs / unit));
        }
        secs %= unit;
    }
    parts.join(" ")
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim_start_matches(' '))
}

fn not_a(text: &str, what: &str, forms: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        // Wherever a person reads this, it is one line and moves no cursor.
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    format!("`{shown}` is no {what}; write it like {forms}")
}

/// The longest duration that can be written: a hundred years.
pub const LONGEST: Duration = Duration::from_millis(MAX_MILLIS);

const MAX_MILLIS: u64 = 36_525 * 86_400_000;
const UNITS: [(u128, &str); 4] = [
    (86_400_000, "d"),
    (3_600_000, "h"),
    (60_000, "m"),
    (1_000, "s"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_a_name_or_is_a_duration() {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        for (text, expected) in [
            ("business-events", days(7)),
            ("webhooks", days(1)),
            ("metrics", Duration::from_secs(300)),
            ("broker-messages", days(3)),
            ("slo", days(30)),
            ("36h", Duration::from_secs(36 * 3_600)),
        ] {
            assert_eq!(window(text), Ok(expected), "{text}");
        }
        let said = window("webhook").expect_err("no such name");
        assert!(said.contains("`webhook`") && said.contains("`webhooks`") && said.contains("`7d`"));
    }

    #[test]
    fn durations_need_a_unit_and_have_a_limit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(duration("30 s"), Ok(Duration::from_secs(30)));
        for wrong in [
            "5",
            "",
            "s",
            "5 mins",
            "-3s",
            "1.5h",
            "5S",
            "1e3s",
            "99999999999999999999s",
        ] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            duration("9999999999d"),
            Err("`9999999999d` is longer than 100 years".to_owned())
        );
    }

    #[test]
    fn what_is_wrong_is_told_in_one_line() {
        let told = duration("5\nmins\u{1b}").expect_err("no unit");
        assert!(
            told.starts_with("`5\\nmins\\u{1b}` is no duration"),
            "{told}"
        );
        let told = size_bytes("8\tMiB").expect_err("no unit");
        assert!(told.starts_with("`8\\tMiB` is no size"), "{told}");
    }

    #[test]
    fn a_duration_reads_back_as_what_it_was() {
        for (millis, text) in [
            (0, "0ms"),
            (500, "500ms"),
            (1_500, "1500ms"),
            (90_000, "90s"),
            (3_600_000, "1h"),
            (604_800_000, "7d"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(duration_text(duration), text);
            assert_eq!(super::duration(text), Ok(duration));
        }
    }

    #[test]
    fn a_duration_is_spelled_in_the_units_that_it_has() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_500, "1s"),
            (90_000, "1m 30s"),
            (604_800_000, "7d"),
            (1_209_900_000, "14d 5m"),
            (90_061_000, "1d 1h 1m 1s"),
        ] {
            assert_eq!(spelled(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn sizes_tell_binary_from_decimal() {
        for (text, bytes) in [
            ("8B", 8),
            ("8KiB", 8 << 10),
            ("8MiB", 8 << 20),
            ("8GiB", 8 << 30),
            ("8kB", 8_000),
            ("8MB", 8_000_000),
            ("8GB", 8_000_000_000),
        ] {
            assert_eq!(size_bytes(text), Ok(bytes), "{text}");
        }
        assert!(size_bytes("8").is_err());
        assert!(size_bytes("99999999999GiB").is_err());
    }
}
