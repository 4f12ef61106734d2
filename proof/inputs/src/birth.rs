//! Birth times, as text.

use semel_core::{Timestamp, birth};

use super::Fate;

/// Checks that a time that is read is the time that it is shown as, and that equal texts are read the
/// same.
pub(crate) fn check(data: &[u8]) -> Result<Fate, String> {
    let Ok(text) = std::str::from_utf8(data) else {
        return Ok(Fate::Refused);
    };
    let Some(millis) = birth::millis_of_text(text) else {
        return Ok(Fate::Refused);
    };
    let shown = Timestamp::from_millis(millis).to_string();
    let mut alike = vec![format!(" {text}\t")];
    if millis <= LAST_OF_9999 {
        alike.push(shown.clone());
        alike.push(shown.replace('T', " ").replace('Z', "+00:00"));
    }
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        alike.push(format!("00{text}"));
        alike.push(format!("{text}.0"));
        // The unit is the one that makes the number a time near ours, so a number is never its own
        // by accident: ten to twenty digits are told apart by their length.
        let seconds = text.trim_start_matches('0').len() <= 11;
        let value: u128 = text.parse().map_err(|why| format!("{text}: {why}"))?;
        if seconds && u128::from(millis) != value * 1_000 {
            return Err(format!("{text} seconds are {millis} ms"));
        }
        if !seconds && u128::from(millis) > value {
            return Err(format!("{text} is {millis} ms"));
        }
    }
    if let Some(wrong) = unlike_its_text(text, millis) {
        return Err(wrong);
    }
    for alike in alike {
        if birth::millis_of_text(&alike) != Some(millis) {
            let read = birth::millis_of_text(&alike);
            return Err(format!("{text:?} is {shown}, but {alike:?} is {read:?}"));
        }
    }
    Ok(Fate::Accepted)
}

/// Checks that a date and time is shown as it was written in UTC, or else differs from that by its zone.
fn unlike_its_text(text: &str, millis: u64) -> Option<String> {
    let clock = text.get(..19).filter(|_| text.contains(':'))?;
    let utc = birth::millis_of_text(&format!("{clock}Z"));
    let zone = text.get(text.len().checked_sub(6)?..)?;
    let (sign, zone) = match zone.split_at_checked(1)? {
        ("+", zone) => (1, zone),
        ("-", zone) => (-1, zone),
        _ => (0, "00:00"),
    };
    let (hours, minutes) = zone.split_once(':')?;
    let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
    // Before 1970 there is nothing to compare with.
    let utc = i64::try_from(utc?).ok()?;
    let whole = i64::try_from(millis / 1_000 * 1_000).ok()?;
    if whole + sign * minutes * 60_000 != utc {
        return Some(format!("{text:?} is {millis} ms"));
    }
    let shown = Timestamp::from_millis(utc.unsigned_abs()).to_string();
    let written = clock.replace(['t', ' '], "T");
    let is_leap_second = written.ends_with(":60");
    let is_shown = shown.starts_with(&written) || is_leap_second;
    (!is_shown).then(|| format!("{text:?} is {shown} but for its zone"))
}

const LAST_OF_9999: u64 = 253_402_300_799_999;

pub(crate) const WORDS: &[&[u8]] = &[
    b"1970-01-01",
    b"2026-11-21",
    b"2000-02-29",
    b"1900-02-29",
    b"2100-02-29",
    b"2027-02-29",
    b"2026-04-31",
    b"9999-12-31",
    b"0000-01-01",
    b"T",
    b"t",
    b" ",
    b"00:00:00",
    b"23:59:60",
    b"24:00:00",
    b"Z",
    b"z",
    b"+23:59",
    b"-23:59",
    b"+24:00",
    b".",
    b".999999999999",
    b"0",
    b"99999999999",
    b"100000000000",
    b"99999999999999",
    b"100000000000000",
    b"99999999999999999999",
    b"100000000000000000000",
    b"-1",
    b"1e3",
    b"+",
    "\u{661}".as_bytes(),
];
