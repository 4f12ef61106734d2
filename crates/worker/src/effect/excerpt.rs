//! Text from outside, made fit to stand in one line of Semel's output.

use std::collections::VecDeque;
use std::fmt::Write;

/// The beginning of `text` on one line: white space trimmed, control characters escaped.
pub(super) fn one_line(text: &[u8]) -> String {
    let text = &text[..text.len().min(4 * MOST_CHARS)];
    let text = String::from_utf8_lossy(text);
    let mut line = String::new();
    for (count, character) in text.trim().chars().enumerate() {
        if count == MOST_CHARS {
            line.push('…');
            break;
        }
        // Direction marks and other invisible characters can reverse a line.
        if character.is_control()
            || matches!(character, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
        {
            let _ = write!(line, "{}", character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

/// Keeps the last line that is not blank of a stream that may have no end.
#[derive(Debug, Default)]
pub(super) struct LastLine {
    current: Vec<u8>,
    last: Vec<u8>,
}

impl LastLine {
    /// Takes in the next bytes.
    pub(super) fn take_in(&mut self, mut bytes: &[u8]) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            self.end_line();
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// The line, safe to show; empty if there was none.
    pub(super) fn shown(mut self) -> String {
        self.end_line();
        one_line(&self.last)
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = (4 * MOST_CHARS).saturating_sub(self.current.len());
        self.current
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self) {
        if !self.current.trim_ascii().is_empty() {
            std::mem::swap(&mut self.current, &mut self.last);
        }
        self.current.clear();
    }
}

/// Keeps the last few lines that are not blank of a stream that may have no end.
#[derive(Debug, Default)]
pub(super) struct LastLines {
    current: Vec<u8>,
    last: VecDeque<Vec<u8>>,
}

impl LastLines {
    /// Takes in the next bytes.
    pub(super) fn take_in(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = (4 * MOST_CHARS).saturating_sub(self.current.len());
            self.current
                .extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.current);
                self.keep(line);
            }
        }
    }

    /// The lines, safe to show in one; empty if there were none.
    pub(super) fn shown(&self) -> String {
        let mut all = Self {
            current: Vec::new(),
            last: self.last.clone(),
        };
        all.keep(self.current.clone());
        let lines: Vec<_> = all.last.iter().map(|line| one_line(line)).collect();
        lines.join(" / ")
    }

    fn keep(&mut self, line: Vec<u8>) {
        if line.trim_ascii().is_empty() {
            return;
        }
        if self.last.len() == MOST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }
}

const MOST_CHARS: usize = 200;
const MOST_LINES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_of_bounded_length() {
        assert_eq!(
            one_line(b" a\tb\nc\x1b[31m\xFF "),
            "a\\tb\\nc\\u{1b}[31m\u{FFFD}"
        );
        assert_eq!(one_line("\u{202E}abc".as_bytes()), "\\u{202e}abc");
        assert_eq!(
            one_line("ä".repeat(5_000).as_bytes()).chars().count(),
            MOST_CHARS + 1
        );
    }

    #[test]
    fn the_last_lines_that_say_something_are_kept() {
        let text = b"one\n\n two \nthree\nfour\n\nfi";
        for piece in 1..=text.len() {
            let mut last = LastLines::default();
            text.chunks(piece).for_each(|piece| last.take_in(piece));
            assert_eq!(last.shown(), "three / four / fi");
        }
        assert_eq!(LastLines::default().shown(), "");
    }

    #[test]
    fn the_last_line_that_says_something_is_kept() {
        for text in ["warning\nerror: no\n", "error: no", "x\nerror: no\n \n\n"] {
            for piece in 1..text.len() {
                let mut last = LastLine::default();
                text.as_bytes()
                    .chunks(piece)
                    .for_each(|piece| last.take_in(piece));
                assert_eq!(last.shown(), "error: no");
            }
        }
        assert_eq!(LastLine::default().shown(), "");
        let mut endless = LastLine::default();
        (0..1_000).for_each(|_| endless.take_in(&[b'x'; 1_000]));
        assert!(endless.current.len() <= 4 * MOST_CHARS);
    }
}
