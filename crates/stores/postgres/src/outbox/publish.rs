//! A message in the transaction of a user's own connection.

use deadpool_postgres::tokio_postgres::Transaction;
use semel_core::Result;
use semel_core::outbox::{OutboxId, OutboxMessage, headers_to_json};

use crate::connection::{Cells, Runs};
use crate::driver::Driver;
use crate::error::{corrupt, uncommitted};
use crate::sql::Texts;
use crate::user_connection::UserConnection;

/// Writes messages into the outbox within transactions that the user begins and commits, on the user's own connection
/// to the database: they are published if, and only if, the transaction commits.
///
/// Messages of one order key go out in order of insertion within a transaction and of commit between transactions.
/// Transactions with an order key in common commit one after the other.
///
/// ```no_run
/// # use semel_core::outbox::OutboxMessage;
/// # use semel_store_postgres::PostgresOutbox;
/// # async fn order(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("INSERT INTO orders VALUES ('o-1', 100)", &[]).await?;
/// let paid = OutboxMessage::new("orders", r#"{"order":"o-1","paid":100}"#).ordered_by("o-1");
/// PostgresOutbox::publish(&mut tx, &paid).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PostgresOutbox(());

impl PostgresOutbox {
    /// Writes `message`, and returns the id under which it will be published.
    ///
    /// # Guarantee   published if, and only if, the transaction commits, under this id at every try
    /// # Cost        one statement
    /// # Errors
    /// `InvalidInput`: no stream, a stream of more than 255 bytes, an order key of more than 1,024, a text with U+0000;
    /// `InvalidConfig`: there is no outbox; `Unavailable`; after an error of the server it refuses everything but a
    /// rollback, so nothing was applied
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn publish(
        transaction: &mut Transaction<'_>,
        message: &OutboxMessage,
    ) -> Result<OutboxId> {
        insert(&*transaction, message).await
    }

    /// Does what [`PostgresOutbox::publish`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`PostgresOutbox::publish`].
    ///
    /// # Cancel safety
    /// As [`PostgresOutbox::publish`].
    pub async fn publish_on(driver: &mut impl Driver, message: &OutboxMessage) -> Result<OutboxId> {
        insert(&UserConnection::new(driver), message).await
    }
}

async fn insert<C: Runs>(connection: &C, message: &OutboxMessage) -> Result<OutboxId> {
    message.check()?;
    let id = message.id.map(|id| id.to_string());
    let headers = headers_to_json(&message.headers);
    let order_key = message.order_key.as_deref();
    let payload: &[u8] = &message.payload;
    let text = Texts::outbox_insert_alone();
    let rows = connection
        .rows(
            &text,
            &[&id, &&*message.stream, &order_key, &headers, &payload],
        )
        .await
        .map_err(uncommitted)?;
    let row = rows.first().ok_or_else(|| corrupt("id of an outbox"))?;
    let id: String = row.try_get(0).map_err(uncommitted)?;
    id.parse().map_err(|_| corrupt("id of an outbox"))
}
