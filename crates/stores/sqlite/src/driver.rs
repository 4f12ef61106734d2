//! For inboxes in transactions of another driver of SQLite, which lends its connection to `rusqlite`.

use rusqlite::ffi;
use semel_core::Error;

use crate::error::undone;
use crate::sql;

/// Makes a transaction the one that writes, and waits where another is. An inbox that is called after
/// this does not wait.
pub const WRITE_LOCK: &str = sql::WRITE_LOCK;

/// What SQLite's answer to [`WRITE_LOCK`] means: its extended code and its words.
pub fn refused(code: i32, message: &str) -> Error {
    let error = ffi::Error::new(code);
    undone(rusqlite::Error::SqliteFailure(error, Some(message.into())))
}
