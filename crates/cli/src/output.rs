//! The only place that prints: data on standard output, conversation on standard error.
//!
//! Tools of a verb:
//!
//! | For | use |
//! |---|---|
//! | a list | [`Entry`] for what is listed, [`List::new`], then [`push`](List::push) per entry, [`pause`](List::pause) per page of the store, [`end`](List::end) |
//! | an answer about one thing | [`Answer`] with [`Block`], [`Answers::new`], [`print`](Answers::print) |
//! | lines or bytes of its own | [`data`], or [`Stream::stdout`] for many |
//! | a change | [`Plan`]: [`add`](Plan::add) what will change, then [`confirmed`](Plan::confirmed) before anything does |
//! | a word to the user | [`note`], [`warning`], [`error`]; while bars may be shown, `Bars::note` |
//! | progress of long work | `Bars::new` or `Bars::beside_data`, then `of_work` |
//! | values in JSON | fields of type [`Time`](semel_operate::value::Time), [`Span`](semel_operate::value::Span), [`text_or_base64`](semel_operate::value::text_or_base64) |
//! | arguments | flatten `args::{Format, Listing, Confirm, Audit}` |
//!
//! ```ignore
//! let mut list = List::new(&arguments.listing);
//! 'pages: loop {
//!     let page = store.list(&query).await?;
//!     for listed in &page.items {
//!         if list.push(&KeyEntry::of(listed))?.is_break() {
//!             break 'pages;
//!         }
//!     }
//!     query.after = page.next;
//!     if query.after.is_none() || list.pause()?.is_break() {
//!         break;
//!     }
//! }
//! list.end()?;
//! Ok(Exit::Done)
//! ```
//!
//! [`Go::Break`](Go) says that nobody reads any more, or that `--limit` is reached: stop the work and end with
//! exit code 0. The convention of the formats is in the book, `reference/output.md`.

mod answer;
mod conversation;
mod list;
mod markdown;
mod plan;
mod screen;
mod stream;
mod table;
mod text;
mod text_style;

pub(crate) use answer::{Answer, Answers, Block};
pub(crate) use conversation::{
    Level, error, errors, failure, is_told_in_text, log, note, set_log, warning, warning_in,
};
pub(crate) use list::{Entry, List};
pub(crate) use markdown::plain;
pub(crate) use plan::Plan;
pub(crate) use screen::set_colour;
pub(crate) use stream::{Go, Stream, cannot_print};
pub(crate) use table::{Column, Row};
pub(crate) use text::key_text;
pub(crate) use text_style::{TextStyle, state_text};

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use semel_core::Result;
use serde::Serialize;

/// Prints data. A closed pipe is no failure: its reader has had enough.
pub(crate) fn data(text: impl Display) -> std::io::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Prints one object on one line.
pub(crate) fn object(value: &impl Serialize) -> Result<()> {
    let mut line = Vec::new();
    list::object(value, &mut line)?;
    data(String::from_utf8_lossy(&line)).map_err(cannot_print)
}

/// Prints a page of the book from its folder `folder`, broken to fit a terminal.
pub(crate) fn page(page: &str, folder: &str) -> Result<()> {
    let screen = screen::Screen::of_stdout();
    let width = screen.width.map_or(LINE, |width| width.min(LINE));
    let page = markdown::rendered(page, folder, width, screen.colour);
    data(page).map_err(cannot_print)
}

/// The longest line; longer lines are hard to read.
const LINE: usize = 100;

/// Prints data if its reader takes it within `patience`: at the end of a run that was asked to stop, a pipe
/// that nobody reads must not delay the exit.
pub(crate) fn data_within(text: String, patience: Duration) -> std::io::Result<()> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // The caller may have stopped waiting.
        let _ = sender.send(data(text));
    });
    receiver.recv_timeout(patience).unwrap_or(Ok(()))
}
