//! Just enough of Rust's lexical grammar to tell code from comments and strings.

use std::ops::Range;

/// A source with its comments and literals found.
pub(crate) struct Source<'a> {
    text: &'a str,
    code: String,
    strings: Vec<Range<usize>>,
}

impl<'a> Source<'a> {
    /// Reads `text`.
    pub(crate) fn new(text: &'a str) -> Self {
        let mut scanner = Scanner {
            bytes: text.as_bytes(),
            at: 0,
            code: text.into(),
            strings: Vec::new(),
        };
        scanner.scan();
        // Blanking replaces whole literals and comments by as many spaces, so this stays UTF-8.
        let code = String::from_utf8_lossy(&scanner.code).into_owned();
        Self {
            text,
            code,
            strings: scanner.strings,
        }
    }

    /// The source as it is.
    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// The source with every comment and the inside of every literal blanked, byte for byte.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The number of the line, from 1, that holds byte `at`.
    pub(crate) fn line(&self, at: usize) -> usize {
        line(self.text, at)
    }

    /// The inside of every string literal within `range`, with its offset.
    pub(crate) fn strings(&self, range: Range<usize>) -> impl Iterator<Item = (usize, &'a str)> {
        self.strings
            .iter()
            .filter(move |string| range.contains(&string.start))
            .map(|string| (string.start, &self.text[string.clone()]))
    }

    /// The body of the first function called `name`, braces included.
    pub(crate) fn body(&self, name: &str) -> Option<Range<usize>> {
        let head = format!("fn {name}(");
        let from = self.code.find(&head)?;
        let start = from + self.code[from..].find('{')?;
        Some(start..self.closing(start)? + 1)
    }

    /// The attributes, as ranges from `#` to `]`.
    pub(crate) fn attributes(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices('#') {
            let rest = &self.code[at + 1..];
            let bracket = at + 1 + usize::from(rest.starts_with('!'));
            if self.code[bracket..].starts_with('[')
                && let Some(end) = self.closing(bracket)
            {
                found.push(at..end + 1);
            }
        }
        found
    }

    /// The place where the bracket at `open` closes.
    pub(crate) fn closing(&self, open: usize) -> Option<usize> {
        let bytes = self.code.as_bytes();
        let (opener, closer) = match bytes.get(open)? {
            b'{' => (b'{', b'}'),
            b'[' => (b'[', b']'),
            b'(' => (b'(', b')'),
            _ => return None,
        };
        let mut depth = 0_usize;
        for (offset, byte) in bytes[open..].iter().enumerate() {
            if *byte == opener {
                depth += 1;
            } else if *byte == closer {
                depth -= 1;
                if depth == 0 {
                    return Some(open + offset);
                }
            }
        }
        None
    }
}

/// The number of the line, from 1, that holds byte `at` of `text`.
pub(crate) fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].split(|byte| *byte == b'\n').count()
}

/// Returns whether `byte` may be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    code: Vec<u8>,
    strings: Vec<Range<usize>>,
}

impl Scanner<'_> {
    fn scan(&mut self) {
        while let Some(byte) = self.peek(0) {
            match byte {
                b'/' if self.peek(1) == Some(b'/') => self.line_comment(),
                b'/' if self.peek(1) == Some(b'*') => self.block_comment(),
                b'"' => self.string(),
                b'\'' => self.character(),
                _ if is_word(byte) => self.word(),
                _ => self.at += 1,
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn blank(&mut self, range: Range<usize>) {
        for byte in &mut self.code[range] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|byte| byte != b'\n') {
            self.at += 1;
        }
        self.blank(start..self.at);
    }

    fn block_comment(&mut self) {
        let start = self.at;
        let mut depth = 0_usize;
        while let Some(byte) = self.peek(0) {
            match (byte, self.peek(1)) {
                (b'/', Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (b'*', Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        break;
                    }
                }
                _ => self.at += 1,
            }
        }
        self.blank(start..self.at);
    }

    fn string(&mut self) {
        self.at += 1;
        let start = self.at;
        while let Some(byte) = self.peek(0) {
            match byte {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.literal(start);
        self.at += 1;
    }

    fn raw_string(&mut self, hashes: usize) {
        self.at += hashes + 1;
        let start = self.at;
        let end = format!("\"{}", "#".repeat(hashes));
        while self.at < self.bytes.len() && !self.bytes[self.at..].starts_with(end.as_bytes()) {
            self.at += 1;
        }
        self.literal(start);
        self.at += end.len();
    }

    /// Records the literal that began at `start` and ends here.
    fn literal(&mut self, start: usize) {
        let end = self.at.min(self.bytes.len());
        self.at = end;
        self.blank(start..end);
        self.strings.push(start..end);
    }

    /// A character literal, or the quote of a lifetime.
    fn character(&mut self) {
        let start = self.at + 1;
        let length = match self.peek(1) {
            Some(b'\\') => {
                let mut end = start + 2;
                while self.bytes.get(end).is_some_and(|byte| *byte != b'\'') {
                    end += 1;
                }
                end - start
            }
            Some(byte) if byte >= 0xF0 => 4,
            Some(byte) if byte >= 0xE0 => 3,
            Some(byte) if byte >= 0xC0 => 2,
            _ => 1,
        };
        if self.bytes.get(start + length) == Some(&b'\'') {
            self.blank(start..start + length);
            self.at = start + length + 1;
        } else {
            self.at += 1;
        }
    }

    /// An identifier, a number, or the prefix of a raw string.
    fn word(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.at += 1;
        }
        if matches!(&self.bytes[start..self.at], b"r" | b"br" | b"cr") {
            let rest = &self.bytes[self.at..];
            let hashes = rest.iter().take_while(|byte| **byte == b'#').count();
            if rest.get(hashes) == Some(&b'"') {
                self.raw_string(hashes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_all_else_stays() {
        let text = "a(\"b\\\"c\"); // d\n/* e /* f */ g */ h('\\'', '✓', 'i); r#\"j\"k\"# br\"l\"";
        let source = Source::new(text);
        assert_eq!(source.code().len(), text.len());
        let kept: String = source.code().split_whitespace().collect();
        assert_eq!(kept, "a(\"\");h('','','i);r#\"\"#br\"\"");
        let strings: Vec<_> = source
            .strings(0..text.len())
            .map(|(_, string)| string)
            .collect();
        assert_eq!(strings, ["b\\\"c", "j\"k", "l"]);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for text in ["\"a", "\"a\\", "r##\"a\"#", "/* a", "'", "'\\"] {
            assert_eq!(Source::new(text).code().len(), text.len(), "{text}");
        }
    }

    #[test]
    fn bodies_and_attributes_are_found() {
        let text =
            "#![a(b)]\n#[c = \"]\"]\nfn id(self) -> S { match self { X => \"{\" } }\nfn z() {}";
        let source = Source::new(text);
        let attributes: Vec<_> = source
            .attributes()
            .into_iter()
            .map(|range| &text[range])
            .collect();
        assert_eq!(attributes, ["#![a(b)]", "#[c = \"]\"]"]);
        let body = source.body("id").expect("there is one");
        assert_eq!(&text[body], "{ match self { X => \"{\" } }");
        assert_eq!(source.line(text.find("fn z").expect("there is one")), 4);
        assert!(source.body("nothing").is_none());
    }
}
