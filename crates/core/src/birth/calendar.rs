//! RFC 3339: the one form of date and time that Semel reads.

use super::thousandths;

/// The milliseconds since 1970 of `2026-11-21T10:33:00.25+01:00` and its like.
///
/// # Shape
/// `T` may be `t` or a space, `Z` may be `z`; second 60 is the first of the next minute
pub(super) fn millis(text: &str) -> Option<u64> {
    let mut rest = text.as_bytes();
    let year = number(&mut rest, 4)?;
    mark(&mut rest, b"-")?;
    let month = number(&mut rest, 2)?;
    mark(&mut rest, b"-")?;
    let day = number(&mut rest, 2)?;
    mark(&mut rest, b"Tt ")?;
    let hour = number(&mut rest, 2)?;
    mark(&mut rest, b":")?;
    let minute = number(&mut rest, 2)?;
    mark(&mut rest, b":")?;
    let second = number(&mut rest, 2)?;
    let millis = fraction(&mut rest)?;
    let offset = offset_minutes(&mut rest)?;

    let valid = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60
        && rest.is_empty();
    if !valid {
        return None;
    }
    let minutes = (days_since_1970(year, month, day) * 24 + hour) * 60 + minute - offset;
    u64::try_from((minutes * 60 + second) * 1_000 + millis).ok()
}

fn number(rest: &mut &[u8], length: usize) -> Option<i64> {
    let (digits, after) = rest.split_at_checked(length)?;
    *rest = after;
    digits.iter().try_fold(0, |sum, digit| {
        digit
            .is_ascii_digit()
            .then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

/// Takes one byte, if it is among `wanted`.
fn mark(rest: &mut &[u8], wanted: &[u8]) -> Option<u8> {
    let (&byte, after) = rest.split_first()?;
    *rest = after;
    wanted.contains(&byte).then_some(byte)
}

fn fraction(rest: &mut &[u8]) -> Option<i64> {
    let Some(digits) = rest.strip_prefix(b".") else {
        return Some(0);
    };
    let length = digits
        .iter()
        .take_while(|digit| digit.is_ascii_digit())
        .count();
    let (digits, after) = digits.split_at(length);
    *rest = after;
    let digits = std::str::from_utf8(digits)
        .ok()
        .filter(|digits| !digits.is_empty())?;
    Some(thousandths(digits).into())
}

fn offset_minutes(rest: &mut &[u8]) -> Option<i64> {
    let sign = match mark(rest, b"Zz+-")? {
        b'+' => 1,
        b'-' => -1,
        _ => return Some(0),
    };
    let hours = number(rest, 2)?;
    mark(rest, b":")?;
    let minutes = number(rest, 2)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days in the proleptic Gregorian calendar, counted in years that begin in March, so that a leap
/// day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}
