//! Opens a file, and checks whether it is ours, may be written, and has a known format.

use std::fs;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior,
};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::config::Options;
use crate::error::{foreign, full, undone};
use crate::opened_files::OpenedFiles;
use crate::sql;

/// The newest format that this code reads, and the one that it writes.
pub(crate) const FORMAT: i64 = 3;

/// Opens the file for writing, and creates our tables in it if it has none.
pub(crate) fn writer(path: &Path, options: &Options) -> Result<Connection> {
    look_at(path)?;
    make_private(path);
    let connection = connect(path, options)?;
    if connection.is_readonly("main").map_err(undone)? {
        return Err(read_only(path));
    }
    let journal = use_write_ahead_log(&connection, options.busy_timeout);
    // A file of another kind shows itself here; one that cannot have such a log is still durable.
    journal.map_err(|error| not_opened(error, path))?;
    let set = |name: &str, value: i64| connection.pragma_update(None, name, value).map_err(undone);
    let page_bytes: i64 = connection
        .pragma_query_value(None, "page_size", |row| row.get(0))
        .map_err(undone)?;
    let log_bytes = i64::try_from(options.log_bytes).unwrap_or(i64::MAX);
    set("wal_autocheckpoint", (log_bytes / page_bytes.max(1)).max(1))?;
    if let Some(bytes) = options.max_file_bytes {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        set("max_page_count", (bytes / page_bytes.max(1)).max(1))?;
    }
    prepare_tables(&connection).map_err(|error| at_path(error, path))?;
    Ok(connection)
}

/// Opens the file for reading lists.
pub(crate) fn reader(path: &Path, options: &Options) -> Result<Connection> {
    let connection = connect(path, options)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(undone)?;
    Ok(connection)
}

/// Opens a file that is there, for what its tables are not needed for. SQLite alone opens it: this process may have
/// connections to it.
pub(crate) fn existing(path: &Path, options: &Options) -> Result<Connection> {
    connect_with(path, options, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Opens a file with a store of this format as it is: neither its tables nor its journal are changed.
///
/// # Errors   `InvalidConfig`: no store, or an older one; `store-foreign`, `store-newer`, `store-unavailable`
pub(crate) fn as_is(path: &Path, options: &Options) -> Result<Connection> {
    let connection = existing(path, options)?;
    let format = if has_tables(&connection)? {
        check_format(&connection)?
    } else {
        0
    };
    if format == FORMAT {
        return Ok(connection);
    }
    let message = format!(
        "{} has no store of format {FORMAT}; `semel store migrate` makes it, or brings it forward",
        path.display()
    );
    Err(Error::new(ErrorKind::InvalidConfig, message).not_applied())
}

/// Returns the path as SQLite takes it for a plain file, whatever its name begins with.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| {
        Error::new(
            ErrorKind::InvalidConfig,
            "the path of the database file is empty",
        )
        .with_source(error)
    })
}

/// Creates our tables where there are none, brings older ones forward, and refuses those that this code cannot keep to.
pub(crate) fn prepare_tables(connection: &Connection) -> Result<()> {
    if has_tables(connection)? && check_format(connection)? == FORMAT {
        return Ok(());
    }
    if !connection.is_autocommit() {
        let message = "tables are made in a transaction of their own; commit the open one first";
        return Err(Error::new(ErrorKind::InvalidInput, message).not_applied());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let transaction = transaction.map_err(undone)?;
    // Another process may have been faster.
    if !has_tables(&transaction)? {
        transaction.execute_batch(sql::CREATE).map_err(undone)?;
    }
    for (format, migration) in (1..).zip([sql::MIGRATE_2, sql::MIGRATE_3]) {
        if check_format(&transaction)? != format {
            continue;
        }
        let migrated = transaction.execute_batch(migration);
        migrated.map_err(|error| match error.sqlite_error_code() {
            // No such table, or one with these columns already.
            Some(rusqlite::ErrorCode::Unknown) => foreign(&format!(
                "the file says that it is a store of format {format}, but its tables are not of that format",
            )),
            _ => undone(error),
        })?;
    }
    transaction.commit().map_err(undone)
}

pub(crate) fn has_tables(connection: &Connection) -> Result<bool> {
    let (ours, meta): (i64, i64) = connection
        .query_row(sql::META_TABLES, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(undone)?;
    if ours > 0 && meta == 0 {
        return Err(foreign(
            "the file has tables that begin with semel_ but are not this store's",
        ));
    }
    Ok(meta > 0)
}

/// Returns the format of our tables, which this code reads, though perhaps only after it was brought forward.
pub(crate) fn check_format(connection: &Connection) -> Result<i64> {
    let format = connection.prepare(sql::META_GET).and_then(|mut get| {
        get.query_row(["format"], |row| row.get::<_, Value>(0))
            .optional()
    });
    match format {
        Ok(Some(Value::Integer(format @ 1..=FORMAT))) => Ok(format),
        Ok(Some(Value::Integer(newer))) if newer > FORMAT => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the store has format {newer}, this version reads up to {FORMAT}; update semel"
            ),
        )
        .with_code(Code::StoreNewer)),
        // No such row, another kind of value, or no such column.
        Ok(_) | Err(rusqlite::Error::SqlInputError { .. }) => Err(foreign(
            "the file has a table semel_meta that is not this store's",
        )),
        Err(error) => Err(undone(error)),
    }
}

fn connect(path: &Path, options: &Options) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    connect_with(path, options, flags)
}

fn connect_with(path: &Path, options: &Options, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = {
        // Nobody looks at it beside SQLite meanwhile. It takes no lock before its first statement.
        let _opened = OpenedFiles::lock();
        let connection = Connection::open_with_flags(path, flags);
        connection.map_err(|error| not_opened(error, path))?
    };
    connection
        .busy_timeout(options.busy_timeout)
        .map_err(undone)?;
    connection.set_prepared_statement_cache_capacity(128);
    let kibibytes = i64::try_from(options.cache_bytes / 1024).unwrap_or(i64::MAX);
    let settings: [(&str, i64); 4] = [
        // Negative: in KiB.
        ("cache_size", -kibibytes),
        ("synchronous", SYNCHRONOUS_FULL),
        // Only macOS knows these: there, a plain flush leaves the data in the drive.
        ("fullfsync", 1),
        ("checkpoint_fullfsync", 1),
    ];
    for (name, value) in settings {
        connection
            .pragma_update(None, name, value)
            .map_err(|error| not_opened(error, path))?;
    }
    Ok(connection)
}

/// Switches the file to a write-ahead log. Two processes that open a new file at once meet here, and SQLite does not
/// wait for this lock.
fn use_write_ahead_log(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let mut tries = patience.as_millis() / PAUSE.as_millis();
    loop {
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy)
                    && tries > 0 =>
            {
                tries -= 1;
                std::thread::sleep(PAUSE);
            }
            mode => return mode.map(drop),
        }
    }
}

/// Creates a missing file for its owner alone; SQLite gives its log the same rights. If this fails, SQLite reports why.
fn make_private(path: &Path) {
    let _ = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
}

/// Tells whether somebody has the file open as a database with a write-ahead log. To open it beside SQLite and to close
/// it again would take away the locks of this process, and a program with an older SQLite could remove the log then.
fn is_open_somewhere(path: &Path) -> bool {
    let mut shared = path.as_os_str().to_owned();
    shared.push("-shm");
    Path::new(&shared).exists()
}

/// Reports the faults that can be found without SQLite, in plainer words than its own.
pub(crate) fn look_at(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    if !folder.is_dir() {
        let message = format!(
            "there is no folder {} for the database file; create it or correct store.url",
            folder.display()
        );
        return Err(Error::new(ErrorKind::Unavailable, message).not_applied());
    }
    let opened = OpenedFiles::lock();
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Err(foreign(&format!("{} is a folder", path.display()))),
        Ok(found) if found.len() > 0 && !is_open_somewhere(path) && !opened.has(path) => {
            let mut start = [0; MAGIC.len()];
            let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
            match read {
                Ok(()) if start == *MAGIC => Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    let message =
                        format!("{} cannot be read; check its permissions", path.display());
                    Err(Error::new(ErrorKind::Unavailable, message)
                        .not_applied()
                        .with_source(error))
                }
                Ok(()) | Err(_) => Err(foreign(&format!(
                    "{} is not an SQLite database",
                    path.display()
                ))),
            }
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns the error for a file that SQLite cannot open, with the system's reason, since SQLite gives none.
fn not_opened(error: rusqlite::Error, path: &Path) -> Error {
    let tried = if path.exists() {
        // Not opened, for the sake of the locks of this process.
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(std::io::Error::from)
    } else {
        let made = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path);
        // It was not there, and is not to be.
        made.map(|_| drop(fs::remove_file(path)))
    };
    match tried.err().map(|error| error.kind()) {
        Some(std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem) => {
            read_only(path).with_source(error)
        }
        Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded) => {
            at_path(full().with_source(error), path)
        }
        Some(_) | None => at_path(undone(error), path),
    }
}

/// Returns whether a full disk is behind a failure of SQLite, which reports a disk failure where the index of the log
/// cannot grow, and a file that cannot be opened where none can be created beside the database.
fn is_for_want_of_room(failed: Option<ErrorCode>, room: impl FnOnce() -> Option<Room>) -> bool {
    matches!(
        failed,
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen)
    ) && room().is_some_and(|room| room.bytes < LEAST_BYTES || room.files == Some(0))
}

/// Free room of a file system.
struct Room {
    bytes: u64,
    /// Files that can still be created, where they are counted.
    files: Option<u64>,
}

impl Room {
    fn of(folder: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(folder).ok()?;
        Some(Self {
            bytes: disk.f_bavail.saturating_mul(disk.f_frsize),
            files: (disk.f_files > 0).then_some(disk.f_favail),
        })
    }
}

fn read_only(path: &Path) -> Error {
    let message = format!(
        "{} cannot be written; check its permissions and mount",
        path.display()
    );
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::StoreReadOnly)
        .not_applied()
}

/// Returns the same error, naming the file.
pub(crate) fn at_path(error: Error, path: &Path) -> Error {
    let folder = path.parent().unwrap_or(path);
    let source = std::error::Error::source(&error);
    let failed = source
        .and_then(|source| source.downcast_ref::<rusqlite::Error>())
        .and_then(rusqlite::Error::sqlite_error_code);
    let error = if is_for_want_of_room(failed, || Room::of(folder)) {
        full().with_source(error)
    } else {
        error
    };
    let named = Error::new(
        error.kind(),
        format!("cannot open {}: {error}", path.display()),
    )
    .with_code(error.code())
    .not_applied();
    match error.advice() {
        semel_core::Advice::Retry { after } => named.retry_after(after).with_source(error),
        semel_core::Advice::Fix
        | semel_core::Advice::LookUpFirst
        | semel_core::Advice::Stop
        | semel_core::Advice::Alarm => named.with_source(error),
    }
}

/// Room for the index of a log, which grows by half of that.
const LEAST_BYTES: u64 = 64 << 10;
/// Pause between two tries to switch the journal.
const PAUSE: Duration = Duration::from_millis(5);
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// `PRAGMA synchronous`: every commit reaches the disk before its answer.
pub(crate) const SYNCHRONOUS_FULL: i64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_a_missing_right() {
        let room = |bytes, files| Some(Room { bytes, files });
        let (failed, closed) = (ErrorCode::SystemIoFailure, ErrorCode::CannotOpen);
        let is_full = |failed, room: Option<Room>| is_for_want_of_room(failed, || room);
        for (expected, found) in [
            // The index of the log cannot grow.
            (true, is_full(Some(failed), room(4_096, Some(9)))),
            // No file can be made beside the database.
            (true, is_full(Some(closed), room(1 << 30, Some(0)))),
            (false, is_full(Some(failed), room(1 << 30, Some(9)))),
            (false, is_full(Some(closed), room(1 << 30, None))),
            (false, is_full(Some(ErrorCode::NotADatabase), room(0, None))),
            (false, is_full(None, room(0, None))),
            (false, is_full(Some(closed), None)),
        ] {
            assert_eq!(found, expected);
        }
    }
}
