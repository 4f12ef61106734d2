//! Several statements that go to the server together, in one packet, and their results.
//!
//! Values are written into the text: bytes as hexadecimal or escaped literals, numbers as digits. No value of a caller
//! is ever part of the code.

use std::fmt::Write as _;
use std::time::Duration;

use semel_core::Timestamp;

use crate::sql::Text;

/// Statements for one round trip.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) text: Vec<u8>,
    /// Number of results it has.
    pub(crate) statements: usize,
}

impl Script {
    /// Adds the statements of `text` with these values; returns the place of the first one's result.
    pub(crate) fn add(&mut self, text: &Text, values: &[&Literal]) -> usize {
        debug_assert_eq!(text.parts.len(), values.len() + 1, "{}", text.parts[0]);
        if !self.text.is_empty() {
            self.text.extend_from_slice(b";\n");
        }
        let place = self.statements;
        self.statements += text.statements;
        let mut values = values.iter();
        for (at, part) in text.parts.iter().enumerate() {
            if at > 0
                && let Some(value) = values.next()
            {
                self.text.extend_from_slice(&value.text);
            }
            self.text.extend_from_slice(part.as_bytes());
        }
        place
    }

    /// Adds one statement of code and values.
    pub(crate) fn add_code(&mut self, code: &Literal) -> usize {
        if !self.text.is_empty() {
            self.text.extend_from_slice(b";\n");
        }
        self.text.extend_from_slice(&code.text);
        self.statements += 1;
        self.statements - 1
    }

    /// Adds the statements of another script.
    pub(crate) fn append(&mut self, other: &Self) {
        if other.statements == 0 {
            return;
        }
        if !self.text.is_empty() {
            self.text.extend_from_slice(b";\n");
        }
        self.text.extend_from_slice(&other.text);
        self.statements += other.statements;
    }
}

/// A value, or several, as they stand in a statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Literal {
    text: Vec<u8>,
    /// Set for a session whose settings are not ours.
    is_foreign: bool,
}

impl Literal {
    /// Creates one for a session that is not ours: everything in hexadecimal.
    pub(crate) fn foreign() -> Self {
        Self {
            is_foreign: true,
            ..Self::default()
        }
    }

    pub(crate) fn null() -> Self {
        Self::code("NULL")
    }

    pub(crate) fn number(number: u64) -> Self {
        Self::code(number.to_string())
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Self {
        let mut literal = Self::default();
        literal.push_bytes(bytes);
        literal
    }

    pub(crate) fn text(text: &str) -> Self {
        let mut literal = Self::default();
        literal.push_text(text);
        literal
    }

    /// A text that the server knows to be one, wherever it stands.
    pub(crate) fn typed(text: &str) -> Self {
        let mut literal = Self::default();
        literal.push_typed_text(text);
        literal
    }

    /// Code of ours, as it is.
    pub(crate) fn code(code: impl Into<String>) -> Self {
        Self {
            text: code.into().into_bytes(),
            is_foreign: false,
        }
    }

    /// Returns a list of byte strings; never empty, since `IN ()` is no SQL.
    pub(crate) fn list<B: AsRef<[u8]>>(items: impl IntoIterator<Item = B>) -> Self {
        let mut literal = Self::default();
        for item in items {
            literal.comma();
            literal.push_bytes(item.as_ref());
        }
        if literal.text.is_empty() {
            return Self::null();
        }
        literal
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Separates the next value from those pushed before.
    pub(crate) fn comma(&mut self) {
        if self.text.last().is_some_and(|last| *last != b'(') {
            self.text.push(b',');
        }
    }

    pub(crate) fn push_code(&mut self, code: &str) {
        self.text.extend_from_slice(code.as_bytes());
    }

    pub(crate) fn push(&mut self, other: &Self) {
        self.text.extend_from_slice(&other.text);
    }

    pub(crate) fn push_number(&mut self, number: impl std::fmt::Display) {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write!(text, "{number}");
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Adds bytes.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        if bytes.len() <= LONG_BYTES || self.is_foreign {
            return self.push_hex(bytes);
        }
        self.push_escaped("_binary", bytes);
    }

    /// Adds a text for a column of ours: as bytes, which the column checks.
    pub(crate) fn push_text(&mut self, text: &str) {
        if text.len() <= LONG_BYTES || self.is_foreign {
            return self.push_hex(text.as_bytes());
        }
        self.push_escaped("_utf8mb4", text.as_bytes());
    }

    /// Adds a text that the server knows to be one, wherever it stands.
    pub(crate) fn push_typed_text(&mut self, text: &str) {
        if text.len() <= LONG_BYTES {
            self.push_code("_utf8mb4 ");
            return self.push_hex(text.as_bytes());
        }
        self.push_escaped("_utf8mb4", text.as_bytes());
    }

    /// Adds a long one, of which hexadecimal would double every byte.
    fn push_escaped(&mut self, charset: &str, bytes: &[u8]) {
        self.text.extend_from_slice(charset.as_bytes());
        self.text.reserve(bytes.len() + bytes.len() / 16 + 16);
        self.text.push(b'\'');
        for byte in bytes {
            // Our sessions do not have NO_BACKSLASH_ESCAPES.
            if matches!(byte, b'\'' | b'\\') {
                self.text.push(b'\\');
            }
            self.text.push(*byte);
        }
        self.text.push(b'\'');
    }

    fn push_hex(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.text.reserve(bytes.len() * 2 + 3);
        self.text.extend_from_slice(b"X'");
        for byte in bytes {
            self.text.push(DIGITS[usize::from(byte >> 4)]);
            self.text.push(DIGITS[usize::from(byte & 15)]);
        }
        self.text.push(b'\'');
    }
}

/// Returns the literal of a value that may be absent.
pub(crate) fn optional<T>(value: Option<T>, literal: impl FnOnce(T) -> Literal) -> Literal {
    value.map_or_else(Literal::null, literal)
}

/// Returns a duration in seconds, exactly.
pub(crate) fn seconds(duration: Duration) -> Literal {
    let (secs, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if nanos == 0 {
        return Literal::number(secs);
    }
    Literal::code(format!("{secs}.{nanos:09}"))
}

/// Returns a duration in milliseconds as [`Timestamp::plus`] adds it, if a server's clock plus it surely fits into its
/// integers.
pub(crate) fn addend(duration: Duration) -> Option<u64> {
    let millis = Timestamp::EPOCH.plus(duration).as_millis();
    (millis <= MOST_ADDED).then_some(millis)
}

/// Length from which on doubling every byte costs more than looking at each.
const LONG_BYTES: usize = 1_024;
/// A thousand centuries.
const MOST_ADDED: u64 = 1 << 52;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(literal: &Literal) -> &str {
        std::str::from_utf8(&literal.text).expect("digits")
    }

    #[test]
    fn no_value_is_ever_code() {
        assert_eq!(text(&Literal::bytes(b"a'b")), "X'612762'");
        assert_eq!(text(&Literal::text("ä")), "X'c3a4'");
        let mut typed = Literal::default();
        typed.push_typed_text("ä");
        assert_eq!(text(&typed), "_utf8mb4 X'c3a4'");
        let long = Literal::bytes(&[b'\'', b'\\', 0, 0xff].repeat(500));
        assert_eq!(&long.text[..14], b"_binary'\\'\\\\\0\xff");
        assert_eq!(long.text.len(), 500 * 6 + 9);
        let mut foreign = Literal::foreign();
        foreign.push_bytes(&[b'\\'; 2_000]);
        assert_eq!(foreign.len(), 2_000 * 2 + 3, "whatever their sql_mode");
        assert_eq!(text(&Literal::list([[1_u8], [2]])), "X'01',X'02'");
        assert_eq!(text(&Literal::list::<[u8; 1]>([])), "NULL");
    }

    #[test]
    fn a_duration_keeps_its_nanoseconds() {
        assert_eq!(text(&seconds(Duration::new(3, 7))), "3.000000007");
        assert_eq!(text(&seconds(Duration::from_secs(9))), "9");
        assert_eq!(addend(Duration::from_nanos(1)), Some(1));
        assert_eq!(addend(Duration::MAX), None);
    }
}
