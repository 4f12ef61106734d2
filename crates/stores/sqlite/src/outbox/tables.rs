//! The tables of the outbox: creating them, and reading their format.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::error::{no_outbox, undone};
use crate::sql;

/// The format of the outbox that this version creates and knows.
pub const OUTBOX_FORMAT: i64 = 1;

/// Refuses an outbox that is missing or newer.
pub(super) fn check(connection: &Connection) -> Result<()> {
    if !is_there(connection)? {
        return Err(no_outbox());
    }
    let format = connection.query_row(sql::OUTBOX_FORMAT, [], |row| row.get(0));
    match format.map_err(undone)? {
        OUTBOX_FORMAT => Ok(()),
        other => {
            let message = format!(
                "the outbox has format {other}, this version knows {OUTBOX_FORMAT}; use a newer version"
            );
            Err(Error::new(ErrorKind::InvalidConfig, message)
                .with_code(Code::StoreNewer)
                .not_applied())
        }
    }
}

/// Creates the tables where there are none.
pub(super) fn create(connection: &Connection) -> Result<()> {
    if is_there(connection)? {
        return check(connection);
    }
    if !connection.is_autocommit() {
        let message = "tables are made in a transaction of their own; commit the open one first";
        return Err(Error::new(ErrorKind::InvalidInput, message).not_applied());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let transaction = transaction.map_err(undone)?;
    // Another process may have been faster.
    if !is_there(&transaction)? {
        let made = transaction.execute_batch(sql::OUTBOX_CREATE);
        made.map_err(undone)?;
    }
    transaction.commit().map_err(undone)
}

fn is_there(connection: &Connection) -> Result<bool> {
    let count = connection.query_row(sql::OUTBOX_TABLES, [], |row| row.get::<_, i64>(0));
    Ok(count.map_err(undone)? > 0)
}
