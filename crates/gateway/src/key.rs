//! The header `Idempotency-Key` as clients send it: quoted, as a string of RFC 8941, or bare.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use semel_core::Key;

/// The header in which a client sends its key.
pub const KEY_HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, without its quotes.
const MAX_BYTES: usize = 255;

/// The reason why a header is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// The header was sent more than once.
    Repeated,
    /// There is no key in it.
    Empty,
    /// The key is over 255 bytes long.
    TooLong,
    /// There is a control character in it, or one that is not ASCII.
    Character,
    /// It begins with a quote and is no quoted string.
    Quotes,
}

impl fmt::Display for KeyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repeated => "the header Idempotency-Key was sent more than once",
            Self::Empty => "the header Idempotency-Key is empty",
            Self::TooLong => "the idempotency key is over 255 bytes long",
            Self::Character => "the idempotency key has a character that is not printable ASCII",
            Self::Quotes => {
                "the idempotency key begins with a quote and is no quoted string, such as \"pay-1\""
            }
        })
    }
}

impl std::error::Error for KeyFault {}

/// Reads the key of a request; none if it has none. `"k"` is the same key as `k`.
pub(crate) fn read(headers: &HeaderMap) -> Result<Option<Key>, KeyFault> {
    let mut sent = headers.get_all(KEY_HEADER).iter();
    match (sent.next(), sent.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => parse(one).map(Some),
        (Some(_), Some(_)) => Err(KeyFault::Repeated),
    }
}

fn parse(value: &HeaderValue) -> Result<Key, KeyFault> {
    let sent = value.as_bytes().trim_ascii();
    if !sent.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(KeyFault::Character);
    }
    let text = match sent.strip_prefix(b"\"") {
        Some(quoted) => unquoted(quoted)?,
        None => sent.iter().copied().map(char::from).collect(),
    };
    if text.trim().is_empty() {
        return Err(KeyFault::Empty);
    }
    if text.len() > MAX_BYTES {
        return Err(KeyFault::TooLong);
    }
    // It is short, printable and not blank, so it is a key.
    Key::new(&text).map_err(|_| KeyFault::Character)
}

/// The text of a quoted string, which begins after its first quote. Parameters are not part of a key.
fn unquoted(quoted: &[u8]) -> Result<String, KeyFault> {
    let mut text = String::with_capacity(quoted.len());
    let mut rest = quoted.iter().copied();
    loop {
        match rest.next().ok_or(KeyFault::Quotes)? {
            b'"' => break,
            b'\\' => match rest.next() {
                Some(escaped @ (b'"' | b'\\')) => text.push(char::from(escaped)),
                _ => return Err(KeyFault::Quotes),
            },
            byte => text.push(char::from(byte)),
        }
    }
    if rest.next().is_some() {
        return Err(KeyFault::Quotes);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&[u8]]) -> Result<Option<String>, KeyFault> {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value).expect("a value");
            headers.append(KEY_HEADER, value);
        }
        read(&headers).map(|key| key.map(|key| key.to_string()))
    }

    #[test]
    fn a_quoted_key_is_the_same_as_a_bare_one() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[b"pay-1"]), Ok(Some("pay-1".into())));
        assert_eq!(of(&[b"\"pay-1\""]), Ok(Some("pay-1".into())));
        assert_eq!(of(&[b"  pay-1 "]), Ok(Some("pay-1".into())));
        assert_eq!(of(&[br#""a\"b\\c""#]), Ok(Some(r#"a"b\c"#.into())));
        assert_eq!(of(&[br#"a"b\c"#]), Ok(Some(r#"a"b\c"#.into())));
        assert_eq!(of(&[b"a, b;c=1"]), Ok(Some("a, b;c=1".into())));
        // A key that looks like a typed one is a string all the same.
        assert_eq!(of(&[b"json:1"]), Ok(Some(r#"json:"json:1""#.into())));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for (value, fault) in [
            (&b""[..], KeyFault::Empty),
            (b"  ", KeyFault::Empty),
            (b"\"\"", KeyFault::Empty),
            (b"\"  \"", KeyFault::Empty),
            (b"a\tb", KeyFault::Character),
            (b"\"a\tb\"", KeyFault::Character),
            ("zahlung-ü".as_bytes(), KeyFault::Character),
            (b"\xff", KeyFault::Character),
            (b"\"pay-1", KeyFault::Quotes),
            (b"\"", KeyFault::Quotes),
            (b"\"a\\", KeyFault::Quotes),
            (b"\"a\\b\"", KeyFault::Quotes),
            (b"\"a\";b=1", KeyFault::Quotes),
            (b"\"a\", \"b\"", KeyFault::Quotes),
        ] {
            assert_eq!(of(&[value]), Err(fault), "{}", value.escape_ascii());
        }
    }

    #[test]
    fn a_key_has_255_bytes_at_most_and_comes_once() {
        let (fits, long) = ("k".repeat(255), "k".repeat(256));
        assert_eq!(of(&[fits.as_bytes()]), Ok(Some(fits.clone())));
        assert_eq!(of(&[long.as_bytes()]), Err(KeyFault::TooLong));
        let quoted = format!("\"{fits}\"");
        assert_eq!(of(&[quoted.as_bytes()]), Ok(Some(fits.clone())));
        assert_eq!(of(&[b"a", b"a"]), Err(KeyFault::Repeated));
        assert_eq!(of(&[b"a", b"b"]), Err(KeyFault::Repeated));
    }

    #[test]
    fn every_printable_key_is_the_same_in_quotes() {
        let printable: String = (' '..='~').collect();
        for start in 0..printable.len() {
            // No blanks at its ends, which a bare key does not keep, and no quote at its beginning.
            let key = format!("k{}k", &printable[start..]);
            let quoted = key.replace('\\', r"\\").replace('"', r#"\""#);
            let quoted = of(&[format!("\"{quoted}\"").as_bytes()]);
            assert_eq!(quoted, Ok(Some(key.clone())));
            assert_eq!(of(&[key.as_bytes()]), quoted);
        }
    }
}
