//! The only place that prints for an operator: data on standard output, conversation on standard error. It knows the
//! reports of [`semel_operate`] and the notices of a supervisor, and neither arguments nor exit codes.
//!
//! Tools of a verb:
//!
//! | For | use |
//! |---|---|
//! | a list | [`Entry`] for what is listed, [`List::new`], then [`push`](List::push) per entry, [`pause`](List::pause) per page of the store, [`end`](List::end) |
//! | an answer about one thing | [`Answer`] with [`Block`], [`Answers::new`], [`print`](Answers::print) |
//! | lines or bytes of its own | [`data`], or [`Stream::stdout`] for many |
//! | a change | [`Plan`]: [`add`](Plan::add) what will change, then [`confirmed`](Plan::confirmed) before anything does |
//! | a word to the user | [`note`], [`warning`], [`error`]; while bars may be shown, [`Bars::note`](progress::Bars::note) |
//! | progress of long work | [`Bars::new`](progress::Bars::new) or [`Bars::beside_data`](progress::Bars::beside_data), then `of_work` |
//! | values in JSON | fields of type [`Time`](semel_operate::value::Time), [`Span`](semel_operate::value::Span), [`text_or_base64`](semel_operate::value::text_or_base64) |
//!
//! ```
//! use semel_core::Result;
//! use semel_render::{Column, Entry, List, Listing, Output, Row};
//! use serde::Serialize;
//!
//! #[derive(Serialize)]
//! struct Parcel {
//!     id: u64,
//! }
//!
//! impl Entry for Parcel {
//!     const COLUMNS: &'static [Column] = &[Column::number("id")];
//!     const NONE: &'static str = "no parcels";
//!
//!     fn fill(&self, row: &mut Row) {
//!         row.show(self.id);
//!     }
//! }
//!
//! fn print(pages: Vec<Vec<Parcel>>, output: Output) -> Result<()> {
//!     let mut list = List::new(Listing { output, limit: None });
//!     'pages: for page in pages {
//!         for parcel in &page {
//!             if list.push(parcel)?.is_break() {
//!                 break 'pages;
//!             }
//!         }
//!         if list.pause()?.is_break() {
//!             break;
//!         }
//!     }
//!     list.end()
//! }
//! # print(vec![vec![Parcel { id: 7 }]], Output::Jsonl)?;
//! # Ok::<_, semel_core::Error>(())
//! ```
//!
//! [`Go::Break`](Go) says that nobody reads any more, or that the limit is reached: the work stops, and that is no failure.
//! The convention of the formats is in the book, `reference/output.md`.

mod answer;
pub mod book;
mod conversation;
mod format;
mod list;
mod markdown;
pub mod names;
mod plan;
pub mod progress;
pub mod reports;
pub mod run;
mod screen;
mod stream;
mod table;
mod text;
mod text_style;

pub use answer::{Answer, Answers, Block};
pub use conversation::{
    Level, error, errors, failure, is_told_in_text, log, note, set_log, warning, warning_in,
};
pub use format::{Colour, LogFormat, Output};
pub use list::{Entry, List, Listing};
pub use markdown::plain;
pub use plan::{Plan, Unconfirmed};
pub use screen::set_colour;
pub use semel_operate::shell;
pub use stream::{Go, Stream, cannot_print};
pub use table::{Column, Row};
pub use text::key_text;
pub use text_style::{TextStyle, state_text};

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use semel_core::Result;
use serde::Serialize;

/// Prints data. A closed pipe is no failure: its reader has had enough.
///
/// # Errors
///
/// Those of standard output
pub fn data(text: impl Display) -> std::io::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints one object on one line.
///
/// # Errors
///
/// `target-unavailable`: standard output takes nothing
pub fn object(value: &impl Serialize) -> Result<()> {
    let mut line = Vec::new();
    list::object(value, &mut line)?;
    data(String::from_utf8_lossy(&line)).map_err(cannot_print)
}

/// Prints a page of the book from its folder `folder`, broken to fit a terminal.
///
/// # Errors
///
/// `target-unavailable`: standard output takes nothing
pub fn page(page: &str, folder: &str) -> Result<()> {
    let screen = screen::Screen::of_stdout();
    let width = screen.width.map_or(LINE, |width| width.min(LINE));
    let page = markdown::rendered(page, folder, width, screen.colour);
    data(page).map_err(cannot_print)
}

/// The longest line; longer lines are hard to read.
const LINE: usize = 100;

/// Prints data if its reader takes it within `patience`: at the end of a run that was asked to stop, a pipe
/// that nobody reads must not delay the exit.
///
/// # Errors
///
/// As [`data`]
pub fn data_within(text: String, patience: Duration) -> std::io::Result<()> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The caller may have stopped waiting.
        let _ = sender.send(data(text));
    });
    receiver.recv_timeout(patience).unwrap_or(Ok(()))
}
