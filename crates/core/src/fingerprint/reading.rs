//! The values of one message that its fingerprint is made of.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::{Differing, Fingerprint, Members};
use crate::json::{Document, Span};
use crate::operation::Operation;

/// The values that a message's fingerprint is made of, in canonical form.
#[derive(Clone)]
pub struct Reading {
    fingerprint: Fingerprint,
    canonical: Vec<u8>,
    parts: Parts,
}

/// The places of the members in the canonical form.
#[derive(Clone)]
pub(super) enum Parts {
    /// The payload is no JSON object.
    None,
    /// The members of a JSON object.
    Object(Vec<Span>),
    /// The values that selectors found, in their order.
    Selected(Arc<[Box<str>]>, Vec<Range<usize>>),
}

impl Reading {
    pub(super) fn new(scheme: u32, hash: blake3::Hash, canonical: Vec<u8>, parts: Parts) -> Self {
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.as_bytes()[..16]);
        Self {
            fingerprint: Fingerprint { scheme, digest },
            canonical,
            parts,
        }
    }

    /// The fingerprint.
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The short hashes of the members, to be kept with the fingerprint; none if there are no members, or
    /// more than [`Members::MAX`].
    ///
    /// # Cost
    /// A short keyed hash per member, and one for the operation
    pub fn members(&self, operation: &Operation) -> Option<Members> {
        let part = |range: &Range<usize>| &self.canonical[range.clone()];
        match &self.parts {
            Parts::None => None,
            Parts::Object(spans) => {
                let members = spans.iter().map(|it| (part(&it.name), part(&it.whole)));
                Members::of(operation, members)
            }
            Parts::Selected(names, ranges) => {
                let names = names.iter().map(|name| name.as_bytes());
                Members::of(operation, names.zip(ranges.iter().map(part)))
            }
        }
    }

    /// Compares this request with the first one under the same key, whose `first` members the store kept.
    pub fn differing(&self, operation: &Operation, first: Option<&Members>) -> Differing {
        let part = |range: &Range<usize>| &self.canonical[range.clone()];
        match &self.parts {
            Parts::None => Differing::between(operation, first, std::iter::empty()),
            Parts::Object(spans) => {
                let members = spans.iter().map(|it| {
                    let name = part(&it.name);
                    (titled(name), name, part(&it.whole))
                });
                Differing::between(operation, first, members)
            }
            Parts::Selected(names, ranges) => {
                let members = names.iter().zip(ranges);
                let members =
                    members.map(|(name, range)| (name.clone(), name.as_bytes(), part(range)));
                Differing::between(operation, first, members)
            }
        }
    }
}

/// The selector that leads to the member whose canonical name this is, in one line and not too long.
fn titled(name: &[u8]) -> Box<str> {
    let document = Document::parse(name);
    let text = document
        .as_ref()
        .map_or(Cow::Borrowed(""), |document| document.root().text());
    let mut title = String::from("json:/");
    for (count, letter) in text.chars().enumerate() {
        match letter {
            _ if count == TITLE => {
                title.push('…');
                break;
            }
            '~' => title.push_str("~0"),
            '/' => title.push_str("~1"),
            control if control.is_control() => title.push(char::REPLACEMENT_CHARACTER),
            other => title.push(other),
        }
    }
    title.into()
}

/// Characters of a name that are shown.
const TITLE: usize = 64;
