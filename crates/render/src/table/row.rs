//! One row of a table: the text of its cells, in one string.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use semel_core::{StateKind, Timestamp};

use crate::text;
use crate::text_style::{TextStyle, state_text};

/// The cells of one row, filled in the order of the columns.
#[derive(Clone, Debug, Default)]
pub struct Row {
    text: String,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    end: usize,
    style: TextStyle,
}

impl Row {
    /// The text of a cell without a value.
    pub(super) const NOTHING: &str = "-";

    /// Adds a cell with this text; characters that a terminal would obey are escaped.
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.styled(TextStyle::Plain, value)
    }

    /// Adds the same in another style.
    pub fn styled(&mut self, style: TextStyle, value: &str) -> &mut Self {
        self.text.push_str(&text::escaped(value));
        self.close(style)
    }

    /// Adds a cell with a value that prints itself, for example a number.
    pub fn show(&mut self, value: impl Display) -> &mut Self {
        let start = self.text.len();
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{value}");
        if let Cow::Owned(safe) = text::escaped(&self.text[start..]) {
            self.text.truncate(start);
            self.text.push_str(&safe);
        }
        self.close(TextStyle::Plain)
    }

    /// Adds the same, or an empty value.
    pub fn show_some(&mut self, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.show(value),
            None => self.nothing(),
        }
    }

    /// Adds a cell with the name of a state.
    pub fn state(&mut self, state: StateKind) -> &mut Self {
        self.styled(TextStyle::of(state), state_text(state))
    }

    /// Adds a cell with a time.
    pub fn time(&mut self, time: Timestamp) -> &mut Self {
        self.show(time)
    }

    /// Adds a cell without a value: `-`.
    pub fn nothing(&mut self) -> &mut Self {
        self.styled(TextStyle::Faint, Self::NOTHING)
    }

    fn close(&mut self, style: TextStyle) -> &mut Self {
        let end = self.text.len();
        self.cells.push(Cell { end, style });
        self
    }

    /// Makes a row without cells.
    pub(super) const fn new() -> Self {
        Self {
            text: String::new(),
            cells: Vec::new(),
        }
    }

    /// The number of cells.
    pub(super) const fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = (&str, TextStyle)> {
        let mut start = 0;
        self.cells.iter().map(move |cell| {
            let text = &self.text[start..cell.end];
            start = cell.end;
            (text, cell.style)
        })
    }
}
