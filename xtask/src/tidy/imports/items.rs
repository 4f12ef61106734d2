//! The items of one source: what it defines, what it imports under which name, and every path in its code.

use std::collections::{BTreeMap, BTreeSet};

use crate::rust::is_word;

/// The items of one source, without tests and the insides of functions.
#[derive(Default)]
pub(super) struct Items<'a> {
    /// Names of the items at its top level.
    pub(super) defined: BTreeSet<&'a str>,
    /// Names of its macros.
    pub(super) macros: BTreeSet<&'a str>,
    /// The paths that `use` gave a name, by that name.
    pub(super) names: BTreeMap<&'a str, Vec<&'a str>>,
    /// The modules of which `use` took everything.
    pub(super) globs: Vec<Vec<&'a str>>,
    /// Every path of two segments or more, with its place.
    pub(super) paths: Vec<(usize, Vec<&'a str>)>,
}

impl<'a> Items<'a> {
    /// Reads code without comments, literals and tests.
    pub(super) fn read(code: &'a str) -> Self {
        let mut reader = Reader {
            code,
            at: 0,
            depth: 0,
            inner: Vec::new(),
            items: Self::default(),
        };
        reader.read();
        reader.items
    }
}

/// `code` with all items blanked that are built for tests alone, except the names of modules that are files.
pub(in crate::tidy) fn without_tests(code: &str) -> String {
    let mut text = code.as_bytes().to_vec();
    let mut from = 0;
    while let Some(at) = code[from..].find("#[cfg(").map(|at| from + at) {
        let inside = code[at + "#[cfg(".len()..].trim_start();
        from = at + "#[cfg(".len();
        let all = inside.strip_prefix("all(").unwrap_or(inside);
        if !is_test(all) {
            continue;
        }
        let end = item_end(code, at);
        let item = &code[at..end];
        if !(item.ends_with(';') && item.contains("mod ")) {
            for byte in text[at..end].iter_mut().filter(|byte| **byte != b'\n') {
                *byte = b' ';
            }
        }
        from = end;
    }
    // Whole items were blanked, from one ASCII character to another.
    String::from_utf8_lossy(&text).into_owned()
}

/// The names of the modules in other files that are built for tests alone, in what [`without_tests`] left.
pub(super) fn test_modules(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices("#[cfg(").filter_map(|(at, _)| {
        let inside = code[at + "#[cfg(".len()..].trim_start();
        let all = inside.strip_prefix("all(").unwrap_or(inside);
        let item = &code[at..item_end(code, at)];
        let name = item.strip_suffix(';')?.rsplit_once("mod ")?.1.trim();
        is_test(all).then_some(name)
    })
}

/// Tells whether the condition of an attribute begins with `test`.
fn is_test(condition: &str) -> bool {
    let rest = condition.strip_prefix("test");
    rest.is_some_and(|rest| !rest.bytes().next().is_some_and(is_word))
}

/// Finds the end of the item whose attributes begin at `at`.
fn item_end(code: &str, at: usize) -> usize {
    let bytes = code.as_bytes();
    let mut depth = 0_usize;
    let mut at = at;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return at,
            b')' | b']' | b'}' => {
                depth -= 1;
                if *byte == b'}' && depth == 0 {
                    let rest = code[at + 1..].trim_start();
                    let is_followed = rest.starts_with(';');
                    return if is_followed {
                        code.len() - rest.len() + 1
                    } else {
                        at + 1
                    };
                }
            }
            b';' if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
    }
    code.len()
}

struct Reader<'a> {
    code: &'a str,
    at: usize,
    /// Open braces.
    depth: usize,
    /// The depth inside of each module within this file that is open.
    inner: Vec<usize>,
    items: Items<'a>,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        // The last two characters that are no blank.
        let mut before = [b' '; 2];
        while let Some(byte) = self.peek() {
            match byte {
                b'{' => self.depth += 1,
                b'}' => {
                    self.inner.pop_if(|depth| *depth == self.depth);
                    self.depth = self.depth.saturating_sub(1);
                }
                _ if is_word(byte) => {
                    let at = self.at;
                    let word = self.word();
                    // A segment of a path that was read, a method, a lifetime, a variable of a macro.
                    let is_part = before == [b':', b':'] || matches!(before[1], b'.' | b'\'');
                    if !is_part && (before[1] != b'$' || word == "crate") {
                        self.item(at, word, before[1]);
                    }
                    before = [b' ', b'a'];
                    continue;
                }
                _ => {}
            }
            if !byte.is_ascii_whitespace() {
                before = [before[1], byte];
            }
            self.at += 1;
        }
    }

    /// Goes on behind `word`, which began at `at` behind `before`.
    fn item(&mut self, at: usize, word: &'a str, before: u8) {
        match word {
            "use" if self.blank() != Some(b'<') => self.tree(&mut Vec::new()),
            "in" if before == b'(' => self.skip_to(b')'),
            "macro_rules" => {
                self.skip_to(b'!');
                self.at += 1;
                self.blank();
                let name = self.word();
                self.items.macros.insert(name);
                self.define(name);
            }
            "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union" | "mod" => {
                self.blank();
                let name_at = self.at;
                let name = self.word();
                if KEYWORDS.contains(&name) {
                    self.at = name_at;
                } else if word == "mod" && self.blank() == Some(b'{') {
                    self.inner.push(self.depth + 1);
                } else if word != "mod" {
                    self.define(name);
                }
            }
            _ => {
                let mut path = vec![word];
                while self.separator() {
                    match self.word() {
                        "" => break,
                        word => path.push(word),
                    }
                }
                let is_type = word.starts_with(|c: char| c.is_ascii_uppercase());
                if path.len() > 1 && !is_type {
                    self.path(at, path);
                }
            }
        }
    }

    /// Reads the text after `use`, below the segments of `above`, to the end of that branch.
    fn tree(&mut self, above: &mut Vec<&'a str>) {
        self.blank();
        let (length, at) = (above.len(), self.at);
        loop {
            match self.blank() {
                Some(b'{') => {
                    self.at += 1;
                    while self.blank().is_some_and(|byte| byte != b'}') {
                        self.tree(above);
                        if self.blank() == Some(b',') {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    break;
                }
                Some(b'*') => {
                    self.at += 1;
                    let glob = above.clone();
                    above.push("*");
                    self.path(at, above.clone());
                    self.items.globs.push(glob);
                    break;
                }
                Some(byte) if is_word(byte) => {
                    let word = self.word();
                    if word != "self" || above.is_empty() {
                        above.push(word);
                    }
                    if !self.separator() {
                        self.leaf(at, above.clone());
                        break;
                    }
                }
                // A path that begins with `::` is of another crate.
                Some(b':') if self.separator() => above.push(""),
                // This is not Rust: goes one character further, so that the reading ends.
                _ => {
                    self.at += 1;
                    break;
                }
            }
        }
        above.truncate(length);
    }

    /// Takes one path of a `use`, and its name.
    fn leaf(&mut self, at: usize, path: Vec<&'a str>) {
        let mut name = path.last().copied().unwrap_or_default();
        self.blank();
        let word_at = self.at;
        if self.word() == "as" {
            self.blank();
            name = self.word();
        } else {
            self.at = word_at;
        }
        if self.depth == 0 && path.as_slice() != [name] {
            self.items.names.entry(name).or_insert_with(|| path.clone());
        }
        self.path(at, path);
    }

    fn path(&mut self, at: usize, path: Vec<&'a str>) {
        let inner = self.inner.len();
        let above = path.iter().take_while(|word| **word == "super").count();
        // Within a module of this file, `super` is first of all this file.
        let path = match (inner, above) {
            (0, _) => path,
            (_, 0) if path[0] == "self" => return,
            (_, 0) => path,
            _ if above < inner => return,
            _ => [&["self"][..], &path[inner..]].concat(),
        };
        let path = match path.as_slice() {
            ["self", rest @ ..] if rest.first() == Some(&"super") => rest.to_vec(),
            _ => path,
        };
        self.items.paths.push((at, path));
    }

    fn define(&mut self, name: &'a str) {
        if self.depth == 0 {
            self.items.defined.insert(name);
        }
    }

    fn peek(&self) -> Option<u8> {
        self.code.as_bytes().get(self.at).copied()
    }

    /// Skips blanks, and returns the next byte.
    fn blank(&mut self) -> Option<u8> {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.peek()
    }

    fn skip_to(&mut self, byte: u8) {
        while self.peek().is_some_and(|next| next != byte) {
            self.at += 1;
        }
    }

    /// Reads a word; none if there is none here.
    fn word(&mut self) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.at += 1;
        }
        self.code.get(start..self.at).unwrap_or_default()
    }

    /// Skips `::` and the blanks around it, if it is next.
    fn separator(&mut self) -> bool {
        let start = self.at;
        self.blank();
        if self.code[self.at..].starts_with("::") {
            self.at += 2;
            self.blank();
            return true;
        }
        self.at = start;
        false
    }
}

/// Words that may follow `const` and are no name.
const KEYWORDS: [&str; 6] = ["async", "extern", "fn", "mut", "unsafe", ""];
