//! The only place that prints: data on standard output, conversation on standard error.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the place that prints")]

use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// Prints data. A closed pipe is no failure: whoever reads has had enough.
pub(crate) fn data(text: impl Display) -> std::io::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Tells something, one line.
pub(crate) fn note(text: impl Display) {
    eprintln!("{text}");
}

/// Tells of something that wants attention.
pub(crate) fn warning(text: impl Display) {
    eprintln!("warning: {text}");
}

/// Tells of a failure with its chain of causes.
pub(crate) fn failure(error: &semel_core::Error) {
    eprintln!("error: {error} [{}]", error.code());
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
}
