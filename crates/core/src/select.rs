//! Selectors: the places in a message that a value comes from, and the values found there.
//!
//! Not for judging a value: [`crate::key`] says whether it can be a key, and [`crate::birth`] whether it
//! can be a time.

mod fields;
mod parse;
mod selected;
mod view;

pub use fields::Fields;
pub use parse::InvalidSelector;
pub use selected::Selected;
pub use view::{Message, View};

use std::fmt;
use std::num::NonZeroUsize;

use crate::json::Pointer;

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

#[cfg(test)]
mod tests;
