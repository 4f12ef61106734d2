//! Values in the form in which they are printed everywhere: times, durations and bytes, for people and in JSON.

use std::borrow::Cow;
use std::time::Duration;

use semel_core::units::{self, duration_text};
use semel_core::{Scope, Timestamp, birth};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time: RFC 3339 in UTC with milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Timestamp);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(from)?;
        let at = timestamp(&text).ok_or_else(|| D::Error::custom("no time in UTC"))?;
        Ok(Self(at))
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

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(from)?;
        units::duration(&text).map(Self).map_err(D::Error::custom)
    }
}

/// Returns a number of bytes in the largest unit that it fills, with two digits.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn bytes_text(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut filled = count as f64;
    let mut unit = "B";
    for larger in units {
        if filled < 1_024.0 {
            break;
        }
        filled /= 1_024.0;
        unit = larger;
    }
    if unit == "B" {
        format!("{count} B")
    } else {
        format!("{filled:.2} {unit}")
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
        Err(_) => (None, Some(Base64(bytes.into()))),
    }
}

/// Bytes that are printed as base64 (RFC 4648, with padding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base64<'a>(pub Cow<'a, [u8]>);

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

impl<'de> Deserialize<'de> for Base64<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <Cow<'de, str>>::deserialize(from)?;
        let bytes = decoded(&text).ok_or_else(|| D::Error::custom("no base64 with padding"))?;
        Ok(Self(bytes.into()))
    }
}

/// Reads base64 with padding.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let mut groups = text.as_bytes().chunks(4).peekable();
    while let Some(group) = groups.next() {
        let padding = group.iter().rev().take_while(|it| **it == b'=').count();
        let is_last = groups.peek().is_none();
        if group.len() != 4 || padding > 2 || (padding > 0 && !is_last) {
            return None;
        }
        let mut bits = 0;
        for letter in &group[..4 - padding] {
            let digit = DIGITS.iter().position(|it| it == letter)?;
            bits = bits << 6 | u32::try_from(digit).ok()?;
        }
        let group = (bits << (6 * padding)).to_be_bytes();
        bytes.extend_from_slice(&group[1..4 - padding]);
    }
    Some(bytes)
}

/// Reads a time as it is printed: `2026-11-21T10:33:00.000Z`.
fn timestamp(text: &str) -> Option<Timestamp> {
    let at = Timestamp::from_millis(birth::millis_of_text(text)?);
    // Whatever is no time, or is written in another form, is not what is printed of it.
    (at.to_string() == text).then_some(at)
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
    fn times_durations_and_bytes_are_read_as_they_are_printed() {
        for millis in [
            0,
            1,
            951_782_400_000,
            951_868_799_999,
            1_763_717_580_123,
            4_107_542_400_000,
        ] {
            let time = Time(Timestamp::from_millis(millis));
            let text = serde_json::to_string(&time).expect("JSON");
            assert_eq!(
                serde_json::from_str::<Time>(&text).expect("a time"),
                time,
                "{text}"
            );
        }
        for text in [
            "2026-02-30T00:00:00.000Z",
            "2026-11-21T10:33:00Z",
            "",
            "+026-11-21T10:33:00.000Z",
        ] {
            assert_eq!(timestamp(text), None, "{text}");
        }
        let span: Span = serde_json::from_str("\"90s\"").expect("a duration");
        assert_eq!(span, Span(Duration::from_secs(90)));
        for bytes in [&b""[..], b"f", b"fo", b"foo", b"\xff\xfe\xfda"] {
            let text = Base64(bytes.into()).to_string();
            assert_eq!(decoded(&text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Zg", "Zg=", "Z===", "Zg==Zg==", "Zm9v?A=="] {
            assert_eq!(decoded(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_of_bytes_has_the_largest_unit_that_it_fills() {
        for (count, text) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.00 KiB"),
            (1_536, "1.50 KiB"),
            (768 << 20, "768.00 MiB"),
            ((1 << 30) + 1, "1.00 GiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(bytes_text(count), text);
        }
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
        assert_eq!(Base64(b"foobar"[..].into()).to_string(), "Zm9vYmFy");
    }
}
