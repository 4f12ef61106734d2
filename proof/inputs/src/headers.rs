//! Headers as stores keep them.

use semel_core::parked::{headers_from_bytes, headers_to_bytes};

use super::Fate;

/// Checks that bytes that are headers are the only encoding of these headers.
pub(crate) fn check(data: &[u8]) -> Result<Fate, String> {
    let Some(headers) = headers_from_bytes(data) else {
        return Ok(Fate::Refused);
    };
    if headers_to_bytes(&headers) == data {
        Ok(Fate::Accepted)
    } else {
        Err(format!("{headers:?} are written otherwise"))
    }
}

pub(crate) const WORDS: &[&[u8]] = &[
    b"\0\0\0\0",
    b"\x01\0\0\0a",
    b"\x01\0\0\0\xff",
    b"\xff\xff\xff\xff",
    b"\x08\0\0\0event-id",
    b"\x02\0\0\0\xc3\xa9",
];
