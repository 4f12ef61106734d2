//! Selectors, and the values that they find in any payload. The first line is the selector.

use bytes::Bytes;
use semel_core::key::KeySelector;
use semel_core::select::{Message, Selector, View};
use semel_core::{Key, birth};
use serde_json::Value;

use super::Fate;

pub(crate) fn check(data: &[u8]) -> Result<Fate, String> {
    let (text, payload) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &data[..0]),
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return Ok(Fate::Refused);
    };
    let selector: Selector = match text.parse() {
        Ok(selector) => selector,
        Err(why) => return refusal(&format!("{why}")),
    };
    if selector.to_string().parse().as_ref() != Ok(&selector) {
        return Err(format!("{selector} does not read as itself"));
    }
    let headers = [
        ("Event-Id".into(), Bytes::from_static(b"evt_1")),
        ("ce-id".into(), Bytes::from_static(b"1")),
        ("ce_source".into(), Bytes::from_static(b"\xff")),
    ];
    let payload = Bytes::copy_from_slice(payload);
    let view = View::new(Message {
        payload: &payload,
        headers: &headers,
        coordinates: "orders/3/17",
    });
    let found = view.select(&selector);
    if let (Selector::Json(pointer), Ok(found)) = (&selector, &found) {
        let value: Result<Value, _> = serde_json::from_slice(&payload);
        let theirs = value
            .as_ref()
            .map(|value| value.pointer(&pointer.to_string()));
        // Some numbers are valid JSON and yet too large for a double.
        if theirs.is_ok_and(|theirs| theirs.is_some() != found.is_some()) {
            return Err(format!("{selector} finds {found:?}, and should {theirs:?}"));
        }
    }
    // Each of these judges any value without a panic.
    let _ = birth::of(&view, &selector);
    match KeySelector::from(selector).key(&view) {
        Ok(key) if Key::parse(key.as_str()).as_ref() == Ok(&key) => Ok(Fate::Accepted),
        Ok(key) => Err(format!("the key {key} cannot be typed")),
        // It names the selector as it was written.
        Err(why) if !text.chars().any(char::is_control) => refusal(&why.to_string()),
        Err(_) => Ok(Fate::Refused),
    }
}

/// Checks that a refusal is one line that is not empty.
pub(super) fn refusal(why: &str) -> Result<Fate, String> {
    if why.trim().is_empty() || why.chars().any(char::is_control) {
        return Err(format!("refused without a line for people: {why:?}"));
    }
    Ok(Fate::Refused)
}

pub(crate) const WORDS: &[&[u8]] = &[
    b"json:/",
    b"json:",
    b"header:",
    b"field:",
    b"line\n",
    b"coordinates\n",
    b"cloudevents\n",
    b"hash\n",
    b"cel:",
    b"~0",
    b"~1",
    b"~2",
    b"/0",
    b"/-",
    b"/01",
    b"/a",
    b"\n",
    b"\t",
    b"{\"a\":",
    b"[",
    b"]",
    b"}",
    b"\"a\"",
    b"null",
    b"18446744073709551616",
    b"\"\\u0061\"",
    b"\\ud800",
    b"\x00",
    b"\x1b",
    b"1e400",
    "é".as_bytes(),
    "\u{202e}".as_bytes(),
];
