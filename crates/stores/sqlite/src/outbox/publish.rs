//! A message in the transaction of a user's own connection.

use rusqlite::{Connection, ErrorCode, params};
use semel_core::outbox::{OutboxId, OutboxMessage, headers_to_json};
use semel_core::{Error, ErrorKind, Result};

use super::TABLES;
use crate::error::undone;
use crate::sql;
use crate::statements::words;

/// Writes messages into the outbox within transactions that the user begins and commits, on the user's own connection
/// to the file: they are published if, and only if, the transaction commits.
///
/// Messages of one order key go out in order of insertion within a transaction and of commit between transactions.
///
/// ```
/// # use rusqlite::{Connection, TransactionBehavior};
/// # use semel_core::outbox::OutboxMessage;
/// # use semel_store_sqlite::SqliteOutbox;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let mut connection = Connection::open(folder.path().join("shop.db"))?;
/// connection.execute_batch("CREATE TABLE orders (id TEXT PRIMARY KEY, paid INTEGER)")?;
/// SqliteOutbox::create(&connection)?;
///
/// let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
/// tx.execute("INSERT INTO orders VALUES ('o-1', 100)", [])?;
/// let paid = OutboxMessage::new("orders", r#"{"order":"o-1","paid":100}"#).ordered_by("o-1");
/// SqliteOutbox::publish(&tx, &paid)?;
/// tx.commit()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SqliteOutbox(());

impl SqliteOutbox {
    /// Creates the tables of an outbox in the file of `connection`, if there are none.
    ///
    /// # Errors
    /// `InvalidInput` within a transaction; `InvalidConfig`: there is a newer outbox; `Unavailable`: the file cannot be
    /// written
    pub fn create(connection: &Connection) -> Result<()> {
        TABLES.create(connection)
    }

    /// Writes `message`, and returns the id under which it will be published. Without an id of the caller's, one is made:
    /// a `UUIDv7`.
    ///
    /// # Guarantee   published if, and only if, the transaction commits, under this id at every try
    /// # Cost        one statement; waits for another transaction that writes, as long as the `busy_timeout` of the
    /// connection
    /// # Errors
    /// `InvalidInput`: outside of a transaction, what no outbox takes, an id that is there already; `InvalidConfig`: there
    /// is no outbox; `Unavailable` (not applied: roll back and try again)
    pub fn publish(transaction: &Connection, message: &OutboxMessage) -> Result<OutboxId> {
        if transaction.is_autocommit() {
            return Err(invalid(
                "a message is written within a transaction; begin one first",
            ));
        }
        message.check()?;
        let id = message.id.map(|id| id.as_u128().to_be_bytes());
        let mut insert = transaction
            .prepare_cached(sql::OUTBOX_INSERT)
            .map_err(undone)?;
        let values = params![
            id,
            &*message.stream,
            message.order_key.as_deref(),
            headers_to_json(&message.headers),
            &*message.payload,
        ];
        let id = insert.query_row(values, |row| row.get(0));
        match id {
            Ok(id) => Ok(OutboxId::from_u128(u128::from_be_bytes(id))),
            Err(error) if is_constraint(&error) => Err(invalid(&format!(
                "the outbox does not take the message: {}",
                words(&error)
            ))),
            Err(error) => Err(undone(error)),
        }
    }
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

fn invalid(why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, why).not_applied()
}
