//! The only place that prints: data on standard output, conversation on standard error.

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use semel_core::{Code, Error, ErrorKind};

/// Prints data. A closed pipe is no failure: whoever reads has had enough.
pub(crate) fn data(text: impl Display) -> std::io::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// The error of a standard output that takes nothing.
pub(crate) fn cannot_print(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot print to standard output")
        .with_code(Code::TargetUnavailable)
        .with_source(error)
}

/// Prints data if somebody takes it within `patience`: at the end of a run that was asked to stop,
/// a pipe that nobody reads must not hold up the exit.
pub(crate) fn data_within(text: String, patience: Duration) -> std::io::Result<()> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || {
        // Whoever waited may have gone.
        let _ = sender.send(data(text));
    });
    receiver.recv_timeout(patience).unwrap_or(Ok(()))
}

/// Tells something, one line.
pub(crate) fn note(text: impl Display) {
    say(format_args!("{text}"));
}

/// Tells of something that wants attention.
pub(crate) fn warning(text: impl Display) {
    say(format_args!("warning: {text}"));
}

/// Tells of a failure with its chain of causes.
pub(crate) fn failure(error: &Error) {
    say(format_args!("error: {error} [{}]", error.code()));
    let mut told = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let text = error.to_string();
        // A layer that only passes on what is below it says nothing of its own.
        if !told.contains(&text) {
            say(format_args!("  caused by: {text}"));
        }
        told = text;
        cause = error.source();
    }
}

/// Nobody may be listening any more; that is no reason to end.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
