//! Keys as people type them, and the ids of operations.

use bytes::Bytes;
use semel_core::{Key, OpId, Scope};

use super::Fate;
use super::selectors::refusal;

/// Checks that a key that is read is shown so that it reads the same, and that a string that is a
/// key is one either way.
pub(crate) fn check(data: &[u8]) -> Result<Fate, String> {
    let shared = Key::shared(Bytes::copy_from_slice(data));
    let Ok(text) = std::str::from_utf8(data) else {
        return match shared {
            Ok(key) => Err(format!("{key:?} is not of text")),
            Err(why) => refusal(&why.to_string()),
        };
    };
    let new = Key::new(text);
    if new != shared {
        return Err(format!("{new:?} and {shared:?} are one string"));
    }
    let readable = |key: &Key| match Key::parse(key.as_str()) {
        Ok(again) if again == *key => Ok(()),
        other => Err(format!("{:?} reads as {other:?}", key.as_str())),
    };
    match &new {
        Ok(key) => readable(key)?,
        Err(why) => {
            refusal(&why.to_string())?;
        }
    }
    match Key::parse(text) {
        Ok(key) => readable(&key).map(|()| Fate::Accepted),
        Err(why) => refusal(&why.to_string()),
    }
}

/// Checks tenant, operation and key of two operations, separated by NUL: they have one id exactly if
/// all three are the same.
pub(crate) fn check_ids(data: &[u8]) -> Result<Fate, String> {
    let Ok(text) = std::str::from_utf8(data) else {
        return Ok(Fate::Refused);
    };
    let mut parts = text.split('\0');
    let mut operation = || {
        let (tenant, name, key) = (parts.next()?, parts.next()?, parts.next()?);
        Some((Scope::new(tenant, name), Key::parse(key)))
    };
    let (Some(one), Some(other)) = (operation(), operation()) else {
        return Ok(Fate::Refused);
    };
    let ((Ok(scope), Ok(key)), (Ok(other_scope), Ok(other_key))) = (&one, &other) else {
        return Ok(Fate::Refused);
    };
    let (id, other_id) = (OpId::of(scope, key), OpId::of(other_scope, other_key));
    let same = (scope, key) == (other_scope, other_key);
    if (id == other_id) != same {
        return Err(format!("{one:?} has {id}, {other:?} has {other_id}"));
    }
    match id.to_string().parse() {
        Ok(read) if id == read => Ok(Fate::Accepted),
        other => Err(format!("{id} reads as {other:?}")),
    }
}

pub(crate) const WORDS: &[&[u8]] = &[
    b"json:",
    b"json:\"json:",
    b"\"",
    b"[",
    b"]",
    b",",
    b"{\"blake3\":\"",
    b"\"}",
    b"1.0",
    b"1e1",
    b"-0",
    b"1e999",
    b"0000000000000000000000000000000000000000000000000000000000000000",
    b"\0",
    b"\0\0",
    b"a\0",
    b"\r\n",
    b" ",
    b"\t",
    b"\\u0000",
    b"\\ud83d",
    "é".as_bytes(),
    "e\u{301}".as_bytes(),
    b"\xff",
    "\u{85}".as_bytes(),
    "\u{a0}".as_bytes(),
];
