//! Inspection of a file that changes nothing: is it there, is it ours, would it take these statements.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use semel_core::port::store::Capabilities;
use semel_core::port::transactional::Statements;
use semel_core::{Error, Result};

use crate::config::Options;
use crate::error::undone;
use crate::opened_files::OpenedFiles;
use crate::{open, preflight, statements};

/// State of a file, seen without opening it as a store.
#[derive(Debug)]
pub struct Inspection {
    /// Set if it holds a store; if not, opening it creates one beside its contents.
    pub is_store: bool,
    /// The format of that store; opening it brings an older one forward to [`FORMAT`](crate::FORMAT).
    pub format: Option<i64>,
    /// Promises of a store there.
    pub capabilities: Capabilities,
    /// Reasons why the database refuses the statements; `None` for one that it takes.
    pub refused: Vec<Option<Error>>,
}

/// Looks at the file at `path`; returns `None` if there is none, or an empty one. One that this process has open is looked
/// at by SQLite alone, as by [`inspect_opened`].
///
/// # Errors
///
/// As [`SqliteStore::open`](crate::SqliteStore::open): `store-foreign`, `store-newer`,
/// `store-unavailable`.
pub fn inspect(path: &Path, statements: &[Statements]) -> Result<Option<Inspection>> {
    let path = &*open::absolute(path)?;
    open::look_at(path)?;
    if std::fs::metadata(path).map_or(0, |found| found.len()) == 0 {
        return Ok(None);
    }
    let opened = OpenedFiles::lock();
    if !may_be_unused(path) || opened.has(path) {
        drop(opened);
        return look(path, uri(path, false), statements).map(Some);
    }
    // Nobody in this process opens it before this handle, which takes no locks, is closed.
    look(path, uri(path, true), statements).map(Some)
}

/// Looks at a file that this process has open as a store. SQLite alone opens it, and in its own way: a handle beside it,
/// and one that takes no locks, would drop those of this process when they are closed, where the file has no write-ahead
/// log.
///
/// # Errors
///
/// As [`inspect`]
pub fn inspect_opened(path: &Path, statements: &[Statements]) -> Result<Inspection> {
    let path = &*open::absolute(path)?;
    look(path, uri(path, false), statements)
}

fn look(path: &Path, uri: OsString, statements: &[Statements]) -> Result<Inspection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(uri, flags)
        .and_then(|connection| {
            connection.busy_timeout(Options::default().busy_timeout)?;
            Ok(connection)
        })
        .map_err(|error| open::at_path(undone(error), path))?;
    let is_store = open::has_tables(&connection).map_err(|error| open::at_path(error, path))?;
    let format = if is_store {
        Some(open::check_format(&connection)?)
    } else {
        None
    };
    let refused = statements
        .iter()
        .map(|statements| statements::prepare(&connection, statements).err())
        .collect();
    Ok(Inspection {
        is_store,
        format,
        capabilities: preflight::of_path(path),
        refused,
    })
}

/// Tells whether no process may be using a file: there is no journal beside it.
fn may_be_unused(path: &Path) -> bool {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        Path::new(&name).exists()
    };
    !beside("-wal") && !beside("-journal")
}

/// Returns the path for SQLite, which need not leave files of its own beside a file that nobody uses.
fn uri(path: &Path, is_unused: bool) -> OsString {
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'?' | b'#' | b'%' => uri.extend_from_slice(format!("%{byte:02x}").as_bytes()),
            byte => uri.push(byte),
        }
    }
    if is_unused {
        uri.extend_from_slice(b"?immutable=1");
    }
    OsString::from_vec(uri)
}
