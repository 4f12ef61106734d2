//! The tables of the journal: creating them, and reading their format.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::error::undone;
use crate::sql;

/// The format of the journal that this version creates and knows.
const FORMAT: i64 = 1;

/// Creates the tables where there are none, and refuses newer ones.
pub(super) fn create(connection: &Connection) -> Result<()> {
    if is_there(connection)? {
        return check(connection);
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
    let transaction = transaction.map_err(undone)?;
    // Another process may have been faster.
    if !is_there(&transaction)? {
        let made = transaction.execute_batch(sql::PRODUCER_CREATE);
        made.map_err(undone)?;
    }
    transaction.commit().map_err(undone)
}

fn check(connection: &Connection) -> Result<()> {
    let format: i64 = connection
        .query_row(sql::PRODUCER_FORMAT, [], |row| row.get(0))
        .map_err(undone)?;
    if format == FORMAT {
        return Ok(());
    }
    let message = format!(
        "the journal of producers has format {format}, this version knows {FORMAT}; use a newer version"
    );
    Err(Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreNewer)
        .not_applied())
}

pub(super) fn is_there(connection: &Connection) -> Result<bool> {
    let count = connection.query_row(sql::PRODUCER_TABLES, [], |row| row.get::<_, i64>(0));
    Ok(count.map_err(undone)? > 0)
}
