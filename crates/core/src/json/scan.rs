//! The scanner: one pass from bytes to tape, without recursion.

use super::{Fault, JsonError, Kind};

/// The deepest nesting of arrays and objects.
pub const MAX_DEPTH: usize = 128;

/// One value, or one member's name, on the tape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// True if a string has escapes.
    pub(super) escaped: bool,
    /// The offset at which its text begins; for a string, after the quote.
    pub(super) start: u32,
    /// The offset at which its text ends; for a string, before the quote.
    pub(super) end: u32,
    /// The entry after this one and all within it; while a container is open, its parent.
    pub(super) next: u32,
}

/// Scans `bytes` onto `entries`, which are cleared first.
pub(super) fn scan<'a>(bytes: &'a [u8], entries: &mut Vec<Entry>) -> Result<&'a str, JsonError> {
    entries.clear();
    if u32::try_from(bytes.len()).is_err() {
        return Err(JsonError::new(Fault::TooLarge, 0));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| JsonError::new(Fault::InvalidUtf8, error.valid_up_to()))?;
    Scan {
        bytes,
        at: 0,
        open: NONE,
        depth: 0,
        entries,
    }
    .run()?;
    Ok(text)
}

struct Scan<'a, 't> {
    bytes: &'a [u8],
    at: usize,
    /// The entry of the innermost open container.
    open: u32,
    depth: usize,
    entries: &'t mut Vec<Entry>,
}

impl Scan<'_, '_> {
    fn run(mut self) -> Result<(), JsonError> {
        loop {
            let complete = self.value()?;
            if complete && !self.after_value()? {
                break;
            }
        }
        self.skip_space();
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            self.fail(Fault::TrailingBytes)
        }
    }

    /// Scans a scalar, or enters a container; answers false if the container's first value is next.
    fn value(&mut self) -> Result<bool, JsonError> {
        self.skip_space();
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b'{') => return self.enter(Kind::Object, b'}'),
            Some(b'[') => return self.enter(Kind::Array, b']'),
            Some(b't') => self.word("true", Kind::Bool(true))?,
            Some(b'f') => self.word("false", Kind::Bool(false))?,
            Some(b'n') => self.word("null", Kind::Null)?,
            _ => return self.unexpected(),
        }
        Ok(true)
    }

    fn enter(&mut self, kind: Kind, closing: u8) -> Result<bool, JsonError> {
        if self.depth == MAX_DEPTH {
            return self.fail(Fault::TooDeep);
        }
        self.depth += 1;
        let parent = std::mem::replace(&mut self.open, narrow(self.entries.len()));
        self.entries.push(Entry {
            kind,
            escaped: false,
            start: narrow(self.at),
            end: 0,
            next: parent,
        });
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(closing) {
            self.leave();
            return Ok(true);
        }
        if kind == Kind::Object {
            self.name()?;
        }
        Ok(false)
    }

    /// Goes on to the next value; answers false if the outermost one is complete.
    fn after_value(&mut self) -> Result<bool, JsonError> {
        while self.open != NONE {
            let is_object = self.entries[self.open as usize].kind == Kind::Object;
            self.skip_space();
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    if is_object {
                        self.skip_space();
                        self.name()?;
                    }
                    return Ok(true);
                }
                Some(b'}') if is_object => self.leave(),
                Some(b']') if !is_object => self.leave(),
                _ => return self.unexpected(),
            }
        }
        Ok(false)
    }

    fn leave(&mut self) {
        self.at += 1;
        self.depth -= 1;
        let after = narrow(self.entries.len());
        let entry = &mut self.entries[self.open as usize];
        entry.end = narrow(self.at);
        self.open = std::mem::replace(&mut entry.next, after);
    }

    fn name(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return self.unexpected();
        }
        self.string()?;
        self.skip_space();
        if self.peek() != Some(b':') {
            return self.unexpected();
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_run(&self.bytes[self.at..]);
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(_) => return self.fail(Fault::ControlCharacter),
                None => return self.fail(Fault::UnexpectedEnd),
            }
            escaped = true;
        }
        self.push(Kind::Text, escaped, start);
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.unit(self.at)? {
                0xD800..=0xDBFF if self.bytes[self.at + 6..].starts_with(b"\\u") => {
                    if !(0xDC00..=0xDFFF).contains(&self.unit(self.at + 6)?) {
                        return self.fail(Fault::LoneSurrogate);
                    }
                    self.at += 12;
                }
                0xD800..=0xDFFF => return self.fail(Fault::LoneSurrogate),
                _ => self.at += 6,
            },
            Some(_) => return self.fail(Fault::InvalidEscape),
            None => return self.fail(Fault::UnexpectedEnd),
        }
        Ok(())
    }

    /// The UTF-16 unit that the escape at `at` stands for.
    fn unit(&self, at: usize) -> Result<u32, JsonError> {
        let Some(digits) = self.bytes.get(at + 2..at + 6) else {
            return self.fail(Fault::UnexpectedEnd);
        };
        digits
            .iter()
            .try_fold(0, |unit, &digit| {
                Some(unit * 16 + char::from(digit).to_digit(16)?)
            })
            .ok_or(JsonError::new(Fault::InvalidEscape, at))
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        self.skip_if(|byte| byte == b'-');
        if self.skip_if(|byte| byte == b'0') {
            if self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.fail(Fault::InvalidNumber);
            }
        } else {
            self.digits()?;
        }
        if self.skip_if(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.skip_if(|byte| byte | 0x20 == b'e') {
            self.skip_if(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        self.push(Kind::Number, false, start);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let count = self.bytes[self.at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        self.at += count;
        match (count, self.peek()) {
            (0, None) => self.fail(Fault::UnexpectedEnd),
            (0, Some(_)) => self.fail(Fault::InvalidNumber),
            _ => Ok(()),
        }
    }

    fn word(&mut self, word: &str, kind: Kind) -> Result<(), JsonError> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.fail(Fault::UnexpectedByte);
        }
        let start = self.at;
        self.at += word.len();
        self.push(kind, false, start);
        Ok(())
    }

    /// Puts a scalar that ends here on the tape.
    fn push(&mut self, kind: Kind, escaped: bool, start: usize) {
        let (start, end, next) = (
            narrow(start),
            narrow(self.at),
            narrow(self.entries.len() + 1),
        );
        self.entries.push(Entry {
            kind,
            escaped,
            start,
            end,
            next,
        });
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn skip_if(&mut self, wanted: impl Fn(u8) -> bool) -> bool {
        let skip = self.peek().is_some_and(wanted);
        self.at += usize::from(skip);
        skip
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn unexpected<T>(&self) -> Result<T, JsonError> {
        self.fail(match self.peek() {
            Some(_) => Fault::UnexpectedByte,
            None => Fault::UnexpectedEnd,
        })
    }

    fn fail<T>(&self, fault: Fault) -> Result<T, JsonError> {
        Err(JsonError::new(fault, self.at))
    }
}

/// The number of leading bytes that a string may contain as they are. Compares a register at a time,
/// then eight bytes.
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    let (wide, _) = bytes.as_chunks::<WIDE>();
    // Not `all`: a compiler makes one comparison only of a loop that goes on to the end.
    let are_plain =
        |bytes: &&[u8; WIDE]| bytes.iter().fold(true, |all, byte| all & is_plain(*byte));
    let skipped = wide.iter().take_while(are_plain).count() * WIDE;
    let (words, rest) = bytes[skipped..].as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let special = special(u64::from_le_bytes(*word));
        if special != 0 {
            return skipped + index * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let plain = |byte: &&u8| is_plain(**byte);
    skipped + words.len() * 8 + rest.iter().take_while(plain).count()
}

/// Returns whether a string may contain this byte as it is.
const fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}

/// Marks the bytes of `word` that are a quote, a backslash or a control character. The lowest mark
/// is right; those above it may be a borrow's.
const fn special(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGH: u64 = ONES << 7;
    const fn below(word: u64, limit: u8) -> u64 {
        word.wrapping_sub(ONES * limit as u64) & !word & HIGH
    }
    below(word, 0x20)
        | below(word ^ (ONES * b'"' as u64), 1)
        | below(word ^ (ONES * b'\\' as u64), 1)
}

/// Offsets and entries fit, since the text is under 4 GiB and no value is shorter than a byte.
#[expect(clippy::cast_possible_truncation, reason = "checked once, in `scan`")]
const fn narrow(wide: usize) -> u32 {
    wide as u32
}

const NONE: u32 = u32::MAX;
/// Bytes in a register.
const WIDE: usize = 16;
