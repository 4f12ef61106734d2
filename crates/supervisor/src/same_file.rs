//! Refuses an effect that writes the file which its source reads, whichever way both were opened.

use std::fs::{File, Metadata};
use std::os::fd::AsFd;

use semel_config::SourceSettings;
use semel_config::same_file::is_one;
use semel_core::{Code, Error, ErrorKind, Result};
use semel_worker::settings::EffectSettings;

/// Refuses an effect that writes its source's input, also if standard input or output was redirected.
///
/// # Errors
///
/// `InvalidInput` with code `same-file`.
pub fn refuse(name: &str, source: &SourceSettings, effect: &EffectSettings) -> Result<()> {
    let source = match source {
        SourceSettings::File { path, .. } => std::fs::metadata(path).ok(),
        SourceSettings::Stdin { .. } => of_stream(std::io::stdin().as_fd()),
        SourceSettings::Kafka(_)
        | SourceSettings::Nats(_)
        | SourceSettings::Amqp(_)
        | SourceSettings::Webhook(_)
        | SourceSettings::Ingest(_) => None,
    };
    let (target, told) = match effect {
        EffectSettings::File { path } => (std::fs::metadata(path).ok(), path.display().to_string()),
        EffectSettings::Stdout(_) => (
            of_stream(std::io::stdout().as_fd()),
            "standard output".to_owned(),
        ),
        EffectSettings::Sql(_)
        | EffectSettings::Http(..)
        | EffectSettings::Exec(..)
        | EffectSettings::Jsonl(..)
        | EffectSettings::Publish(_)
        | EffectSettings::Streamed(_) => return Ok(()),
    };
    match (source, target) {
        (Some(source), Some(target)) if is_one(&source, &target) => {
            Err(error(&format!("{name}: {told}"), "its source"))
        }
        _ => Ok(()),
    }
}

/// The error that `name` is the same file as `other`.
pub fn error(name: &str, other: &str) -> Error {
    let message = format!("{name} is the same file as {other}; name another file to write");
    Error::new(ErrorKind::InvalidInput, message).with_code(Code::SameFile)
}

fn of_stream(stream: std::os::fd::BorrowedFd<'_>) -> Option<Metadata> {
    let file = File::from(stream.try_clone_to_owned().ok()?);
    file.metadata().ok()
}
