//! One message as its selectors see it: scanned as JSON at most once, and not before it is needed.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::num::NonZeroUsize;
use std::ops::Range;

use bytes::Bytes;
use bytestring::ByteString;

use super::{Fields, Selected, Selector};
use crate::json::{Document, Fault, JsonError, Kind, Node, Pointer, Tape};
use crate::key::Unusable;

/// The parts of a message that selectors can see.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The payload, without a line's terminator.
    pub payload: &'a Bytes,
    /// The headers, in the order of the source.
    pub headers: &'a [(ByteString, Bytes)],
    /// The position of the message in its source.
    pub coordinates: &'a str,
}

/// A message, and its JSON once a selector has asked for it.
///
/// Made for one task at a time: it can be sent, but not shared, and is not held across an `.await`.
#[derive(Debug)]
pub struct View<'a> {
    message: Message<'a>,
    fields: Fields<'a>,
    document: OnceCell<Result<Document<'a>, JsonError>>,
    tape: RefCell<Tape>,
}

impl<'a> View<'a> {
    /// A view of `message`.
    pub fn new(message: Message<'a>) -> Self {
        Self::onto(message, Tape::default())
    }

    /// A view of `message` that scans into the memory of `tape`, which
    /// [`into_tape`](Self::into_tape) gives back for the next message.
    pub fn onto(message: Message<'a>, tape: Tape) -> Self {
        Self {
            message,
            fields: Fields::Tabs,
            document: OnceCell::new(),
            tape: RefCell::new(tape),
        }
    }

    /// The same view with fields that are separated in this way, not by tabs.
    #[must_use]
    pub fn with_fields(self, fields: Fields<'a>) -> Self {
        Self { fields, ..self }
    }

    /// The memory, free to be used again.
    pub fn into_tape(self) -> Tape {
        match self.document.into_inner() {
            Some(Ok(document)) => document.into_tape(),
            Some(Err(_)) | None => self.tape.into_inner(),
        }
    }

    /// The message.
    pub const fn message(&self) -> Message<'a> {
        self.message
    }

    /// The payload as JSON.
    ///
    /// # Cost
    /// One scan, the first time
    ///
    /// # Errors
    /// The first fault of a payload that is not JSON.
    pub fn document(&self) -> Result<&Document<'_>, JsonError> {
        let scan = || Document::parse_onto(self.message.payload, &mut self.tape.borrow_mut());
        match self.document.get_or_init(scan) {
            Ok(document) => Ok(document),
            Err(error) => Err(*error),
        }
    }

    /// The value that `selector` finds, if any.
    ///
    /// # Errors
    /// `not-json`, `nested-too-deep`, `member-duplicated` and `number-too-long`.
    pub fn select(&self, selector: &Selector) -> Result<Option<Selected<'_>>, Unusable> {
        let found = match selector {
            Selector::Json(pointer) => self.json(pointer),
            Selector::Header(name) => match self.header(|header| name.eq_ignore_ascii_case(header))
            {
                Ok(value) => Ok(value.map(Selected::of_bytes)),
                Err(Ambiguous) => {
                    return Err(Unusable::MemberDuplicated {
                        at: name_of(selector),
                    });
                }
            },
            Selector::Field(number) => Ok(self.field(*number).map(Selected::of_bytes)),
            Selector::Line => Ok(Some(Selected::of_bytes(self.message.payload))),
            Selector::Coordinates => Ok(Some(Selected::Text(Cow::Borrowed(
                self.message.coordinates,
            )))),
            Selector::CloudEvents => match self.event_of_headers() {
                Some(event) => Ok(Some(event)),
                None => self.event_of_payload(),
            },
            Selector::Hash => {
                let hash = blake3::hash(self.message.payload).to_hex();
                Ok(Some(Selected::Text(Cow::Owned(hash.as_str().to_owned()))))
            }
        };
        found.map_err(|error| Unusable::of_json(error, || name_of(selector)))
    }

    /// A text that was selected, as shared bytes: a slice of the payload or header that it lies in.
    pub(crate) fn share(&self, text: Cow<'_, str>) -> Bytes {
        let text = match text {
            Cow::Owned(text) => return Bytes::from(text),
            Cow::Borrowed(text) => text.as_bytes(),
        };
        let Range { start, end } = text.as_ptr_range();
        let holds_text = |bytes: &&Bytes| {
            let whole = bytes.as_ptr_range();
            whole.start <= start && end <= whole.end
        };
        let headers = self.message.headers.iter().map(|(_, value)| value);
        match std::iter::once(self.message.payload)
            .chain(headers)
            .find(holds_text)
        {
            Some(home) => home.slice_ref(text),
            None => Bytes::copy_from_slice(text),
        }
    }

    fn json(&self, pointer: &Pointer) -> Result<Option<Selected<'_>>, JsonError> {
        let Some(node) = self.document()?.pointer(pointer)? else {
            return Ok(None);
        };
        Ok(Some(match node.kind() {
            Kind::Null => Selected::Null,
            Kind::Bool(value) => Selected::Bool(value),
            Kind::Number => Selected::Number(node.number()?),
            Kind::Text => Selected::Text(node.text()),
            Kind::Array | Kind::Object => Selected::Nested(node),
        }))
    }

    /// The value of the one header whose name is `wanted`; the same value twice counts as one.
    fn header(&self, wanted: impl Fn(&str) -> bool) -> Result<Option<&'a [u8]>, Ambiguous> {
        let mut values = self.message.headers.iter().filter(|(name, _)| wanted(name));
        let Some((_, value)) = values.next() else {
            return Ok(None);
        };
        if values.all(|(_, other)| other == value) {
            Ok(Some(value))
        } else {
            Err(Ambiguous)
        }
    }

    fn field(&self, number: NonZeroUsize) -> Option<&'a [u8]> {
        self.fields.nth(self.message.payload, number.get() - 1)
    }

    /// The binary mode of `CloudEvents`, as the HTTP, Kafka and AMQP bindings prefix its headers.
    fn event_of_headers(&self) -> Option<Selected<'_>> {
        let attribute = |wanted: &str| {
            let is_wanted = |header: &str| {
                EVENT_PREFIXES.iter().any(|prefix| {
                    header
                        .split_at_checked(prefix.len())
                        .is_some_and(|(start, attribute)| {
                            start.eq_ignore_ascii_case(prefix)
                                && attribute.eq_ignore_ascii_case(wanted)
                        })
                })
            };
            let value = self.header(is_wanted).ok().flatten()?;
            std::str::from_utf8(value).ok().map(Cow::Borrowed)
        };
        Some(Selected::Event(attribute("source")?, attribute("id")?))
    }

    /// The structured mode of `CloudEvents`.
    fn event_of_payload(&self) -> Result<Option<Selected<'_>>, JsonError> {
        let root = self.document()?.root();
        let attribute = |name: &str| -> Result<Option<Cow<'_, str>>, JsonError> {
            Ok(root
                .member(name)?
                .filter(|node| node.kind() == Kind::Text)
                .map(Node::text))
        };
        Ok(attribute("source")?
            .zip(attribute("id")?)
            .map(|(source, id)| Selected::Event(source, id)))
    }
}

/// A header that occurs twice with different values.
struct Ambiguous;

impl Unusable {
    /// The meaning of a fault in the JSON for the message; `at` is called to get the place of the
    /// fault.
    pub(crate) fn of_json(error: JsonError, at: impl FnOnce() -> Box<str>) -> Self {
        match error.fault {
            Fault::DuplicateMember => Self::MemberDuplicated { at: at() },
            Fault::NumberTooLong => Self::NumberTooLong { at: at() },
            Fault::TooDeep => Self::NestedTooDeep,
            _ => Self::NotJson(error),
        }
    }
}

pub(crate) fn name_of(selector: &Selector) -> Box<str> {
    selector.to_string().into()
}

const EVENT_PREFIXES: [&str; 4] = ["ce-", "ce_", "cloudEvents:", "cloudEvents_"];
