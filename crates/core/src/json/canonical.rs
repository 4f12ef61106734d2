//! The canonical bytes of a value: equal exactly where two values are.

use std::borrow::Cow;
use std::ops::Range;

use super::{Fault, JsonError, Kind, Node, write_string};

pub(super) fn write(node: Node<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    Writer {
        out,
        spans: None,
        members: Vec::new(),
    }
    .value(node)
}

pub(super) fn write_with_members(
    node: Node<'_>,
    out: &mut Vec<u8>,
    spans: &mut Vec<Span>,
) -> Result<(), JsonError> {
    let spans = Some(spans).filter(|_| node.kind() == Kind::Object);
    Writer {
        out,
        spans,
        members: Vec::new(),
    }
    .value(node)
}

/// The place of a member in the canonical bytes.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Its name, with quotes.
    pub(crate) name: Range<usize>,
    /// The name, a colon, and its value.
    pub(crate) whole: Range<usize>,
}

/// More spans than any caller keeps: of an object with more, a caller only learns that there are too
/// many.
const MOST_SPANS: usize = 64;

struct Writer<'o, 'd> {
    out: &'o mut Vec<u8>,
    /// Receives the members of the outermost object.
    spans: Option<&'o mut Vec<Span>>,
    /// The members still to be written of every object that is open: one stack for all of them.
    members: Vec<Member<'d>>,
}

struct Member<'d> {
    name: Cow<'d, str>,
    name_node: Node<'d>,
    value: Node<'d>,
}

impl<'d> Writer<'_, 'd> {
    /// Writes a value. Recurses at most as deep as the scanner allows a document to be.
    fn value(&mut self, node: Node<'d>) -> Result<(), JsonError> {
        match node.kind() {
            Kind::Null | Kind::Bool(_) => self.out.extend_from_slice(node.raw().as_bytes()),
            Kind::Number => self.out.extend_from_slice(node.number()?.as_bytes()),
            Kind::Text => self.string(node),
            Kind::Array => self.array(node)?,
            Kind::Object => self.object(node)?,
        }
        Ok(())
    }

    fn string(&mut self, node: Node<'d>) {
        match node.text() {
            // A text that needed no escape needs none now.
            Cow::Borrowed(plain) => {
                self.out.push(b'"');
                self.out.extend_from_slice(plain.as_bytes());
                self.out.push(b'"');
            }
            Cow::Owned(text) => write_string(&text, self.out),
        }
    }

    fn array(&mut self, node: Node<'d>) -> Result<(), JsonError> {
        self.out.push(b'[');
        for (index, element) in node.children().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(element)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, node: Node<'d>) -> Result<(), JsonError> {
        let mut spans = self.spans.take();
        let first = self.members.len();
        let members = node.members().map(|(name_node, value)| {
            let name = name_node.text();
            Member {
                name,
                name_node,
                value,
            }
        });
        self.members.extend(members);
        let sorted = &mut self.members[first..];
        sorted.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(pair[1].name_node.fault(Fault::DuplicateMember));
        }
        if let Some(spans) = &mut spans {
            spans.reserve(sorted.len().min(MOST_SPANS));
        }
        self.out.push(b'{');
        for index in first..self.members.len() {
            if index > first {
                self.out.push(b',');
            }
            let Member {
                name_node, value, ..
            } = self.members[index];
            let start = self.out.len();
            self.string(name_node);
            let name = start..self.out.len();
            self.out.push(b':');
            self.value(value)?;
            // One more than are kept shows that there are too many.
            if let Some(spans) = &mut spans
                && spans.len() < MOST_SPANS
            {
                let whole = start..self.out.len();
                spans.push(Span { name, whole });
            }
        }
        self.out.push(b'}');
        self.members.truncate(first);
        Ok(())
    }
}
