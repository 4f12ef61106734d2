//! The operation that a key or a payload belongs to.

use semel_core::Key;

/// The number of the operation that a key belongs to.
pub(crate) fn number_of(key: &Key) -> usize {
    key.as_str()
        .trim_start_matches('k')
        .parse()
        .unwrap_or_default()
}

/// The string or number member `name` of a payload.
fn member<'a>(payload: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(payload).ok()?;
    let (_, rest) = text.split_once(name)?;
    let rest = rest.strip_prefix("\":")?;
    let end = rest.find([',', '}'])?;
    Some(rest[..end].trim_matches('"'))
}

/// The operation that a payload belongs to.
pub(crate) fn number_in(payload: &[u8]) -> usize {
    let key = member(payload, "key").unwrap_or_default();
    key.trim_start_matches('k').parse().unwrap_or_default()
}
