//! A message in the transaction of a user's own connection.

use std::error::Error as _;

use mysql_async::{ServerError, Transaction};
use semel_core::outbox::{OutboxId, OutboxMessage, headers_to_json};
use semel_core::{Error, ErrorKind, Result};

use crate::answer::{fixed, only_of};
use crate::driver::{Driver, Refused};
use crate::error::{DUPLICATE, IS_NULL, corrupt, misconfigured, one_line};
use crate::run::Runs;
use crate::script::{Literal, Script, optional};
use crate::sql::OUTBOX;
use crate::user_connection::UserConnection;

/// Writes messages into the outbox within transactions that the user begins and commits, on the user's own connection
/// to the database: they are published if, and only if, the transaction commits.
///
/// Messages of one order key go out in order of insertion within a transaction and of commit between transactions. A
/// transaction that has written a message of an order key keeps others with that key waiting until its end; two that
/// write several keys in different orders may meet in a deadlock, which the server ends by undoing one of them: it gets
/// `throttled`, and is to be run again from its beginning.
///
/// ```no_run
/// # use semel_core::outbox::OutboxMessage;
/// # use semel_store_mysql::MysqlOutbox;
/// # use semel_store_mysql::mysql_async::{Conn, TxOpts, prelude::Queryable};
/// # async fn order(connection: &mut Conn) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = connection.start_transaction(TxOpts::default()).await?;
/// tx.query_drop("INSERT INTO orders VALUES ('o-1', 100)").await?;
/// let paid = OutboxMessage::new("orders", r#"{"order":"o-1","paid":100}"#).ordered_by("o-1");
/// MysqlOutbox::publish(&mut tx, &paid).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MysqlOutbox(());

impl MysqlOutbox {
    /// Writes `message`, and returns the id under which it will be published. Without an id of the caller's, one is made:
    /// a `UUIDv7`.
    ///
    /// # Guarantee   published if, and only if, the transaction commits, under this id at every try
    /// # Cost        one round trip; waits for another transaction that has written a message of the same order key, as
    /// long as `innodb_lock_wait_timeout`; the payload takes two bytes of a packet for each of its own
    /// # Errors
    /// `InvalidInput`: no stream, one of more than 255 bytes or with a space at its end, an order key of more than 1,024
    /// bytes, a text with U+0000, an id that is there already; `Throttled`: a deadlock, or a lock that does not come
    /// free; `InvalidConfig`: there is no outbox, or its trigger cannot run; `Unavailable`. Nothing is applied: roll back,
    /// and begin again where [`Error::advice`] says so
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn publish(
        transaction: &mut Transaction<'_>,
        message: &OutboxMessage,
    ) -> Result<OutboxId> {
        insert(transaction, message).await
    }

    /// Does what [`MysqlOutbox::publish`] does, on a connection of another driver, which is in a transaction.
    ///
    /// # Errors
    /// As [`MysqlOutbox::publish`].
    ///
    /// # Cancel safety
    /// As [`MysqlOutbox::publish`].
    pub async fn publish_on(driver: &mut impl Driver, message: &OutboxMessage) -> Result<OutboxId> {
        insert(&mut UserConnection(driver), message).await
    }
}

async fn insert<C: Runs>(connection: &mut C, message: &OutboxMessage) -> Result<OutboxId> {
    message.check()?;
    let mut script = Script::default();
    let id = optional(message.id, |id| Literal::bytes(&id.as_u128().to_be_bytes()));
    script.add(&OUTBOX.id, &[&id]);
    let order_key = optional(message.order_key.as_deref(), text);
    let headers = optional(headers_to_json(&message.headers), |it| text(&it));
    let mut payload = Literal::foreign();
    payload.push_bytes(&message.payload);
    let values = [&text(&message.stream), &order_key, &headers, &payload];
    let id = script.add(&OUTBOX.insert, &values) + 1;
    let sets = connection.rows(&script).await.map_err(meant)?;
    let id = fixed(only_of(&sets[id])?, 0)?;
    let id = id.ok_or_else(|| corrupt("id of an outbox"))?;
    Ok(OutboxId::from_u128(u128::from_be_bytes(id)))
}

/// Returns a text for a session whose settings are not ours.
fn text(text: &str) -> Literal {
    let mut literal = Literal::foreign();
    literal.push_text(text);
    literal
}

/// Returns the meaning of a refusal for whoever writes a message.
fn meant(error: Error) -> Error {
    let Some((code, words)) = refusal(&error) else {
        return error;
    };
    let meant = match code {
        CHECK | CHECK_OF_MARIADB if words.contains("semel_outbox_has_its_trigger") => {
            misconfigured(
                "the table semel_outbox has lost its trigger; `semel store migrate --yes` makes it again",
            )
        }
        DEFINER_IS_GONE => misconfigured(&format!(
            "the trigger of semel_outbox runs with the rights of whoever made it, and cannot ({words}); drop the \
             trigger semel_outbox_place, and say `semel store migrate --yes` as a user who stays"
        )),
        CHECK | CHECK_OF_MARIADB | DUPLICATE | IS_NULL | TOO_LONG | NO_TEXT => Error::new(
            ErrorKind::InvalidInput,
            format!("the outbox does not take the message: {words}"),
        )
        .not_applied(),
        _ => return error,
    };
    meant.with_source(error)
}

/// Returns the number and the words of the server's answer, whichever driver got it.
fn refusal(error: &Error) -> Option<(u16, String)> {
    let source = error.source()?;
    if let Some(error) = source.downcast_ref::<ServerError>() {
        return Some((error.code, one_line(&error.message)));
    }
    match source.downcast_ref::<Refused>()? {
        Refused::Answered { code, message, .. } => Some((*code, one_line(message))),
        Refused::Broken(_) => None,
    }
}

const TOO_LONG: u16 = 1406;
const NO_TEXT: u16 = 1366;
const DEFINER_IS_GONE: u16 = 1449;
const CHECK: u16 = 3819;
const CHECK_OF_MARIADB: u16 = 4025;
