//! Support for inboxes and outboxes in transactions of another driver of SQLite, which lends its connection to `rusqlite`.

use rusqlite::ffi;
use semel_core::Error;

use crate::error::undone;
use crate::sql;

/// Turns a transaction into the one that writes, and waits while another is. An inbox that is called after this does
/// not wait.
pub const WRITE_LOCK: &str = sql::WRITE_LOCK;

/// Does the same in a file with an outbox.
pub const OUTBOX_WRITE_LOCK: &str = sql::OUTBOX_WRITE_LOCK;

/// Returns the error for SQLite's answer to [`WRITE_LOCK`] or [`OUTBOX_WRITE_LOCK`], given its extended code and its words.
pub fn refused(code: i32, message: &str) -> Error {
    let error = ffi::Error::new(code);
    undone(rusqlite::Error::SqliteFailure(error, Some(message.into())))
}
