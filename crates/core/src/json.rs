//! Strict JSON (RFC 8259) over borrowed bytes: one flat tape of nodes, nothing copied.
//!
//! Not for building or printing values: it has only what keys, fingerprints and selectors need. A byte
//! order mark is not white space here; the reader of the source drops it.

mod canonical;
mod error;
mod mask;
pub mod number;
mod pointer;
mod scan;
mod text;

pub(crate) use canonical::Span;
pub use error::{Fault, JsonError};
pub use mask::{HiddenMember, InvalidMember, MASKED, Mask};
pub use pointer::{InvalidPointer, Pointer};
pub use scan::MAX_DEPTH;
pub use text::write_string;

use std::borrow::Cow;

use scan::Entry;

/// One JSON text, scanned and found valid.
///
/// # Cost
/// One pass, no allocation per value, none at all with a [`Tape`] that has been used
#[derive(Debug)]
pub struct Document<'a> {
    text: &'a str,
    tape: Tape,
}

/// The memory of a [`Document`], to be used again for the next one.
#[derive(Debug, Default)]
pub struct Tape(Vec<Entry>);

impl<'a> Document<'a> {
    /// Scans `bytes`, which must be exactly one JSON value and white space.
    ///
    /// # Errors
    /// The first fault, and where it is.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        Self::parse_onto(bytes, &mut Tape::default())
    }

    /// Scans `bytes` into the memory of `tape`, which [`into_tape`](Self::into_tape) gives back.
    ///
    /// # Errors
    /// The first fault, and where it is; the tape then keeps its memory.
    pub fn parse_onto(bytes: &'a [u8], tape: &mut Tape) -> Result<Self, JsonError> {
        let text = scan::scan(bytes, &mut tape.0)?;
        Ok(Self {
            text,
            tape: std::mem::take(tape),
        })
    }

    /// The memory, free to be used again.
    pub fn into_tape(self) -> Tape {
        self.tape
    }

    /// The whole value.
    pub fn root(&self) -> Node<'_> {
        Node {
            document: self,
            index: 0,
        }
    }

    /// The value that `pointer` leads to, if there is one.
    ///
    /// # Errors
    /// [`Fault::DuplicateMember`] where an object on the way has the name asked for twice.
    pub fn pointer(&self, pointer: &Pointer) -> Result<Option<Node<'_>>, JsonError> {
        let mut node = self.root();
        for token in pointer.tokens() {
            match node.child(token)? {
                Some(child) => node = child,
                None => return Ok(None),
            }
        }
        Ok(Some(node))
    }
}

/// One value in a [`Document`].
#[derive(Debug, Clone, Copy)]
pub struct Node<'d> {
    document: &'d Document<'d>,
    index: u32,
}

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number,
    /// A string.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'d> Node<'d> {
    /// The kind of this value.
    pub fn kind(self) -> Kind {
        self.entry().kind
    }

    /// The value as it is written, a string without its quotes.
    pub fn raw(self) -> &'d str {
        let Entry { start, end, .. } = self.entry();
        &self.document.text[start as usize..end as usize]
    }

    /// The text of a string, its escapes resolved; the [`raw`](Self::raw) text of any other value.
    ///
    /// # Cost
    /// Nothing is copied where there are no escapes
    pub fn text(self) -> Cow<'d, str> {
        if self.entry().escaped {
            Cow::Owned(text::unescape(self.raw()))
        } else {
            Cow::Borrowed(self.raw())
        }
    }

    /// The canonical text of a number.
    ///
    /// # Errors
    /// [`Fault::NumberTooLong`] where it would have over [`number::MAX_DIGITS`] digits.
    pub fn number(self) -> Result<Cow<'d, str>, JsonError> {
        number::canonical(self.raw()).map_err(|number::TooLong| self.fault(Fault::NumberTooLong))
    }

    /// Appends the canonical bytes of the value: members by name, no white space, no needless
    /// escapes, numbers by value.
    ///
    /// # Errors
    /// [`Fault::DuplicateMember`] and [`Fault::NumberTooLong`], anywhere in the value; `out` then
    /// holds a part of it.
    pub fn canonical(self, out: &mut Vec<u8>) -> Result<(), JsonError> {
        canonical::write(self, out)
    }

    /// As [`canonical`](Self::canonical), and notes where in `out` each member of this object is; of any
    /// other value it notes nothing.
    pub(crate) fn canonical_with_members(
        self,
        out: &mut Vec<u8>,
        members: &mut Vec<Span>,
    ) -> Result<(), JsonError> {
        canonical::write_with_members(self, out, members)
    }

    /// The value of an object's member; none of any other value.
    ///
    /// # Errors
    /// [`Fault::DuplicateMember`] where the object has the name twice.
    pub fn member(self, name: &str) -> Result<Option<Node<'d>>, JsonError> {
        let mut found = None;
        if self.kind() == Kind::Object {
            for (candidate, value) in self.members() {
                if candidate.says(name) && found.replace(value).is_some() {
                    return Err(candidate.fault(Fault::DuplicateMember));
                }
            }
        }
        Ok(found)
    }

    /// The elements of an array; the names and values of an object in turn; else nothing.
    pub fn children(self) -> impl Iterator<Item = Node<'d>> {
        let end = self.entry().next;
        let mut next = self.index + 1;
        std::iter::from_fn(move || {
            let child = (next < end).then_some(Node {
                index: next,
                ..self
            })?;
            next = child.entry().next;
            Some(child)
        })
    }

    /// The names of an object with their values.
    pub fn members(self) -> impl Iterator<Item = (Node<'d>, Node<'d>)> {
        let mut children = self.children();
        std::iter::from_fn(move || Some((children.next()?, children.next()?)))
    }

    fn child(self, token: &pointer::Token) -> Result<Option<Node<'d>>, JsonError> {
        match self.kind() {
            Kind::Array => Ok(token.index.and_then(|index| self.children().nth(index))),
            _ => self.member(&token.name),
        }
    }

    fn says(self, text: &str) -> bool {
        if self.entry().escaped {
            self.text() == text
        } else {
            self.raw() == text
        }
    }

    fn fault(self, fault: Fault) -> JsonError {
        JsonError::new(fault, self.entry().start as usize)
    }

    fn entry(self) -> Entry {
        self.document.tape.0[self.index as usize]
    }
}

#[cfg(test)]
mod tests;
