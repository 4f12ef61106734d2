//! Whether a file would be read and written at once: by its device and inode, so that links hide nothing.

use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use semel_core::{Code, Error, ErrorKind, Result};
use semel_worker::settings::EffectSettings;

use crate::config::SourceSettings;

/// Whether both paths lead to one file, or will once it is made.
pub(crate) fn are_one(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => is_one(&one, &other),
        _ => plain(one) == plain(other),
    }
}

/// `path` with its links resolved as far as it exists, so that one file has one name.
pub(crate) fn plain(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(resolved) = absolute.canonicalize() {
        return resolved;
    }
    match (
        absolute.parent().map(Path::canonicalize),
        absolute.file_name(),
    ) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

/// Refuses an effect that writes what its source reads, also where standard input or output was redirected.
///
/// # Errors   `InvalidInput` with code `same-file`
pub(crate) fn refuse(name: &str, source: &SourceSettings, effect: &EffectSettings) -> Result<()> {
    let source = match source {
        SourceSettings::File { path, .. } => std::fs::metadata(path).ok(),
        SourceSettings::Stdin { .. } => of_stream(std::io::stdin().as_fd()),
        SourceSettings::Kafka(_) | SourceSettings::Nats(_) | SourceSettings::Amqp(_) => None,
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

/// That `name` is the same file as `other`.
pub(crate) fn error(name: &str, other: &str) -> Error {
    let message = format!("{name} is the same file as {other}; name another file to write");
    Error::new(ErrorKind::InvalidInput, message).with_code(Code::SameFile)
}

fn of_stream(stream: std::os::fd::BorrowedFd<'_>) -> Option<Metadata> {
    let file = File::from(stream.try_clone_to_owned().ok()?);
    file.metadata().ok()
}

/// Devices and pipes are read and written at once as a matter of course.
fn is_one(one: &Metadata, other: &Metadata) -> bool {
    one.is_file() && (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_both_kinds_lead_to_one_file() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("in"), "a\n")?;
        std::fs::write(at("other"), "a\n")?;
        std::fs::hard_link(at("in"), at("hard"))?;
        std::os::unix::fs::symlink("in", at("soft"))?;
        for name in ["in", "hard", "soft", "./in"] {
            assert!(are_one(&at("in"), &at(name)), "{name}");
        }
        assert!(!are_one(&at("in"), &at("other")));
        // What is not there yet.
        assert!(are_one(&at("new"), &at("./new")));
        assert!(!are_one(&at("new"), &at("newer")));
        assert!(!are_one(Path::new("/dev/null"), Path::new("/dev/null")));
        Ok(())
    }
}
