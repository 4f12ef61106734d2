//! The faults of a JSON text, and their places.

use std::fmt;

/// A fault of a JSON text, and the byte at which it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonError {
    /// The fault.
    pub fault: Fault,
    /// The offset of the first byte at fault.
    pub offset: usize,
}

/// The faults of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The text ends inside a value.
    UnexpectedEnd,
    /// A byte that no value can have there.
    UnexpectedByte,
    /// Something follows the value.
    TrailingBytes,
    /// The bytes are not UTF-8.
    InvalidUtf8,
    /// A backslash that begins no valid escape.
    InvalidEscape,
    /// An escaped half of a surrogate pair without its other half.
    LoneSurrogate,
    /// A raw control character inside a string.
    ControlCharacter,
    /// A number written as JSON does not allow, such as `01` or `1.`.
    InvalidNumber,
    /// Nested over [`MAX_DEPTH`](super::MAX_DEPTH) deep.
    TooDeep,
    /// Over 4 GiB long.
    TooLarge,
    /// An object that has one name twice, where only one value can be meant.
    DuplicateMember,
    /// A number that would take over 1,000 digits to write out.
    NumberTooLong,
}

impl JsonError {
    pub(super) const fn new(fault: Fault, offset: usize) -> Self {
        Self { fault, offset }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.fault, self.offset)
    }
}

impl std::error::Error for JsonError {}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 12] = [
        Self::UnexpectedEnd,
        Self::UnexpectedByte,
        Self::TrailingBytes,
        Self::InvalidUtf8,
        Self::InvalidEscape,
        Self::LoneSurrogate,
        Self::ControlCharacter,
        Self::InvalidNumber,
        Self::TooDeep,
        Self::TooLarge,
        Self::DuplicateMember,
        Self::NumberTooLong,
    ];

    /// The fault in a few words, which stores keep.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnexpectedEnd => "unexpected end",
            Self::UnexpectedByte => "unexpected character",
            Self::TrailingBytes => "trailing characters",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::InvalidEscape => "invalid escape",
            Self::LoneSurrogate => "lone surrogate",
            Self::ControlCharacter => "control character in a string",
            Self::InvalidNumber => "invalid number",
            Self::TooDeep => "nested too deep",
            Self::TooLarge => "over 4 GiB",
            Self::DuplicateMember => "duplicate member",
            Self::NumberTooLong => "number of over 1,000 digits",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
