//! What the file system reports, as errors that say what is certain and what to do.

use std::io;

use semel_core::{Code, Error, ErrorKind};

/// What became of a write to the log that failed.
#[derive(Debug)]
pub(crate) enum WriteFailure {
    /// Nothing of it is there, provably; the store goes on.
    Undone(Error),
    /// Nobody knows; the store is poisoned.
    Unknown(Error),
}

/// Whether the disk, or the quota on it, is used up.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// The disk is full and what was half written has been taken back.
pub(crate) fn full(error: io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the disk under the store is full; free some space and retry",
    )
    .with_code(Code::StoreFull)
    .not_applied()
    .with_source(error)
}

/// A write or a flush failed, so nobody knows what is on disk.
pub(crate) fn unknown(doing: &str, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Poisoned,
        format!("{doing} failed; check the disk and open the store anew to see what was kept"),
    )
    .with_source(error)
}

/// The store was poisoned before this call.
pub(crate) fn poisoned() -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "an earlier write to the store failed; check the disk and open the store anew",
    )
    .not_applied()
}

/// A file could not be read.
pub(crate) fn unreadable(name: &str, error: io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("cannot read {name}; check the disk"),
    )
    .not_applied()
    .with_source(error)
}

/// Stored bytes do not check out.
pub(crate) fn corrupt(name: &str, offset: u64, what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("{name} is damaged at byte {offset} ({what}); restore the folder from a backup"),
    )
}

/// The folder could not be opened or prepared.
pub(crate) fn unopened(doing: &str, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Error::new(
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

/// The folder or the files in it are something else.
pub(crate) fn foreign(what: &str) -> Error {
    Error::new(
        ErrorKind::InvalidConfig,
        format!("{what}; choose an empty folder"),
    )
    .with_code(Code::StoreForeign)
}

/// The store was written by a newer version.
pub(crate) fn newer(version: u32, ours: u32) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "the store has format {version}, this version reads up to {ours}; use a newer semel"
        ),
    )
    .with_code(Code::StoreNewer)
}

/// Another process has the store open.
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

/// What a caller handed in is beyond a cap.
pub(crate) fn too_large(what: &str, len: usize, cap: usize) -> Error {
    Error::new(
        ErrorKind::InvalidInput,
        format!("the {what} is {len} bytes long; this store keeps at most {cap}"),
    )
}
