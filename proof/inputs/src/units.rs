//! Durations and sizes of the configuration.

use std::time::Duration;

use semel_core::units;

use super::Fate;
use super::selectors::refusal;

/// Checks that a duration is within its limit, and that its spelling is equal in whole seconds.
pub(crate) fn check_duration(data: &[u8]) -> Result<Fate, String> {
    let Ok(text) = std::str::from_utf8(data) else {
        return Ok(Fate::Refused);
    };
    let duration = match units::duration(text) {
        Ok(duration) => duration,
        Err(why) => return refusal(&why),
    };
    if duration > units::LONGEST {
        return Err(format!("{text:?} is {duration:?}, beyond the longest"));
    }
    if units::duration(&format!("{}ms", duration.as_millis())) != Ok(duration) {
        return Err(format!("{text:?} is no number of milliseconds"));
    }
    let spelled = units::spelled(duration);
    let mut sum = Duration::ZERO;
    for part in spelled.split(' ') {
        sum += units::duration(part)?;
    }
    let whole = match duration.as_secs() {
        0 => duration,
        secs => Duration::from_secs(secs),
    };
    if sum != whole {
        return Err(format!("{text:?} is spelled {spelled}"));
    }
    Ok(Fate::Accepted)
}

/// Checks that a size is its number times its unit.
pub(crate) fn check_size(data: &[u8]) -> Result<Fate, String> {
    let Ok(text) = std::str::from_utf8(data) else {
        return Ok(Fate::Refused);
    };
    let bytes = match units::size_bytes(text) {
        Ok(bytes) => bytes,
        Err(why) => return refusal(&why),
    };
    let number: String = text.chars().take_while(char::is_ascii_digit).collect();
    let number: u64 = number.parse().map_err(|why| format!("{text:?}: {why}"))?;
    let unit = text.trim_start_matches(|it: char| it.is_ascii_digit() || it == ' ');
    let thousand: u64 = if unit.contains('i') { 1_024 } else { 1_000 };
    let power = ["k", "M", "G"].iter().zip(1..);
    let power = power.filter(|(prefix, _)| unit.to_lowercase().starts_with(&prefix.to_lowercase()));
    let factor = thousand.pow(power.map(|(_, power)| power).next().unwrap_or(0));
    if units::size_bytes(&format!("{bytes}B")) != Ok(bytes)
        || Some(bytes) != number.checked_mul(factor)
    {
        return Err(format!("{text:?} is {bytes} bytes"));
    }
    Ok(Fate::Accepted)
}

pub(crate) const WORDS: &[&[u8]] = &[
    b"ms",
    b"s",
    b"m",
    b"h",
    b"d",
    b"B",
    b"KiB",
    b"MiB",
    b"GiB",
    b"kB",
    b"MB",
    b"GB",
    b" ",
    b"0",
    b"00",
    b"36525",
    b"36526",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1000000000000000000",
    b"-",
    b"+",
    b".5",
    b"e3",
    b"\n",
    b"\x1b[31m",
    b"`",
    "\u{661}".as_bytes(),
    "\u{202e}".as_bytes(),
];
