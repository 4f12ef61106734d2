//! The selectors of a message's key.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;

use super::{DIGEST, Key, TYPED, Unusable, check_text};
use crate::json::write_string;
use crate::select::{InvalidSelector, Selected, Selector, View};

/// One selector, or several whose values are joined.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeySelector(Box<[Selector]>);

impl KeySelector {
    /// The whole message: the key of text streams.
    pub fn line() -> Self {
        Selector::Line.into()
    }

    /// The selectors, in the order in which their values are joined.
    pub fn selectors(&self) -> &[Selector] {
        &self.0
    }

    /// The key of a message.
    ///
    /// # Cost
    /// A JSON string without escapes is a slice of the payload, without a copy
    ///
    /// # Errors
    /// The reason why the message has no usable key; the first selector at fault decides.
    pub fn key(&self, view: &View<'_>) -> Result<Key, Unusable> {
        let [selector] = &*self.0 else {
            return self.joined(view);
        };
        let part = Part::of(selector, view)?;
        let key = match part {
            Part::Text(text) => Key::of_text(view.share(text)),
            other => {
                let mut typed = Vec::from(TYPED);
                other.write(&mut typed);
                Key(Bytes::from(typed))
            }
        };
        if *selector == Selector::Line {
            Ok(key)
        } else {
            key.within_limit(|| self.name())
        }
    }

    fn joined(&self, view: &View<'_>) -> Result<Key, Unusable> {
        let mut typed = Vec::from(TYPED);
        for (index, selector) in self.0.iter().enumerate() {
            typed.push(if index == 0 { b'[' } else { b',' });
            Part::of(selector, view)?.write(&mut typed);
        }
        typed.push(b']');
        Key(Bytes::from(typed)).within_limit(|| self.name())
    }

    fn name(&self) -> Box<str> {
        self.to_string().into()
    }
}

impl From<Selector> for KeySelector {
    fn from(selector: Selector) -> Self {
        Self([selector].into())
    }
}

impl TryFrom<Vec<Selector>> for KeySelector {
    type Error = InvalidSelector;

    fn try_from(selectors: Vec<Selector>) -> Result<Self, InvalidSelector> {
        if selectors.is_empty() {
            return Err(InvalidSelector::Empty);
        }
        Ok(Self(selectors.into()))
    }
}

impl FromStr for KeySelector {
    type Err = InvalidSelector;

    /// Reads a single selector.
    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        text.parse().map(Selector::into)
    }
}

impl fmt::Display for KeySelector {
    /// One selector as it is, several as `json:/a + header:b`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, selector) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " + " })?;
            selector.fmt(f)?;
        }
        Ok(())
    }
}

/// The part that one selector adds to a key: a value that can be one, with its type.
enum Part<'v> {
    Text(Cow<'v, str>),
    Number(Cow<'v, str>),
    Event(Cow<'v, str>, Cow<'v, str>),
    Digest(blake3::Hash),
}

impl<'v> Part<'v> {
    fn of(selector: &Selector, view: &'v View<'_>) -> Result<Self, Unusable> {
        let at = || Box::from(selector.to_string());
        let Some(selected) = view.select(selector)? else {
            return Err(Unusable::KeyMissing { at: at() });
        };
        match selected {
            selected if *selector == Selector::Line => Ok(Self::of_line(selected, view)),
            Selected::Text(text) => {
                check_text(&text, at)?;
                Ok(Self::Text(text))
            }
            Selected::Number(number) => Ok(Self::Number(number)),
            Selected::Event(source, id) => {
                check_text(&source, at)?;
                check_text(&id, at)?;
                Ok(Self::Event(source, id))
            }
            Selected::Null => Err(Unusable::KeyNull { at: at() }),
            Selected::Bool(_) | Selected::Bytes(_) | Selected::Nested(_) => {
                Err(Unusable::KeyNotScalar {
                    at: at(),
                    found: selected.noun(),
                })
            }
        }
    }

    fn of_line(selected: Selected<'v>, view: &View<'_>) -> Self {
        match selected {
            Selected::Text(text) if text.len() <= MAX_LINE_BYTES => Self::Text(text),
            _ => Self::Digest(blake3::hash(view.message().payload)),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_string(text, out),
            Self::Number(number) => out.extend_from_slice(number.as_bytes()),
            Self::Event(source, id) => {
                out.push(b'[');
                write_string(source, out);
                out.push(b',');
                write_string(id, out);
                out.push(b']');
            }
            Self::Digest(hash) => {
                out.extend_from_slice(b"{\"");
                out.extend_from_slice(DIGEST.as_bytes());
                out.extend_from_slice(b"\":\"");
                out.extend_from_slice(hash.to_hex().as_bytes());
                out.extend_from_slice(b"\"}");
            }
        }
    }
}

/// The longest line that is its own key; a longer one is represented by its hash.
const MAX_LINE_BYTES: usize = 255;
