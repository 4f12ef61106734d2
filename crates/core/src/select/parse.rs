//! Selectors as a configuration or a command line writes them.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use super::Selector;
use crate::json::{InvalidPointer, Pointer};

impl FromStr for Selector {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        let (form, argument) = match text.split_once(':') {
            Some((form, argument)) => (form, Some(argument)),
            None => (text, None),
        };
        match (form, argument) {
            ("json", Some(pointer)) => {
                Pointer::parse(pointer)
                    .map(Self::Json)
                    .map_err(|why| InvalidSelector::Pointer {
                        pointer: pointer.into(),
                        why,
                    })
            }
            ("header", Some(name)) if is_header_name(name) => Ok(Self::Header(name.into())),
            ("field", Some(number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => number
                .parse::<NonZeroUsize>()
                .map(Self::Field)
                .map_err(|_| InvalidSelector::Argument { wanted: FIELD }),
            ("line", None) => Ok(Self::Line),
            ("coordinates", None) => Ok(Self::Coordinates),
            ("cloudevents", None) => Ok(Self::CloudEvents),
            ("hash", None) => Ok(Self::Hash),
            ("cel", Some(_)) => Err(InvalidSelector::Cel),
            ("json", None) => Err(InvalidSelector::Argument { wanted: JSON }),
            ("header", _) => Err(InvalidSelector::Argument { wanted: HEADER }),
            ("field", _) => Err(InvalidSelector::Argument { wanted: FIELD }),
            _ => Err(InvalidSelector::Unknown {
                text: text.into(),
                meant: nearest(text, form),
            }),
        }
    }
}

/// The reason why a text is no [`Selector`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidSelector {
    /// The form is not known.
    Unknown {
        /// The text as written.
        text: Box<str>,
        /// The selector that was probably meant.
        meant: Option<Box<str>>,
    },
    /// The form is known, but its argument is not valid.
    Argument {
        /// The way to write the form.
        wanted: &'static str,
    },
    /// The JSON pointer is not valid.
    Pointer {
        /// The text that was written as a pointer.
        pointer: Box<str>,
        /// The fault in it.
        why: InvalidPointer,
    },
    /// An expression, which this build cannot evaluate.
    Cel,
    /// A list of selectors without a selector.
    Empty,
}

impl fmt::Display for InvalidSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { text, meant } => {
                write!(f, "unknown selector {text:?}")?;
                if let Some(meant) = meant {
                    write!(f, ", did you mean {meant:?}?")?;
                }
                write!(f, " (a selector is {JSON}, {HEADER}, {FIELD}")?;
                write!(f, ", line, coordinates, cloudevents or hash)")
            }
            Self::Argument { wanted } => {
                write!(f, "this selector is written {wanted}")?;
                f.write_str(if *wanted == FIELD { ", from 1" } else { "" })
            }
            Self::Pointer {
                pointer,
                why: why @ InvalidPointer::NoSlash,
            } => {
                write!(f, "{why}: \"json:/{}\"", pointer.escape_debug())
            }
            Self::Pointer { pointer, why } => write!(f, "{why}, unlike in {pointer:?}"),
            Self::Cel => f.write_str("cel selectors are not supported in this build"),
            Self::Empty => f.write_str("a list of selectors names at least one"),
        }
    }
}

impl std::error::Error for InvalidSelector {}

fn is_header_name(name: &str) -> bool {
    !name.trim().is_empty() && !name.chars().any(char::is_control)
}

/// The selector that the writer of `text` probably meant: a known form within reach of a few typing
/// errors, with the argument that was given.
fn nearest(text: &str, form: &str) -> Option<Box<str>> {
    if text.starts_with('/') && Pointer::parse(text).is_ok() {
        return Some(format!("json:{text}").into());
    }
    let form = form.trim().to_lowercase();
    let nearest = FORMS
        .into_iter()
        .map(|(name, argument)| (distance(&form, name), name, argument))
        .filter(|(distance, name, _)| *distance <= name.len() / 3)
        .min_by_key(|(distance, ..)| *distance)
        .map(|(_, name, argument)| (name, argument));
    let Some((name, argument)) = nearest else {
        return member(text).map(|pointer| format!("json:{pointer}").into());
    };
    let given = text.split_once(':').map(|(_, given)| given.trim());
    Some(match (argument, given) {
        ("", _) => name.into(),
        (_, Some(given)) if !given.is_empty() => format!("{name}:{given}").into(),
        _ => format!("{name}:{argument}").into(),
    })
}

/// The pointer to a member that was written as its bare name, or as a path of `JSONPath` or `jq`.
fn member(text: &str) -> Option<String> {
    let path = text.strip_prefix('$').unwrap_or(text);
    let path = path.strip_prefix('.').unwrap_or(path);
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        !name.is_empty() && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    path.split('.')
        .all(is_name)
        .then(|| format!("/{}", path.replace('.', "/")))
}

/// The number of characters to insert, leave out or replace to get from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, from) in a.chars().take(LONGEST).enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], index + 1);
        for (column, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// The length beyond which a word is near to none.
const LONGEST: usize = 32;
const JSON: &str = "json:/POINTER";
const HEADER: &str = "header:NAME";
const FIELD: &str = "field:N";
const FORMS: [(&str, &str); 7] = [
    ("json", "/POINTER"),
    ("header", "NAME"),
    ("field", "N"),
    ("line", ""),
    ("coordinates", ""),
    ("cloudevents", ""),
    ("hash", ""),
];
