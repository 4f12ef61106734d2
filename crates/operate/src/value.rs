//! Values in the form in which they are printed everywhere: times, durations and bytes, for people and in JSON.

use std::time::Duration;

use semel_core::units::duration_text;
use semel_core::{Scope, Timestamp};
use serde::{Serialize, Serializer};

/// A time: RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// A duration, as the configuration writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&duration_text(self.0))
    }
}

/// Returns the tenant of a scope, as it is printed: none if it is the empty one.
pub fn tenant(scope: &Scope) -> Option<&str> {
    Some(scope.tenant()).filter(|tenant| !tenant.is_empty())
}

/// Prepares bytes for JSON: returns the text if they are UTF-8, else base64, which is printed under another
/// name.
///
/// One of the two members is left out: `#[serde(skip_serializing_if = "Option::is_none")]`.
pub fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<Base64<'_>>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(Base64(bytes))),
    }
}

/// Bytes that are printed as base64 (RFC 4648, with padding).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base64<'a>(pub &'a [u8]);

impl std::fmt::Display for Base64<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        for group in self.0.chunks(3) {
            let mut bits = [0; 4];
            bits[1..=group.len()].copy_from_slice(group);
            let bits = u32::from_be_bytes(bits);
            for at in 0..4 {
                let digit = (bits >> (18 - 6 * at)) as usize & 63;
                let is_digit = at <= group.len();
                f.write_char(if is_digit { DIGITS[digit] } else { b'=' }.into())?;
            }
        }
        Ok(())
    }
}

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_times_and_durations_as_text() {
        let values = (
            Some(Time(Timestamp::EPOCH)),
            None::<Time>,
            Span(Duration::from_secs(90)),
        );
        assert_eq!(
            serde_json::to_string(&values).expect("JSON"),
            "[\"1970-01-01T00:00:00.000Z\",null,\"90s\"]"
        );
    }

    #[test]
    fn bytes_are_text_where_they_can_be() {
        assert_eq!(text_or_base64("é".as_bytes()), (Some("é"), None));
        for (bytes, text) in [
            (&b"\xff"[..], "/w=="),
            (b"\xff\xfe", "//4="),
            (b"\xff\xfe\xfd", "//79"),
            (b"\xff\xfe\xfda", "//79YQ=="),
        ] {
            let (None, Some(base64)) = text_or_base64(bytes) else {
                panic!("{bytes:?} is no text");
            };
            assert_eq!(base64.to_string(), text);
        }
        assert_eq!(Base64(b"foobar").to_string(), "Zm9vYmFy");
    }
}
