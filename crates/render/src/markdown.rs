//! Renders pages of the book for a terminal: the layout shows what the Markdown marks mean, and no mark is
//! left. Handles only the few forms that our own pages use.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Lines;

use super::text;
use super::text_style::TextStyle;

/// Renders the page, broken into lines of at most `width` columns. Its links start from `folder` of the book.
pub(super) fn rendered(page: &str, folder: &str, width: usize, colour: bool) -> String {
    let mut renderer = Renderer {
        folder,
        width,
        colour,
        out: Vec::new(),
    };
    renderer.read(&mut page.trim().lines().peekable());
    renderer.out.join("\n")
}

/// Returns a sentence without marks.
pub fn plain(sentence: &str) -> String {
    let marked = marked(sentence, |text, _| text.to_owned());
    marked
        .chars()
        .filter(|c| !MARKS.contains(c))
        .map(|c| if c == GLUE { ' ' } else { c })
        .collect()
}

struct Renderer<'a> {
    folder: &'a str,
    width: usize,
    colour: bool,
    out: Vec<String>,
}

impl Renderer<'_> {
    fn read(&mut self, lines: &mut Peekable<Lines<'_>>) {
        while let Some(line) = lines.next() {
            if line.is_empty() {
                self.out.push(String::new());
            } else if let Some(title) = line.strip_prefix('#') {
                self.heading(title);
            } else if line.starts_with("```") {
                for code in lines.by_ref().take_while(|line| !line.starts_with("```")) {
                    self.out.push(format!("    {code}").trim_end().to_owned());
                }
            } else if line.starts_with('|') {
                let mut rows = vec![line];
                while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                    rows.push(row);
                }
                self.table(&rows);
            } else {
                let mut paragraph = line.trim().to_owned();
                while let Some(more) = lines.next_if(|line| !is_own(line)) {
                    paragraph.push(' ');
                    paragraph.push_str(more.trim());
                }
                self.paragraph(&paragraph);
            }
        }
    }

    fn heading(&mut self, title: &str) {
        let is_top = !title.starts_with('#');
        let title = plain(title.trim_start_matches('#').trim());
        let mut heading = String::new();
        if self.colour || is_top {
            TextStyle::Heading.paint(&title, self.colour, &mut heading);
        } else {
            heading = title.to_uppercase();
        }
        self.out.push(heading);
    }

    /// Writes a paragraph or an item of a list.
    fn paragraph(&mut self, paragraph: &str) {
        let bullet = bullet(paragraph);
        let (first, body) = paragraph.split_at(bullet);
        let marked = marked(body, |text, target| self.link(text, target));
        let indent = " ".repeat(bullet);
        let room = self.width.saturating_sub(bullet).max(1);
        let mut style = TextStyle::Plain;
        for (at, line) in broken(&marked, room).iter().enumerate() {
            let start = if at == 0 { first } else { &*indent };
            let line = self.painted(line, &mut style);
            self.out.push(format!("{start}{line}"));
        }
    }

    /// Writes a table as a list: the first cell of each row, and below it the other cells with their headings.
    fn table(&mut self, rows: &[&str]) {
        let cells = |row: &str| -> Vec<String> {
            let row = row.trim().trim_matches('|');
            row.split(" | ")
                .map(|cell| cell.trim().to_owned())
                .collect()
        };
        let headings = rows.first().map(|row| cells(row)).unwrap_or_default();
        for row in rows.iter().skip(2) {
            let row = cells(row);
            let Some((first, others)) = row.split_first() else {
                continue;
            };
            self.paragraph(&format!("- {first}"));
            for (heading, cell) in headings.iter().skip(1).zip(others) {
                let heading = if heading.is_empty() {
                    String::new()
                } else {
                    format!("{heading}: ")
                };
                let nested = std::mem::take(&mut self.out);
                self.width = self.width.saturating_sub(2);
                self.paragraph(&format!("{heading}{cell}"));
                self.width += 2;
                let lines = std::mem::replace(&mut self.out, nested);
                self.out
                    .extend(lines.into_iter().map(|line| format!("  {line}")));
            }
        }
    }

    /// Returns a link as text that says where to read on.
    fn link(&self, text: &str, target: &str) -> String {
        if target.contains("://") {
            return format!("{text} ({target})");
        }
        let path = target.split('#').next().unwrap_or_default();
        let path = resolved(self.folder, path);
        let code = path
            .strip_prefix("errors/")
            .and_then(|file| file.strip_suffix(".md"))
            .filter(|code| *code != "README");
        match code {
            Some(code) if text.trim_matches('`') == code => text.to_owned(),
            Some(code) => format!("{text} (`semel explain {code}`)"),
            None if path.is_empty() || path == self.folder => text.to_owned(),
            None => format!("{text} (book: {path})"),
        }
    }

    /// Returns a line with colours for its marks, or as plain text that can be read without them; `style`
    /// continues from line to line.
    fn painted(&self, line: &str, style: &mut TextStyle) -> String {
        let mut painted = String::new();
        let mut piece = String::new();
        for c in line.chars() {
            let next = match c {
                CODE => TextStyle::Code,
                STRONG => TextStyle::Heading,
                END => TextStyle::Plain,
                GLUE => {
                    piece.push(' ');
                    continue;
                }
                c => {
                    piece.push(c);
                    continue;
                }
            };
            style.paint(&piece, self.colour, &mut painted);
            piece.clear();
            // Without colours, text to be typed stands in the same quotes as in messages.
            let is_code = next == TextStyle::Code || *style == TextStyle::Code;
            if !self.colour && is_code {
                painted.push('`');
            }
            *style = next;
        }
        style.paint(&piece, self.colour, &mut painted);
        painted
    }
}

/// Tells whether a line does not continue the paragraph before it.
fn is_own(line: &str) -> bool {
    line.is_empty() || line.starts_with(['#', '|']) || line.starts_with("```") || bullet(line) > 0
}

/// The number of columns that the mark of a list item takes.
fn bullet(line: &str) -> usize {
    if line.starts_with("- ") {
        return 2;
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && line[digits..].starts_with(". ") {
        digits + 2
    } else {
        0
    }
}

/// Returns the text with its code and strong words between marks of our own, and its links as `link` writes
/// them.
fn marked(text: &str, link: impl Fn(&str, &str) -> String) -> String {
    let mut text = Cow::Borrowed(text);
    while let Some(replaced) = without_a_link(&text, &link) {
        text = Cow::Owned(replaced);
    }
    let mut marked = String::with_capacity(text.len());
    let mut is_code = false;
    let mut is_strong = false;
    let mut is_glued = false;
    let mut rest = &*text;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        let is_mark = !is_code && c == '*';
        if c == '`' {
            is_code = !is_code;
            marked.push(if is_code { CODE } else { END });
            let code = rest[1..].split('`').next().unwrap_or_default();
            is_glued = is_code && text::width(code) <= WHOLE;
        } else if is_mark && rest.starts_with("**") {
            taken = 2;
            is_strong = !is_strong;
            marked.push(if is_strong { STRONG } else { END });
        } else if !is_mark {
            marked.push(if is_glued && c == ' ' { GLUE } else { c });
        }
        rest = &rest[taken..];
    }
    marked
}

/// Returns the text with its first link written out.
fn without_a_link(text: &str, link: &impl Fn(&str, &str) -> String) -> Option<String> {
    let middle = text.find("](")?;
    let start = text[..middle].rfind('[')?;
    let target = &text[middle + 2..];
    let end = target.find(')')?;
    let written = link(&text[start + 1..middle], &target[..end]);
    Some([&text[..start], &written, &target[end + 1..]].concat())
}

/// Breaks a text into lines of at most `most` columns; marks take none.
fn broken(marked: &str, most: usize) -> Vec<String> {
    let words = marked.split(' ').filter(|word| !word.is_empty());
    text::lines(words.map(|word| (word, columns(word))), most)
}

/// Returns the columns of a word, with room for the quotes that code may get.
fn columns(word: &str) -> usize {
    let seen = word.chars().filter(|c| !MARKS.contains(c));
    let seen: String = seen.map(|c| if c == GLUE { ' ' } else { c }).collect();
    let quotes = word.chars().filter(|c| [CODE, END].contains(c)).count();
    text::width(&seen) + quotes
}

/// Returns a path of the book as seen from `folder`.
fn resolved(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Stands before code.
const CODE: char = '\u{1}';
/// Stands before strong words.
const STRONG: char = '\u{2}';
/// Stands behind both.
const END: char = '\u{3}';
/// A space at which no line is broken.
const GLUE: char = '\u{4}';
/// Columns of code that stays on one line.
const WHOLE: usize = 40;
const MARKS: [char; 3] = [CODE, STRONG, END];

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# `dead`\n\n## What to do\n\nRead *it* (`semel keys show`) and\n\
                        **see** [in doubt](in-doubt.md), [`dead`](dead.md), [doubts](../operations/in-doubt.md#a) or\n\
                        [there](https://example.org/a).\n\n- one two\n  three\n1. four\n\n\
                        ```sh\na  `b`\n```\n\n| Key | What |\n|---|---|\n| `a` | b |\n";

    #[test]
    fn without_colours_layout_and_quotes_stand_for_the_marks() {
        assert_eq!(
            rendered(PAGE, "errors", 60, false),
            "dead\n\nWHAT TO DO\n\n\
             Read it (`semel keys show`) and see in doubt\n\
             (`semel explain in-doubt`), `dead`, doubts (book:\n\
             operations/in-doubt.md) or there (https://example.org/a).\n\n\
             - one two three\n1. four\n\n    a  `b`\n\n- `a`\n  What: b"
        );
    }

    #[test]
    fn with_colours_nothing_else_marks_code_and_headings() {
        let page = rendered(PAGE, "errors", 60, true);
        assert!(page.starts_with("\u{1b}[1mdead\u{1b}[0m\n"), "{page:?}");
        assert!(
            page.contains("(\u{1b}[36msemel keys show\u{1b}[0m)"),
            "{page:?}"
        );
        assert!(page.contains("\u{1b}[1msee\u{1b}[0m in doubt"), "{page:?}");
        assert!(page.contains("\u{1b}[1mWhat to do\u{1b}[0m"), "{page:?}");
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        for width in [60, 79, 100] {
            for page in [PAGE, include_str!("../../../docs/book/src/errors/dead.md")] {
                for line in rendered(page, "errors", width, false).lines() {
                    let is_word = !line.trim_start_matches(['-', ' ']).contains(' ');
                    assert!(text::width(line) <= width || is_word, "{width}: {line}");
                }
            }
        }
    }

    #[test]
    fn a_sentence_is_without_marks() {
        assert_eq!(plain("a `b` [c](d.md) **e** *f*"), "a b c e f");
    }
}
