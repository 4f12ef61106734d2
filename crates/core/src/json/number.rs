//! The canonical text of a JSON number: by value, in full precision, in plain decimal notation.

use std::borrow::Cow;

/// The most digits that a canonical number may have.
pub const MAX_DIGITS: usize = 1_000;

/// A number that would take over [`MAX_DIGITS`] digits to write out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// The canonical text of `literal`, which must be a number as JSON writes them.
///
/// # Shape
/// `1`, `1.0` and `10e-1` are all `1`; `-0` is `0`; `1e3` is `1000`; `5e-1` is `0.5`
///
/// # Cost
/// Nothing is copied where the literal is canonical already
///
/// # Errors
/// [`TooLong`] where the canonical text would have over [`MAX_DIGITS`] digits.
pub fn canonical(literal: &str) -> Result<Cow<'_, str>, TooLong> {
    let (sign, magnitude) = match literal.strip_prefix('-') {
        Some(magnitude) => ("-", magnitude),
        None => ("", literal),
    };
    if is_canonical(magnitude) && literal != "-0" {
        return Ok(Cow::Borrowed(literal));
    }
    let (mantissa, exponent) = match magnitude.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, read_exponent(exponent)),
        None => (magnitude, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let led = all.trim_start_matches('0');
    let digits = led.trim_end_matches('0');
    if digits.is_empty() {
        return Ok(Cow::Borrowed("0"));
    }
    // The magnitude is 0.DIGITS times ten to the power of `point`.
    let point = count(led)
        .saturating_add(exponent)
        .saturating_sub(count(fraction));
    write(sign, digits, point).map(Cow::Owned)
}

/// Returns whether a magnitude is its own canonical text, as nearly all are.
fn is_canonical(magnitude: &str) -> bool {
    let mut has_point = false;
    let plain = magnitude.bytes().all(|byte| {
        has_point |= byte == b'.';
        byte.is_ascii_digit() || byte == b'.'
    });
    plain && magnitude.len() <= MAX_DIGITS && !(has_point && magnitude.ends_with('0'))
}

fn write(sign: &str, digits: &str, point: i64) -> Result<String, TooLong> {
    let (whole, zeros, fraction) = match usize::try_from(point) {
        Ok(0) | Err(_) => ("0", 0, digits),
        Ok(point) if point < digits.len() => (&digits[..point], 0, &digits[point..]),
        Ok(point) => (digits, point - digits.len(), ""),
    };
    let leading = usize::try_from(point.saturating_neg()).unwrap_or(0);
    let parts = [whole.len(), zeros, leading, fraction.len()];
    if parts.into_iter().fold(0, usize::saturating_add) > MAX_DIGITS {
        return Err(TooLong);
    }
    let mut text =
        String::with_capacity(sign.len() + MAX_DIGITS.min(digits.len() + zeros + leading + 2));
    text.push_str(sign);
    text.push_str(whole);
    text.extend(std::iter::repeat_n('0', zeros));
    if !fraction.is_empty() {
        text.push('.');
        text.extend(std::iter::repeat_n('0', leading));
        text.push_str(fraction);
    }
    Ok(text)
}

fn read_exponent(text: &str) -> i64 {
    let beyond_all = if text.starts_with('-') {
        i64::MIN
    } else {
        i64::MAX
    };
    text.parse().unwrap_or(beyond_all)
}

fn count(digits: &str) -> i64 {
    i64::try_from(digits.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
