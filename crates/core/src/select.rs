//! Selectors: the places in a message that a value comes from, and the values found there.
//!
//! Not for judging a value: [`crate::key`] says whether it can be a key, and [`crate::birth`] whether it
//! can be a time.

mod fields;
mod parse;
mod view;

pub use fields::Fields;
pub use parse::InvalidSelector;
pub use view::{Message, View};

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;

use crate::json::{Kind, Node, Pointer};

/// A place in a message that a value comes from.
///
/// # Shape
/// Read from, and displayed as, `json:/POINTER`, `header:NAME`, `field:N`, `line`,
/// `coordinates`, `cloudevents` or `hash`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// The value that a JSON pointer leads to in the payload.
    Json(Pointer),
    /// The header of that name, in upper or lower case.
    Header(Box<str>),
    /// A field of the payload, counted from one; tabs stand between fields unless the view has [`Fields`]
    /// of another kind.
    Field(NonZeroUsize),
    /// The whole payload.
    Line,
    /// The position of the message in its source: topic, partition, offset.
    Coordinates,
    /// The source and id of a `CloudEvent`, from its headers, else from its structured JSON.
    CloudEvents,
    /// The BLAKE3-256 of the payload, in hexadecimal.
    Hash,
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Field(number) => write!(f, "field:{number}"),
            Self::Line => f.write_str("line"),
            Self::Coordinates => f.write_str("coordinates"),
            Self::CloudEvents => f.write_str("cloudevents"),
            Self::Hash => f.write_str("hash"),
        }
    }
}

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

    fn of_bytes(bytes: &'v [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(Cow::Borrowed(text)),
            Err(_) => Self::Bytes(bytes),
        }
    }
}

#[cfg(test)]
mod tests;
