//! The operating verbs, without a terminal: typed requests in, serialisable reports out.
//!
//! An operator meets Semel through several doors: the command line, and later an admin API and a console. What a verb
//! finds and decides is the same behind each of them and is here; a door parses its requests and renders the reports, as
//! text, as JSON or as a page. The reports are what `--output json` prints: names and order of their members are stable.
//!
//! The crate opens no store and no broker, prints nothing, and knows neither exit codes nor command lines. It looks at
//! the files and programs that settings name, and changes nothing.
//!
//! [`check`] says what each pipeline promises, and what stands in the way. [`keys`] explains a key and decides what a
//! change of its record would be, [`in_doubt`] what a person's word about a doubt leads to, and [`parked`] finds the messages that were set
//! aside. What to do next is an [`Action`](action::Action) in each of them: a door makes a command or a button of it.

pub mod action;
pub mod check;
pub mod in_doubt;
pub mod keys;
pub mod parked;
pub mod relative_time;
#[cfg(test)]
mod samples;
pub mod value;
