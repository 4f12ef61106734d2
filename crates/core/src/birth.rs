//! The birth of a message, as its payload or headers state it. The age gate uses it where the
//! broker has no append time.

mod calendar;

use crate::key::Unusable;
use crate::select::{Selected, Selector, View};

/// The birth time that `selector` finds, in milliseconds since 1970.
///
/// # Shape
/// RFC 3339 text, or a number since 1970: below 10^11 of seconds, below 10^14 of
/// milliseconds, below 10^17 of microseconds, below 10^20 of nanoseconds
///
/// # Errors
/// `birth-missing`, `birth-invalid`, and the errors of selecting.
pub fn of(view: &View<'_>, selector: &Selector) -> Result<u64, Unusable> {
    let at = || Box::from(selector.to_string());
    let found = match view.select(selector)? {
        None | Some(Selected::Null) => return Err(Unusable::BirthMissing { at: at() }),
        Some(Selected::Number(number)) => millis_of_number(&number),
        Some(Selected::Text(text)) => millis_of_text(&text),
        Some(_) => None,
    };
    found.ok_or_else(|| Unusable::BirthInvalid { at: at() })
}

/// The milliseconds since 1970 that RFC 3339 text, or a number as text, stands for.
pub fn millis_of_text(text: &str) -> Option<u64> {
    let text = text.trim();
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number {
        millis_of_number(text)
    } else {
        calendar::millis(text)
    }
}

/// The milliseconds since 1970 that a number in plain decimal notation stands for.
pub fn millis_of_number(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let value: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let millis = match whole.len() {
        0..=11 => value * 1_000 + u128::from(thousandths(fraction)),
        12..=14 => value,
        15..=17 => value / 1_000,
        18..=20 => value / 1_000_000,
        _ => return None,
    };
    u64::try_from(millis).ok()
}

/// The first three digits after a decimal point.
fn thousandths(fraction: &str) -> u16 {
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
    digits.fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
}

#[cfg(test)]
mod tests;
