//! JSON pointers (RFC 6901): the way from a document to one value in it.

use std::fmt;
use std::str::FromStr;

/// A JSON pointer such as `/a/b~1c/0`; the empty one means the whole document.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pointer {
    text: Box<str>,
    tokens: Box<[Token]>,
}

/// One step: a member's name, which may be an element's index too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Token {
    pub(super) name: Box<str>,
    pub(super) index: Option<usize>,
}

impl Pointer {
    /// Reads a pointer.
    ///
    /// # Errors
    /// A pointer that does not begin with a slash, or a tilde that is neither `~0` nor `~1`.
    pub fn parse(text: &str) -> Result<Self, InvalidPointer> {
        let mut steps = text.split('/');
        if steps.next() != Some("") {
            return Err(InvalidPointer::NoSlash);
        }
        let tokens = steps.map(Token::read).collect::<Result<_, _>>()?;
        Ok(Self {
            text: text.into(),
            tokens,
        })
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }
}

impl Token {
    fn read(step: &str) -> Result<Self, InvalidPointer> {
        let mut parts = step.split('~');
        let mut name = String::with_capacity(step.len());
        name.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let (escaped, rest) = match part.as_bytes() {
                [b'0', ..] => ('~', &part[1..]),
                [b'1', ..] => ('/', &part[1..]),
                _ => return Err(InvalidPointer::Tilde),
            };
            name.push(escaped);
            name.push_str(rest);
        }
        let is_index =
            step == "0" || !step.starts_with('0') && step.bytes().all(|byte| byte.is_ascii_digit());
        let index = if is_index { step.parse().ok() } else { None };
        Ok(Self {
            name: name.into(),
            index,
        })
    }
}

impl FromStr for Pointer {
    type Err = InvalidPointer;

    fn from_str(text: &str) -> Result<Self, InvalidPointer> {
        Self::parse(text)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The reason why a text is no [`Pointer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidPointer {
    /// It does not begin with a slash.
    NoSlash,
    /// It has a tilde that is neither `~0` (a tilde) nor `~1` (a slash).
    Tilde,
}

impl fmt::Display for InvalidPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSlash => "a JSON pointer begins with a slash",
            Self::Tilde => "in a JSON pointer a tilde is written ~0 and a slash ~1",
        })
    }
}

impl std::error::Error for InvalidPointer {}
