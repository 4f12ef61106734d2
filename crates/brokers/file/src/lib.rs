//! Semel's local sources: a file or standard input, line by line.
//!
//! Both end, neither remembers: a file is read from its start each time, and the store tells which
//! messages were done before. The coordinates of a message, `FILE:LINE`, are the same for each
//! reading.
//!
//! A line is a slice of the block that it was read in, so nothing is copied; a caller that keeps a
//! payload for long should copy it, or the block stays in memory with it.
//!
//! ```
//! use semel_broker_file::{FileSource, Options};
//! use semel_core::port::source::{Fetched, Source};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! # let folder = tempfile::tempdir()?;
//! let path = folder.path().join("payments.ndjson");
//! std::fs::write(&path, "{\"id\":1}\n\n{\"id\":2}\n")?;
//!
//! let mut source = FileSource::open(&path, Options::default()).await?;
//! let Fetched::Deliveries(payments) = source.fetch(100).await? else { panic!("two lines") };
//! assert_eq!(payments[1].payload, "{\"id\":2}");
//! assert!(payments[1].coordinates.ends_with("payments.ndjson:3"), "blank lines count");
//! # Ok(())
//! # })
//! # }
//! ```

mod lines;
mod reader;
mod source;

pub use source::{FileSource, StdinSource};

/// Settings of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Meaning of a line.
    pub format: Format,
    /// The longest message. A longer line is never held in memory: its delivery carries its length
    /// and its first [`HEAD_BYTES`].
    pub max_message_bytes: usize,
}

impl Default for Options {
    /// Returns NDJSON, messages of at most 8 MiB.
    fn default() -> Self {
        Self {
            format: Format::Ndjson,
            max_message_bytes: 8 << 20,
        }
    }
}

/// Meaning of a line. LF ends a line, CR belongs to it; a last line without LF is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// JSON per line: blank lines are skipped, though counted, and so is a byte order mark at the
    /// very start.
    #[default]
    Ndjson,
    /// Text: every line is a message, the empty one too.
    Lines,
}

/// Bytes of a line that is too long that its delivery carries.
pub const HEAD_BYTES: usize = 64 << 10;
