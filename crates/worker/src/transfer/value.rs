//! Values as an export writes them: text, bytes as base64 or hexadecimal digits, durations.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use semel_core::{Fingerprint, Members, Recovery};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::effect::base64;

/// A text that borrows from the line if nothing in it is escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'a> Text<'a> {
    pub(crate) const fn of(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn boxed(&self) -> Box<str> {
        Box::from(&*self.0)
    }
}

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visit;

        impl<'de> Visitor<'de> for Visit {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }

        from.deserialize_str(Visit)
    }
}

/// Bytes that are no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Base64<'a>(pub(crate) Cow<'a, [u8]>);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut coded = Vec::new();
        base64::write(&self.0, &mut coded);
        // Base64 is ASCII.
        to.serialize_str(std::str::from_utf8(&coded).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Base64<'_> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Read("base64 with padding", |text: &str| {
            base64::read(text.as_bytes()).map(|bytes| Base64(Cow::Owned(bytes)))
        }))
    }
}

/// Bytes of a fixed number as hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hex<const N: usize>(pub(crate) [u8; N]);

impl Default for Hex<16> {
    fn default() -> Self {
        Self([0; 16])
    }
}

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut digits = [0; MOST_DIGITS];
        to.serialize_str(hex(&self.0, &mut digits))
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Read("hexadecimal digits", |text: &str| {
            unhex(text.as_bytes()).map(Hex)
        }))
    }
}

/// A fingerprint: its scheme as eight hexadecimal digits, a colon, its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Print(pub(crate) Fingerprint);

impl Print {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (scheme, digest) = text.split_once(':')?;
        Some(Self(Fingerprint {
            scheme: u32::from_be_bytes(unhex(scheme.as_bytes())?),
            digest: unhex(digest.as_bytes())?,
        }))
    }
}

impl Serialize for Print {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (mut scheme, mut digest, mut text) = ([0; 8], [0; 32], [b':'; 41]);
        text[..8].copy_from_slice(hex(&self.0.scheme.to_be_bytes(), &mut scheme).as_bytes());
        text[9..].copy_from_slice(hex(&self.0.digest, &mut digest).as_bytes());
        to.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Print {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Read("scheme:digest", Print::read))
    }
}

/// The short hashes of a request's members, as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hashes(pub(crate) Members);

impl Hashes {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs
            .iter()
            .map(|pair| unhex(pair).map(|[byte]| byte))
            .collect();
        let members = bytes.filter(|_| rest.is_empty());
        members
            .and_then(|bytes| Members::from_bytes(&bytes))
            .map(Self)
    }
}

impl Serialize for Hashes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut digits = [0; 2 * Members::MAX_BYTES];
        to.serialize_str(hex(self.0.as_bytes(), &mut digits))
    }
}

impl<'de> Deserialize<'de> for Hashes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_str(Read("hexadecimal digits", Hashes::read))
    }
}

/// A duration: whole milliseconds, or `[seconds, nanoseconds]` where it is finer or longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let whole = self.0.subsec_nanos().is_multiple_of(1_000_000);
        match u64::try_from(self.0.as_millis()) {
            Ok(millis) if whole => to.serialize_u64(millis),
            Ok(_) | Err(_) => (self.0.as_secs(), self.0.subsec_nanos()).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SpanOrWord(|_: &str| None))
            .map(|recovery| match recovery {
                Recovery::RerunWithin(duration) => Self(duration),
                Recovery::Rerun | Recovery::Park => Self(Duration::ZERO),
            })
    }
}

/// A recovery: `rerun`, `park`, or the duration within which to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course(pub(crate) Recovery);

impl Serialize for Course {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Recovery::Rerun => to.serialize_str("rerun"),
            Recovery::Park => to.serialize_str("park"),
            Recovery::RerunWithin(window) => Span(window).serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for Course {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SpanOrWord(|word: &str| match word {
            "rerun" => Some(Recovery::Rerun),
            "park" => Some(Recovery::Park),
            _ => None,
        }))
        .map(Self)
    }
}

/// Reads a string by a function.
struct Read<F>(&'static str, F);

impl<T, F: FnOnce(&str) -> Option<T>> Visitor<'_> for Read<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        // The text there may be anyone's data: the error names what was wanted instead.
        (self.1)(text).ok_or_else(|| E::custom(format_args!("expected {}", self.0)))
    }
}

/// Reads a duration, or a word by a function.
struct SpanOrWord<F>(F);

impl<'de, F: FnOnce(&str) -> Option<Recovery>> Visitor<'de> for SpanOrWord<F> {
    type Value = Recovery;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("milliseconds, or [seconds, nanoseconds]")
    }

    fn visit_u64<E: Error>(self, millis: u64) -> Result<Recovery, E> {
        Ok(Recovery::RerunWithin(Duration::from_millis(millis)))
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Recovery, E> {
        (self.0)(word).ok_or_else(|| E::custom("expected a duration or a recovery"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Recovery, A::Error> {
        let (secs, nanos) = (parts.next_element::<u64>()?, parts.next_element::<u32>()?);
        match (secs, nanos, parts.next_element::<u64>()?) {
            (Some(secs), Some(nanos), None) if nanos < 1_000_000_000 => {
                Ok(Recovery::RerunWithin(Duration::new(secs, nanos)))
            }
            _ => Err(A::Error::custom("expected [seconds, nanoseconds]")),
        }
    }
}

/// `bytes` as hexadecimal digits, in `digits`.
pub(crate) fn hex<'d>(bytes: &[u8], digits: &'d mut [u8]) -> &'d str {
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    std::str::from_utf8(&digits[..bytes.len() * 2]).unwrap_or_default()
}

/// The bytes that these hexadecimal digits encode.
pub(crate) fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(digit: u8) -> Option<u8> {
    let value = VALUES[usize::from(digit)];
    (value < 16).then_some(value)
}

/// The value of each byte as a digit; 16 if it is none.
const VALUES: [u8; 256] = {
    let mut values = [16; 256];
    let mut value: u8 = 0;
    while value < 16 {
        values[DIGITS[value as usize] as usize] = value;
        value += 1;
    }
    values
};
const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// Digits of the longest digest.
const MOST_DIGITS: usize = 64;
