//! One row of a table: the text of its cells, in one string.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

use semel_core::{StateKind, Timestamp};

use crate::output::look::{Look, state_text};
use crate::output::text;

/// The cells of one row, filled in the order of the columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    text: String,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    end: usize,
    look: Look,
}

impl Row {
    /// A cell with this text; what a terminal would obey is escaped.
    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.look(Look::Plain, value)
    }

    /// The same in another look.
    pub(crate) fn look(&mut self, look: Look, value: &str) -> &mut Self {
        self.text.push_str(&text::escaped(value));
        self.close(look)
    }

    /// A cell with whatever prints itself, a number for example.
    pub(crate) fn show(&mut self, value: impl Display) -> &mut Self {
        let start = self.text.len();
        // A string takes what is written.
        let _ = write!(self.text, "{value}");
        if let Cow::Owned(safe) = text::escaped(&self.text[start..]) {
            self.text.truncate(start);
            self.text.push_str(&safe);
        }
        self.close(Look::Plain)
    }

    /// The same, or nothing.
    pub(crate) fn show_some(&mut self, value: Option<impl Display>) -> &mut Self {
        match value {
            Some(value) => self.show(value),
            None => self.nothing(),
        }
    }

    /// A cell with the name of a state.
    pub(crate) fn state(&mut self, state: StateKind) -> &mut Self {
        self.look(Look::of(state), state_text(state))
    }

    /// A cell with a time.
    pub(crate) fn time(&mut self, time: Timestamp) -> &mut Self {
        self.show(time)
    }

    /// A cell without a value: `-`.
    pub(crate) fn nothing(&mut self) -> &mut Self {
        self.look(Look::Faint, "-")
    }

    fn close(&mut self, look: Look) -> &mut Self {
        let end = self.text.len();
        self.cells.push(Cell { end, look });
        self
    }

    /// No cells yet.
    pub(super) const fn new() -> Self {
        Self {
            text: String::new(),
            cells: Vec::new(),
        }
    }

    /// How many cells it has.
    pub(super) const fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.cells.clear();
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = (&str, Look)> {
        let mut start = 0;
        self.cells.iter().map(move |cell| {
            let text = &self.text[start..cell.end];
            start = cell.end;
            (text, cell.look)
        })
    }
}
