//! The values that selectors find.

use std::borrow::Cow;

use crate::json::{Kind, Node};

/// The value that a selector finds, with its type.
#[derive(Debug, Clone)]
pub enum Selected<'v> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// The canonical text of a number.
    Number(Cow<'v, str>),
    /// A text.
    Text(Cow<'v, str>),
    /// Bytes that are not UTF-8.
    Bytes(&'v [u8]),
    /// The source and the id of a `CloudEvent`.
    Event(Cow<'v, str>, Cow<'v, str>),
    /// An array or object.
    Nested(Node<'v>),
}

impl<'v> Selected<'v> {
    /// Every noun that [`noun`](Self::noun) may return.
    pub(crate) const NOUNS: [&'static str; 8] = [
        "null",
        "a boolean",
        "a number",
        "a string",
        "not UTF-8",
        "an event",
        "an array",
        "an object",
    ];

    /// A noun for the value, in a word or two.
    pub fn noun(&self) -> &'static str {
        let index = match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Number(_) => 2,
            Self::Text(_) => 3,
            Self::Bytes(_) => 4,
            Self::Event(..) => 5,
            Self::Nested(node) if node.kind() == Kind::Array => 6,
            Self::Nested(_) => 7,
        };
        Self::NOUNS[index]
    }

    /// A text, or bytes that are none.
    pub(super) fn of_bytes(bytes: &'v [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(Cow::Borrowed(text)),
            Err(_) => Self::Bytes(bytes),
        }
    }
}
