//! Prints lists entry by entry: a list of ten million prints in constant memory.

use std::io::{Stdout, Write};
use std::marker::PhantomData;
use std::num::NonZeroU64;

use semel_core::{Error, ErrorKind, Result};
use serde::Serialize;

use super::note;
use super::screen::Screen;
use super::stream::{Go, Stream};
use super::table::{Column, Row, Table};
use crate::Output;

/// One entry of a list. In JSON it is an object whose members keep their names and their order.
pub trait Entry: Serialize {
    /// The columns of the table; each shows a member under its name.
    const COLUMNS: &'static [Column];
    /// The text for an empty list: `no dead letters`.
    const NONE: &'static str;

    /// Fills a row of the table, a cell per column.
    fn fill(&self, row: &mut Row);
}

/// The format of a list, and the number of entries after which it is broken off.
#[derive(Clone, Copy, Debug)]
pub struct Listing {
    /// The format.
    pub output: Output,
    /// The most entries; without it the list is complete.
    pub limit: Option<NonZeroU64>,
}

/// A list on standard output.
///
/// # Shape   `Break` from [`push`](Self::push) or [`pause`](Self::pause) means that the work is to
/// stop: nobody reads any more, or `--limit` is reached. Then, and after the last entry,
/// call [`end`](Self::end).
/// # Cost    holds the first page of a table, else one entry
/// # Errors  `target-unavailable`: standard output takes nothing
pub struct List<E, W: Write = Stdout> {
    stream: Stream<W>,
    form: Form,
    limit: Option<NonZeroU64>,
    count: u64,
    line: Vec<u8>,
    text: String,
    entries: PhantomData<fn(&E)>,
}

enum Form {
    Table(Table),
    Document,
    Lines,
}

impl<E: Entry> List<E> {
    /// Makes an empty list in the format of `listing`.
    pub fn new(listing: impl Into<Listing>) -> Self {
        Self::to(Stream::stdout(), listing.into(), Screen::of_stdout())
    }

    /// Shows the entries that are held back, and finds out whether the output is still read. Call it between
    /// two pages of the store.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn pause(&mut self) -> Result<Go> {
        if self.show()?.is_break() {
            return Ok(Go::Break(()));
        }
        Ok(self.stream.look())
    }

    /// Ends the list, complete or broken off.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn end(mut self) -> Result<()> {
        self.finish()?;
        if self.count == 0 && matches!(self.form, Form::Table(_)) {
            note(E::NONE);
        }
        Ok(())
    }
}

impl<E: Entry, W: Write> List<E, W> {
    fn to(stream: Stream<W>, listing: Listing, screen: Screen) -> Self {
        Self {
            stream,
            form: match listing.output {
                Output::Table => Form::Table(Table::new(E::COLUMNS, screen)),
                Output::Json => Form::Document,
                Output::Jsonl => Form::Lines,
            },
            limit: listing.limit,
            count: 0,
            line: Vec::new(),
            text: String::new(),
            entries: PhantomData,
        }
    }

    /// Prints an entry. The first one is shown at once, or with the first page of a table.
    ///
    /// # Errors
    ///
    /// `target-unavailable`: standard output takes nothing
    pub fn push(&mut self, entry: &E) -> Result<Go> {
        if self.is_full() {
            return Ok(Go::Break(()));
        }
        self.line.clear();
        match &mut self.form {
            Form::Table(table) => {
                self.text.clear();
                table.push(|row| entry.fill(row), &mut self.text);
                self.line.extend_from_slice(self.text.as_bytes());
            }
            Form::Document => {
                let before = if self.count == 0 { OPENING } else { BETWEEN };
                self.line.extend_from_slice(before);
                object(entry, &mut self.line)?;
            }
            Form::Lines => {
                object(entry, &mut self.line)?;
                self.line.push(b'\n');
            }
        }
        let mut go = self.stream.write(&self.line)?;
        self.count += 1;
        if self.count == 1 && go.is_continue() {
            go = self.stream.flush()?;
        }
        if self.is_full() {
            return Ok(Go::Break(()));
        }
        Ok(go)
    }

    /// Tells whether `--limit` is reached.
    fn is_full(&self) -> bool {
        self.limit.is_some_and(|limit| self.count >= limit.get())
    }

    fn show(&mut self) -> Result<Go> {
        self.settle()?;
        self.stream.flush()
    }

    fn settle(&mut self) -> Result<()> {
        if let Form::Table(table) = &mut self.form {
            self.text.clear();
            table.settle(&mut self.text);
            let _ = self.stream.write(self.text.as_bytes())?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.settle()?;
        if matches!(self.form, Form::Document) {
            self.line.clear();
            if self.count == 0 {
                self.line.extend_from_slice(OPENING);
            }
            let complete = !self.is_full();
            // Writing to a vector cannot fail.
            let _ = writeln!(self.line, "\n],\"complete\":{complete}}}");
            let _ = self.stream.write(&self.line)?;
        }
        let _ = self.stream.flush()?;
        Ok(())
    }
}

/// Writes the JSON object of `value`.
pub(super) fn object(value: &impl Serialize, to: &mut Vec<u8>) -> Result<()> {
    serde_json::to_writer(to, value).map_err(|error| {
        Error::new(ErrorKind::Internal, "an answer does not fit into JSON").with_source(error)
    })
}

/// The beginning of a document. The number is the version of the format.
const OPENING: &[u8] = b"{\"semel\":1,\"items\":[\n";
const BETWEEN: &[u8] = b",\n";

#[cfg(test)]
mod tests;
