//! Answers about one thing: `show`, `explain`, `stats`.

use std::fmt::Display;
use std::io::{Stdout, Write};

use semel_core::{Result, StateKind};
use semel_operate::keys::state_of;
use semel_operate::value::Base64;
use serde::Serialize;

use super::list::object;
use super::screen::Screen;
use super::stream::{Go, Stream};
use super::text;
use super::text_style::{TextStyle, state_text};
use crate::Output;

/// An answer: in JSON one object on one line, for people a block of labels and values.
pub trait Answer: Serialize {
    /// Writes the block.
    fn describe(&self, block: &mut Block);
}

/// Answers on standard output, one or several.
///
/// # Shape   `Break` means that nobody reads any more
/// # Errors  `target-unavailable`: standard output takes nothing
pub struct Answers<W: Write = Stdout> {
    stream: Stream<W>,
    output: Output,
    screen: Screen,
    count: u64,
}

impl Answers {
    /// Makes a printer of answers in a format.
    pub fn new(output: impl Into<Output>) -> Self {
        Self::to(Stream::stdout(), output.into(), Screen::of_stdout())
    }
}

impl<W: Write> Answers<W> {
    fn to(stream: Stream<W>, output: Output, screen: Screen) -> Self {
        Self {
            stream,
            output,
            screen,
            count: 0,
        }
    }

    /// Prints one answer, at once.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn print(&mut self, answer: &impl Answer) -> Result<Go> {
        let mut bytes = Vec::new();
        match self.output {
            Output::Table => {
                let mut block = Block::default();
                answer.describe(&mut block);
                if self.count > 0 {
                    bytes.push(b'\n');
                }
                bytes.extend_from_slice(block.laid_out(self.screen).as_bytes());
            }
            Output::Json | Output::Jsonl => {
                object(answer, &mut bytes)?;
                bytes.push(b'\n');
            }
        }
        self.count += 1;
        if self.stream.write(&bytes)?.is_break() {
            return Ok(Go::Break(()));
        }
        self.stream.flush()
    }
}

/// An answer for people about one thing: fields under headings, and prose.
#[derive(Debug, Default)]
pub struct Block {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Heading(String),
    Field {
        label: String,
        value: String,
        style: TextStyle,
    },
    Prose(String),
    /// The whole text of a message, with its lines.
    Body(String),
    Item {
        verdict: &'static str,
        style: TextStyle,
        name: String,
        text: String,
        advice: Option<String>,
    },
}

impl Block {
    /// Adds `label: value`; no value is `-`. Characters that a terminal would obey are escaped.
    pub fn field(&mut self, label: &str, value: impl Display) -> &mut Self {
        self.styled(TextStyle::Plain, label, &value.to_string())
    }

    /// Adds the same in another style.
    pub fn styled(&mut self, style: TextStyle, label: &str, value: &str) -> &mut Self {
        let (value, style) = match value {
            "" => ("-", TextStyle::Faint),
            value => (value, style),
        };
        self.parts.push(Part::Field {
            label: text::escaped(label).into_owned(),
            value: text::escaped(value).into_owned(),
            style,
        });
        self
    }

    /// Adds a field if there is a value, else nothing.
    pub fn some(&mut self, label: &str, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.field(label, value),
            None => self,
        }
    }

    /// Adds a field with the name of a state, which another version may have.
    pub fn named_state(&mut self, label: &str, name: &str) -> &mut Self {
        match state_of(name) {
            Some(state) => self.state(label, state),
            None => self.field(label, name.replace('_', " ")),
        }
    }

    /// Adds a field with the name of a state.
    pub fn state(&mut self, label: &str, state: StateKind) -> &mut Self {
        self.styled(TextStyle::of(state), label, state_text(state))
    }

    /// Adds a heading, with an empty line before it.
    pub fn heading(&mut self, title: &str) -> &mut Self {
        self.parts
            .push(Part::Heading(text::escaped(title).into_owned()));
        self
    }

    /// Adds a paragraph, broken into lines if it is read on a terminal.
    pub fn prose(&mut self, paragraph: &str) -> &mut Self {
        self.parts
            .push(Part::Prose(text::escaped(paragraph).into_owned()));
        self
    }

    /// Adds a message or an outcome under its label: text with its lines indented, else base64.
    pub fn bytes(&mut self, label: &str, bytes: &[u8]) -> &mut Self {
        let body = match std::str::from_utf8(bytes) {
            Ok("") => return self.field(label, ""),
            Ok(body) if !body.contains('\n') => return self.field(label, body),
            Ok(body) => text::escaped_but(body, |c| c == '\n').into_owned(),
            Err(_) => {
                let label = format!("{label} (base64)");
                return self.field(&label, Base64(bytes.into()));
            }
        };
        self.styled(TextStyle::Plain, label, "");
        if let Some(Part::Field { value, .. }) = self.parts.last_mut() {
            value.clear();
        }
        self.parts.push(Part::Body(body));
        self
    }

    /// Adds a line of a checklist: its verdict, its name, the reason and the advice, broken into lines beside them
    /// if it is read on a terminal.
    pub fn item(
        &mut self,
        style: TextStyle,
        verdict: &'static str,
        name: &str,
        text: &str,
        advice: Option<&str>,
    ) -> &mut Self {
        self.parts.push(Part::Item {
            verdict,
            style,
            name: text::escaped(name).into_owned(),
            text: text::escaped(text).into_owned(),
            advice: advice.map(|advice| text::escaped(advice).into_owned()),
        });
        self
    }

    fn laid_out(&self, screen: Screen) -> String {
        let mut out = String::new();
        let labels = self.parts.iter().filter_map(|part| match part {
            // A label whose value stands below it needs no room beside it.
            Part::Field { label, value, .. } if !value.is_empty() => Some(text::width(label)),
            Part::Field { .. }
            | Part::Heading(_)
            | Part::Prose(_)
            | Part::Body(_)
            | Part::Item { .. } => None,
        });
        let widest = labels.max().unwrap_or(0);
        let [verdicts, names] = self.columns();
        for part in &self.parts {
            match part {
                Part::Heading(title) => {
                    if !out.is_empty() {
                        out.push('\n');
                    }
                    TextStyle::Heading.paint(title, screen.colour, &mut out);
                    out.push('\n');
                }
                Part::Field {
                    label,
                    value,
                    style,
                } => {
                    TextStyle::Heading.paint(&format!("{label}:"), screen.colour, &mut out);
                    if !value.is_empty() {
                        let pad = widest - text::width(label) + 1;
                        text::write_spaces(pad, &mut out);
                        style.paint(value, screen.colour, &mut out);
                    }
                    out.push('\n');
                }
                Part::Prose(paragraph) => {
                    let most = screen.width.unwrap_or(usize::MAX);
                    for line in text::wrapped(paragraph, most) {
                        out.push_str(line.trim_end());
                        out.push('\n');
                    }
                }
                Part::Item {
                    verdict,
                    style,
                    name,
                    text,
                    advice,
                } => {
                    style.paint(verdict, screen.colour, &mut out);
                    text::write_spaces(verdicts - verdict.len() + GAP, &mut out);
                    TextStyle::Heading.paint(name, screen.colour, &mut out);
                    text::write_spaces(names - name.len() + GAP, &mut out);
                    let indent = verdicts + names + 2 * GAP;
                    let most = screen.width.map_or(usize::MAX, |width| {
                        width.saturating_sub(indent).max(NARROWEST)
                    });
                    let mut lines = text::wrapped(text, most);
                    if let Some(advice) = advice {
                        let advice = format!("do: {advice}");
                        lines.append(&mut text::wrapped(&advice, most));
                    }
                    for (at, line) in lines.iter().enumerate() {
                        if at > 0 {
                            text::write_spaces(indent, &mut out);
                        }
                        out.push_str(line);
                        out.push('\n');
                    }
                }
                Part::Body(body) => {
                    for line in body.lines() {
                        out.push_str(INDENT);
                        out.push_str(line);
                        out.push('\n');
                    }
                }
            }
        }
        out
    }

    /// The widths of the verdicts and of the names of all items.
    fn columns(&self) -> [usize; 2] {
        let items = self.parts.iter().filter_map(|part| match part {
            Part::Item { verdict, name, .. } => Some([verdict.len(), name.len()]),
            Part::Field { .. } | Part::Heading(_) | Part::Prose(_) | Part::Body(_) => None,
        });
        items.fold([0; 2], |[verdicts, names], [verdict, name]| {
            [verdicts.max(verdict), names.max(name)]
        })
    }
}

const INDENT: &str = "  ";
/// The columns between the parts of an item, and the least that its text has.
const GAP: usize = 2;
const NARROWEST: usize = 24;

#[cfg(test)]
mod tests;
