//! The key of a line or record, or the reason why it has none.

use bytes::Bytes;
use semel_core::json::Tape;
use semel_core::key::KeySelector;
use semel_core::select::{Fields, Message, Selector, View};
use semel_core::{ByteString, Key, Unusable};

use super::csv::{Csv, Record};

/// The way in which an input is cut into lines or records, and these into fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines, with this between their fields.
    Lines(Separator),
    /// Records of CSV.
    Csv(Csv),
}

/// The separator of a line's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Separator {
    /// A tab, as `cut` has it.
    Tab,
    /// This text, which is not empty.
    Text(Box<str>),
    /// Any number of spaces and tabs, which separate nothing before the first field, as in `awk`.
    Blanks,
}

/// Finds the keys of the lines of one input.
#[derive(Debug)]
pub(super) struct Keys {
    selector: KeySelector,
    separator: Separator,
    /// For records of CSV.
    record: Option<Record>,
    /// The beginning of coordinates: the name of the input and a colon.
    prefix: Box<str>,
    tape: Tape,
    /// True if a key is made of its line's place.
    takes_coordinates: bool,
    /// True if keys are looked for in JSON.
    takes_json: bool,
}

impl Keys {
    pub(super) fn new(selector: KeySelector, format: &Format, input: &str) -> Self {
        let is_any = |wanted: fn(&Selector) -> bool| selector.selectors().iter().any(wanted);
        let takes_fields = is_any(|it| matches!(it, Selector::Field(_)));
        let (separator, record) = match format {
            Format::Lines(separator) => (separator.clone(), None),
            Format::Csv(csv) => (Separator::Tab, takes_fields.then(|| Record::new(csv))),
        };
        Self {
            separator,
            record,
            takes_coordinates: is_any(|it| matches!(it, Selector::Coordinates)),
            takes_json: is_any(|it| matches!(it, Selector::Json(_) | Selector::CloudEvents)),
            prefix: format!("{input}:").into(),
            tape: Tape::default(),
            selector,
        }
    }

    /// The key of the line with this number.
    pub(super) fn key(&mut self, payload: &Bytes, number: u64) -> Result<Key, Unusable> {
        let without_mark;
        let mut seen = payload;
        if number == 1 && self.takes_json && payload.starts_with(BYTE_ORDER_MARK) {
            without_mark = payload.slice(BYTE_ORDER_MARK.len()..);
            seen = &without_mark;
        }
        let coordinates = if self.takes_coordinates {
            self.coordinates(number)
        } else {
            ByteString::new()
        };
        let message = Message {
            payload: seen,
            headers: &[],
            coordinates: &coordinates,
        };
        let fields = match (&mut self.record, &self.separator) {
            (Some(record), _) => record.fields(payload),
            (None, Separator::Tab) => Fields::Tabs,
            (None, Separator::Text(text)) => Fields::Separated(text.as_bytes()),
            (None, Separator::Blanks) => Fields::Blanks,
        };
        let view = View::onto(message, std::mem::take(&mut self.tape)).with_fields(fields);
        let key = self.selector.key(&view);
        self.tape = view.into_tape();
        key
    }

    /// Returns whether the line itself is its key.
    pub(super) fn are_lines(&self) -> bool {
        self.selector == KeySelector::line()
    }

    /// The coordinates of a line, as the file source has them.
    pub(super) fn coordinates(&self, number: u64) -> ByteString {
        format!("{}{number}", self.prefix).into()
    }
}

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
