//! Meaning of SQLite's failures: kind, code, certainty and advice.

use std::time::Duration;

use rusqlite::ErrorCode;
use rusqlite::ffi;
use semel_core::{Code, Error, ErrorKind};

/// Error for a failure before the commit: the transaction is undone, so surely nothing was applied.
pub(crate) fn undone(error: rusqlite::Error) -> Error {
    classify(error).not_applied()
}

/// Error for a failure of the commit itself: undone for sure, undone by SQLite while something may
/// have reached the disk, or unknown. `open` says that the transaction is still there.
pub(crate) fn of_commit(error: rusqlite::Error, open: bool) -> Error {
    let refused = matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::ConstraintViolation)
    );
    let error = classify(error);
    if open && refused {
        return error.not_applied();
    }
    // A failed write or flush of the log can leave a whole commit in it, which a recovery finds.
    Error::new(error.kind(), error.to_string())
        .with_code(error.code())
        .with_source(error)
}

/// Returns whether nothing may be written any more: a flush failed, and the next one would lie.
pub(crate) fn is_failed_flush(error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    matches!(
        extended,
        Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC)
    )
}

/// Error for every write after a failed flush.
pub(crate) fn poisoned() -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "a flush of the database file failed earlier; check the disk, then start again",
    )
    .not_applied()
}

/// Error for a thread that owned the connection and is gone.
pub(crate) fn gone() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the thread of the database file is gone; start again",
    )
}

/// Error for a thread that the system does not start.
pub(crate) fn no_thread(error: std::io::Error) -> Error {
    let message = "cannot start a thread for the database file";
    Error::new(ErrorKind::Unavailable, message)
        .not_applied()
        .with_source(error)
}

/// Error for a file without the tables of an outbox.
pub(crate) fn no_outbox() -> Error {
    let message = "there is no table semel_outbox in the database file; `semel store migrate --yes` makes one";
    Error::new(ErrorKind::InvalidConfig, message).not_applied()
}

/// Error for a stored row that does not hold what it must.
pub(crate) fn corrupt(what: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("a stored {what} does not check out; restore the file from a backup"),
    )
}

/// Classifies SQLite's codes; the only place that knows them. An unclassified one is our bug, maybe
/// applied.
fn classify(error: rusqlite::Error) -> Error {
    if is_failed_flush(&error) {
        return poisoned_now(error);
    }
    let unavailable = |message: &str| Error::new(ErrorKind::Unavailable, message);
    let classified = match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => unavailable(
            "the database file is busy: another process is writing; try again or raise busy_timeout",
        )
        .not_applied()
        .retry_after(Duration::from_millis(200)),
        Some(ErrorCode::DiskFull) => full(),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            unavailable("the database file cannot be written; check its permissions and mount")
                .with_code(Code::StoreReadOnly)
                .not_applied()
        }
        Some(ErrorCode::CannotOpen) => {
            unavailable("the database file cannot be opened; check its folder and permissions")
                .not_applied()
        }
        Some(ErrorCode::NotADatabase) => foreign("the file is not an SQLite database"),
        Some(ErrorCode::DatabaseCorrupt) => Error::new(
            ErrorKind::Corrupt,
            "the database file is damaged; restore it from a backup",
        ),
        Some(ErrorCode::SystemIoFailure) => {
            unavailable("reading or writing the database file failed; check the disk")
        }
        Some(ErrorCode::OutOfMemory) => unavailable("not enough memory for the database file"),
        Some(ErrorCode::SchemaChanged) => {
            Error::new(ErrorKind::Conflict, "the tables changed meanwhile; try again")
        }
        _ if error.to_string().contains("no such table: semel_outbox") => no_outbox(),
        _ if error.to_string().contains("no such table: semel_meta") => Error::new(
            ErrorKind::InvalidConfig,
            "the file does not have this store's tables; open a store or an inbox on it first",
        )
        .not_applied(),
        _ => Error::new(ErrorKind::Internal, "the database refused a statement of this store"),
    };
    classified.with_source(error)
}

/// Error for a disk without room for the file, or for the files that SQLite keeps beside it.
pub(crate) fn full() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the disk under the database file is full; free some space",
    )
    .with_code(Code::StoreFull)
    .retry_after(Duration::from_secs(5))
}

/// Error for a file that is not ours to use.
pub(crate) fn foreign(why: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{why}; name another file in store.url"),
    )
    .with_code(Code::StoreForeign)
    .not_applied()
}

fn poisoned_now(error: rusqlite::Error) -> Error {
    Error::new(
        ErrorKind::Poisoned,
        "a flush of the database file failed; check the disk, then start again",
    )
    .with_source(error)
}

#[cfg(test)]
mod tests {
    use semel_core::{Advice, Certainty};

    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_commit_is_three_valued() {
        let busy = of_commit(failure(ffi::SQLITE_BUSY), true);
        assert_eq!(busy.certainty(), Certainty::NotApplied);
        let broken = of_commit(failure(ffi::SQLITE_IOERR_WRITE), false);
        assert_eq!(broken.certainty(), Certainty::MaybeApplied);
        assert_eq!(broken.advice(), Advice::LookUpFirst);
        let full = of_commit(failure(ffi::SQLITE_FULL), false);
        assert_eq!(
            (full.code(), full.certainty()),
            (Code::StoreFull, Certainty::MaybeApplied)
        );
    }

    #[test]
    fn every_code_that_people_meet_has_its_own() {
        for (code, expected) in [
            (ffi::SQLITE_FULL, Code::StoreFull),
            (ffi::SQLITE_READONLY, Code::StoreReadOnly),
            (ffi::SQLITE_CANTOPEN, Code::StoreUnavailable),
            (ffi::SQLITE_NOTADB, Code::StoreForeign),
            (ffi::SQLITE_CORRUPT, Code::RecordCorrupt),
            (ffi::SQLITE_BUSY, Code::StoreUnavailable),
            (ffi::SQLITE_IOERR_FSYNC, Code::StorePoisoned),
            (ffi::SQLITE_MISUSE, Code::Internal),
        ] {
            assert_eq!(
                undone(failure(code)).code(),
                expected,
                "SQLite's code {code}"
            );
        }
    }
}
