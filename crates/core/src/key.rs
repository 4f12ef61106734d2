//! The identity of an operation: its scope, its key, and the id that both give.
//!
//! A [`Key`] is text that people read and type; an [`OpId`] is the fixed binary name that stores
//! compare. Not for finding values in a message: that is [`crate::select`].

mod scope;
mod selector;
mod unusable;

pub use scope::{InvalidOpId, InvalidScope, OpId, OpIdHasher, Scope};
pub use selector::KeySelector;
pub use unusable::Unusable;

use std::fmt;

use bytes::Bytes;

use crate::json::{Document, JsonError, Kind, Node, write_string};
use crate::select::Selected;

use unusable::KEY_MAX_BYTES;

/// The canonical text of an idempotency key.
///
/// # Shape
/// A string is itself, unless it begins with `json:`, then it is `json:` and its JSON
/// literal; a number is `json:1`; several joined are `json:["a",1]`; a line that is too
/// long or not UTF-8 is `json:{"blake3":"…"}`. So no two typed keys share a text.
///
/// # Cost
/// Cheap to clone; a key cut from a message shares the message's memory
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

impl Key {
    /// The longest key text, except of keys selected by `line`.
    pub const MAX_BYTES: usize = KEY_MAX_BYTES;

    /// The key that is the string `text`, even if it begins with `json:`.
    ///
    /// # Errors
    /// `key-blank`, `key-too-long` and `key-control-character`.
    pub fn new(text: &str) -> Result<Self, Unusable> {
        Self::shared(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// The key that is the string `text`, which is already in memory.
    ///
    /// # Errors
    /// As [`new`](Self::new), and `key-not-scalar` where the bytes are not UTF-8.
    pub fn shared(text: Bytes) -> Result<Self, Unusable> {
        let at = || "the key".into();
        let Ok(as_str) = std::str::from_utf8(&text) else {
            let found = Selected::Bytes(&text).noun();
            return Err(Unusable::KeyNotScalar { at: at(), found });
        };
        check_text(as_str, at)?;
        Self::of_text(text).within_limit(at)
    }

    /// Reads a key as people see and type it: plain text is a string, `json:` followed by JSON is
    /// typed.
    ///
    /// # Shape
    /// `pay-1`, `json:1.0` (displayed as `json:1`), `json:["a",1]`, `json:"json:1"`
    ///
    /// # Errors
    /// The text after `json:` is not JSON, or not the JSON of a key. No text is too long or blank
    /// here, since any may be a line's key.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        let Some(json) = text.strip_prefix(TYPED) else {
            return Ok(Self(Bytes::copy_from_slice(text.as_bytes())));
        };
        let document = Document::parse(json.as_bytes()).map_err(InvalidKey::NotJson)?;
        let root = document.root();
        match root.kind() {
            Kind::Text => Ok(Self::of_text(Bytes::from(root.text().into_owned()))),
            _ if is_part(root) => {
                let mut canonical = Vec::from(TYPED);
                root.canonical(&mut canonical)
                    .map_err(InvalidKey::NotJson)?;
                Ok(Self(canonical.into()))
            }
            _ => Err(InvalidKey::NotAKey),
        }
    }

    /// The key whose canonical text a store kept, or nothing if the bytes are not UTF-8.
    pub fn from_canonical(text: Bytes) -> Option<Self> {
        std::str::from_utf8(&text).is_ok().then_some(Self(text))
    }

    /// The canonical text.
    pub fn as_str(&self) -> &str {
        match std::str::from_utf8(&self.0) {
            Ok(text) => text,
            Err(_) => unreachable!("a key is only ever made of UTF-8"),
        }
    }

    /// The canonical text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The canonical text as shared bytes.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// A copy of the key in memory of its own, so that keeping it does not keep the message it came
    /// in.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// The key that is a string; `text` is UTF-8.
    fn of_text(text: Bytes) -> Self {
        if !text.starts_with(TYPED.as_bytes()) {
            return Self(text);
        }
        let mut typed = Vec::from(TYPED);
        write_string(Self(text).as_str(), &mut typed);
        Self(typed.into())
    }

    fn within_limit(self, at: impl FnOnce() -> Box<str>) -> Result<Self, Unusable> {
        if self.0.len() > Self::MAX_BYTES {
            return Err(Unusable::KeyTooLong { at: at() });
        }
        Ok(self)
    }
}

impl From<u64> for Key {
    /// The key that is this number, `json:1`.
    fn from(number: u64) -> Self {
        Self(format!("{TYPED}{number}").into())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.as_str())
    }
}

/// The reason why a text is no [`Key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidKey {
    /// The text after `json:` is not JSON.
    NotJson(JsonError),
    /// The text after `json:` is JSON, but neither a string nor a number nor a list of them.
    NotAKey,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(why) => write!(f, "what follows json: is not JSON ({why})"),
            Self::NotAKey => f.write_str("a typed key is json: and a string, a number or a list"),
        }
    }
}

impl std::error::Error for InvalidKey {}

/// Returns whether a value can be a typed key, or a part of one.
fn is_part(node: Node<'_>) -> bool {
    match node.kind() {
        Kind::Text | Kind::Number => true,
        Kind::Array => {
            let mut parts = node.children().peekable();
            parts.peek().is_some() && parts.all(is_part)
        }
        Kind::Object => {
            let mut members = node.members();
            let digest = members.next().filter(|(name, _)| name.text() == DIGEST);
            let is_digest = |(_, value): (Node<'_>, Node<'_>)| {
                let hex = value.raw().as_bytes();
                value.kind() == Kind::Text
                    && hex.len() == 64
                    && hex
                        .iter()
                        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
            };
            digest.is_some_and(is_digest) && members.next().is_none()
        }
        Kind::Null | Kind::Bool(_) => false,
    }
}

/// Checks the rules for every string that is a key, unless it is the key of a `line`.
fn check_text(text: &str, at: impl FnOnce() -> Box<str>) -> Result<(), Unusable> {
    if text.trim_start().is_empty() {
        Err(Unusable::KeyBlank { at: at() })
    } else if text.len() > Key::MAX_BYTES {
        Err(Unusable::KeyTooLong { at: at() })
    } else if text.chars().any(char::is_control) {
        Err(Unusable::KeyControlCharacter { at: at() })
    } else {
        Ok(())
    }
}

/// The beginning of a key that is not simply a string.
const TYPED: &str = "json:";
/// The member that stands for a line by its hash.
const DIGEST: &str = "blake3";

#[cfg(test)]
mod tests;
