//! Tables in the file beside those of the store, which are made together and have one format: the outbox, the journal of
//! producers.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::error::undone;

/// Tables that are made together.
pub(crate) struct TableSet {
    /// The name of the whole, as in messages: `the outbox`.
    pub(crate) name: &'static str,
    /// The format that this version creates and knows.
    pub(crate) format: i64,
    /// The statements that create the tables.
    pub(crate) sql_to_create: &'static str,
    /// The query for their format.
    pub(crate) sql_for_format: &'static str,
    /// The query for the number of those that are there.
    pub(crate) sql_to_count: &'static str,
}

impl TableSet {
    /// Tells whether the tables are there.
    pub(crate) fn is_in(&self, connection: &Connection) -> Result<bool> {
        let count = connection.query_row(self.sql_to_count, [], |row| row.get::<_, i64>(0));
        Ok(count.map_err(undone)? > 0)
    }

    /// Refuses tables that are there and newer.
    pub(crate) fn check(&self, connection: &Connection) -> Result<()> {
        let found = connection.query_row(self.sql_for_format, [], |row| row.get::<_, i64>(0));
        let (found, known) = (found.map_err(undone)?, self.format);
        if found == known {
            return Ok(());
        }
        let message = format!(
            "{} has format {found}, this version knows {known}; use a newer version",
            self.name
        );
        Err(Error::new(ErrorKind::InvalidConfig, message)
            .with_code(Code::StoreNewer)
            .not_applied())
    }

    /// Creates the tables where there are none, and refuses newer ones.
    pub(crate) fn create(&self, connection: &Connection) -> Result<()> {
        if self.is_in(connection)? {
            return self.check(connection);
        }
        if !connection.is_autocommit() {
            let message =
                "tables are made in a transaction of their own; commit the open one first";
            return Err(Error::new(ErrorKind::InvalidInput, message).not_applied());
        }
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate);
        let transaction = transaction.map_err(undone)?;
        // Another process may have been faster.
        if !self.is_in(&transaction)? {
            let made = transaction.execute_batch(self.sql_to_create);
            made.map_err(undone)?;
        }
        transaction.commit().map_err(undone)
    }
}
