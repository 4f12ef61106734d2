//! A run, as its operator sees it: the notices of its supervisor, the progress of its pipelines, and the summaries at the
//! end.

mod console;
pub mod notices;
pub mod publication;
mod restoration;
pub mod summary;

pub use console::Console;
