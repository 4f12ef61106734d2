//! The operating verbs, without a terminal: typed requests in, serialisable reports out.
//!
//! An operator meets Semel through several doors: the command line, and later an admin API and a console. What a verb
//! finds and decides is the same behind each of them and is here; a door parses its requests and renders the reports, as
//! text, as JSON or as a page. The reports are what `--output json` prints: names and order of their members are stable.
//!
//! The crate opens no store and no broker, prints nothing, and knows neither exit codes nor command lines. It looks at
//! the files and programs that settings name, and changes nothing.
//!
//! [`check`] says what each pipeline promises, and what stands in the way.

pub mod check;
pub mod value;
