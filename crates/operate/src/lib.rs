//! The operating verbs, without a terminal: typed requests in, serialisable reports out.
//!
//! An operator meets Semel through several doors: the command line, and later an admin API and a console. The
//! findings and decisions of a verb are the same behind each of them and are made here; a door parses its
//! requests and renders the reports, as text, as JSON or as a page. `--output json` prints the reports: the
//! names and the order of their members are stable.
//!
//! The crate opens no store and no broker, prints nothing, and knows neither exit codes nor command lines. It
//! looks at the files and programs that settings name, and changes nothing.
//!
//! [`check`] reports the promise of each pipeline, and what stands in its way. [`keys`] explains a key and
//! decides what a change of its record would do, [`in_doubt`] decides what a person's statement about a doubt
//! leads to, [`parked`] finds the messages that were set aside, [`relays`] the dead letters of
//! relays, [`pipelines`] pauses and resumes pipelines and relays, [`producers`] freezes and releases producers, and [`store`] counts what a store holds. Each of them
//! names the next step as an [`Action`](action::Action): a door makes a command or a button of it. [`shell`] quotes the words
//! of such a command.

pub mod action;
pub mod check;
pub mod in_doubt;
pub mod keys;
pub mod order;
pub mod paging;
pub mod parked;
pub mod pipelines;
pub mod producers;
pub mod relative_time;
pub mod relays;
#[cfg(test)]
mod samples;
pub mod shell;
pub mod store;
pub mod terminal;
pub mod value;
