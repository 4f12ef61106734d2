//! The tables of the outbox: creating them, and reading their format.

use deadpool_postgres::Object;
use semel_core::{Code, Error, ErrorKind, Result};

use crate::connection::{Cells, Runs};
use crate::error::{misconfigured, of_commit, uncommitted, undone};
use crate::session::Session;

/// The format of the outbox that this version creates and knows.
pub const OUTBOX_FORMAT: i64 = 1;

/// Returns the format of the tables; `None` where there are none.
pub(crate) async fn format(session: &Session, client: &Object) -> Result<Option<i64>> {
    match client.rows(&session.texts.outbox_format, &[]).await {
        Ok(rows) => {
            let format = rows.first().map(|row| Cells::try_get(row, 0));
            format.transpose().map_err(undone)
        }
        Err(error) => match error.answer() {
            Some(("42P01" | "3F000", _)) => Ok(None),
            _ => Err(undone(error)),
        },
    }
}

/// Refuses an outbox that is missing or newer.
pub(crate) async fn check(session: &Session, client: &Object) -> Result<()> {
    match format(session, client).await? {
        Some(OUTBOX_FORMAT) => Ok(()),
        Some(other) => {
            let message = format!(
                "the outbox has format {other}, this version knows {OUTBOX_FORMAT}; use a newer version"
            );
            Err(Error::new(ErrorKind::InvalidConfig, message)
                .with_code(Code::StoreNewer)
                .not_applied())
        }
        None => Err(misconfigured(
            "there is no table semel_outbox where the user of the store's url looks for tables; `semel store migrate \
             --yes` makes one, if that user may create tables there",
        )),
    }
}

/// Creates the tables where there are none. Where the user of the url may not, leaves that to the check of a relay.
pub(crate) async fn create(session: &Session, client: &mut Object) -> Result<()> {
    let texts = &session.texts;
    let transaction = client.transaction().await.map_err(uncommitted)?;
    let locked = transaction
        .rows(&texts.outbox_lock, &[&session.schema])
        .await;
    locked.map_err(uncommitted)?;
    let rows = transaction.rows(&texts.outbox_room, &[]).await;
    let rows = rows.map_err(uncommitted)?;
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let is_there: bool = row.try_get(0).map_err(uncommitted)?;
    let may_create: bool = row.try_get(1).map_err(uncommitted)?;
    if is_there || !may_create {
        return Ok(());
    }
    let made = transaction.batch_execute(&texts.outbox_create.sql).await;
    made.map_err(uncommitted)?;
    transaction.commit().await.map_err(of_commit)
}
