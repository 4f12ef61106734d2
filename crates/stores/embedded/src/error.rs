//! Failures of the file system, as errors that say what is certain and what to do.

use std::io;

use semel_core::{Code, Error, ErrorKind};

/// State of the log after a write that failed.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// Provably nothing of it was written; the store goes on.
    Undone(Error),
    /// Nobody knows how much was written; the store is poisoned.
    Unknown(Error),
}

/// Returns whether the disk, or the quota on it, is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Error for a full disk; the half-written part has been taken back.
pub(crate) fn full(error: io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the disk under the store is full; free some space and retry",
    )
    .with_code(Code::StoreFull)
    .not_applied()
    .with_source(error)
}

/// Error for a write or a flush that failed, so that nobody knows what is on disk.
pub(crate) fn unknown(doing: &str, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Poisoned,
        format!("{doing} failed; check the disk and open the store anew to see what was kept"),
    )
    .with_source(error)
}

/// Error for a store that was poisoned before this call.
pub(crate) fn poisoned() -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "an earlier write to the store failed; check the disk and open the store anew",
    )
    .not_applied()
}

/// Error for a file that could not be read.
pub(crate) fn unreadable(name: &str, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return denied(&format!("cannot open {name}"), error);
    }
    Error::new(
        ErrorKind::Unavailable,
        format!("cannot read {name}; check the disk"),
    )
    .not_applied()
    .with_source(error)
}

/// Error for what the user of this process may not do.
fn denied(doing: &str, error: io::Error) -> Error {
    let message = format!(
        "{doing}: permission denied; run it as the user that the store's folder belongs to, or allow this one to write \
         there"
    );
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::StoreReadOnly)
        .not_applied()
        .with_source(error)
}

/// Error for stored bytes that do not check out.
pub(crate) fn corrupt(name: &str, offset: u64, what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{name} is damaged at byte {offset} ({what}); restore the folder from a backup"),
    )
}

/// Error for a folder that could not be opened or prepared.
pub(crate) fn unopened(doing: &str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied => return denied(doing, error),
        io::ErrorKind::ReadOnlyFilesystem => Error::new(
            ErrorKind::Unavailable,
            format!("{doing}: the store's folder cannot be written; allow it or choose another"),
        )
        .with_code(Code::StoreReadOnly),
        _ if is_full(&error) => Error::new(
            ErrorKind::Unavailable,
            format!("{doing}: the disk is full; free some space"),
        )
        .with_code(Code::StoreFull),
        _ => Error::new(
            ErrorKind::Unavailable,
            format!("{doing} failed; check the folder and disk"),
        )
        .with_code(Code::StoreUnavailable),
    }
    .not_applied()
    .with_source(error)
}

/// Error for a folder, or files in it, that belong to something else.
pub(crate) fn foreign(what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("{what}; choose an empty folder"),
    )
    .with_code(Code::StoreForeign)
}

/// Error for a store that a newer version wrote.
pub(crate) fn newer(version: u32, ours: u32) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "the store has format {version}, this version reads up to {ours}; use a newer semel"
        ),
    )
    .with_code(Code::StoreNewer)
}

/// Error for a store that another process has open.
pub(crate) fn in_use(pid: Option<u32>) -> Error {
    let holder = pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    );
    Error::new(
        ErrorKind::Unavailable,
        format!("the store is in use by {holder}; stop it or choose another folder"),
    )
    .with_code(Code::StoreInUse)
    .not_applied()
}

/// Error for a caller's value that exceeds a cap.
pub(crate) fn too_large(what: &str, len: usize, cap: usize) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!("the {what} is {len} bytes long; this store keeps at most {cap}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_may_not_do_is_told_as_that_and_not_as_a_disk() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        for error in [
            unreadable("a.journal", denied()),
            unopened("locking the producer", denied()),
        ] {
            let text = error.to_string();
            assert!(
                text.contains(": permission denied; run it as the user"),
                "{text}"
            );
            assert_eq!(error.code(), Code::StoreReadOnly);
        }
        let broken = unreadable("a.journal", io::Error::other("broken"));
        assert!(broken.to_string().ends_with("check the disk"), "{broken}");
    }
}
