//! Creating the tables, and reading their format.

use deadpool_postgres::Object;
use deadpool_postgres::tokio_postgres::error::SqlState;
use semel_core::{Code, Error, ErrorKind, Result};

use crate::FORMAT;
use crate::connection::Runs;
use crate::error::{is_passing, uncommitted, undone};
use crate::session::{Session, Tries};
use crate::sql::quoted;

/// Returns the format of the tables; `None` where there are none.
pub(crate) async fn format(session: &Session, client: &Object) -> Result<Option<i64>> {
    match client.rows(&session.texts.format, &[]).await {
        Ok(rows) => match rows.first().map(|row| row.try_get(0)) {
            Some(Ok(format)) => Ok(Some(format)),
            Some(Err(_)) | None => Err(foreign(&session.schema)),
        },
        Err(error) => match error.answer().map(|(state, _)| state.to_owned()).as_deref() {
            Some("42P01" | "3F000") => Ok(None),
            Some("42703") => Err(foreign(&session.schema)),
            _ => Err(undone(error)),
        },
    }
}

/// Makes sure that there are tables of the newest format; creates missing ones if `is_wanted`. Only the `migrate`
/// command brings older ones forward, since a server serves others, too.
pub(crate) async fn open(session: &Session, client: &mut Object, is_wanted: bool) -> Result<()> {
    match check(session, client).await? {
        Some(FORMAT) => Ok(()),
        Some(older) => Err(outdated(&session.schema, older)),
        None if is_wanted => create(session, client).await,
        None => Err(absent(&session.schema)),
    }
}

/// Refuses tables that this version cannot read; returns their format if they are there.
pub(crate) async fn check(session: &Session, client: &Object) -> Result<Option<i64>> {
    match format(session, client).await? {
        None => Ok(None),
        Some(known @ OLDEST..=FORMAT) => Ok(Some(known)),
        Some(newer) if newer > FORMAT => Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "the tables in schema {} have format {newer}, this version knows {FORMAT}; use a newer version",
                session.schema
            ),
        )
        .with_code(Code::StoreNewer)
        .not_applied()),
        Some(_) => Err(foreign(&session.schema)),
    }
}

/// Creates schema and tables, or brings them forward, unless another process just has.
pub(crate) async fn create(session: &Session, client: &mut Object) -> Result<()> {
    let mut tries = Tries::begin();
    loop {
        match try_create(session, client).await {
            Ok(()) => return Ok(()),
            Err(error) if is_passing(&error) && tries.are_left() => tries.pause().await,
            // Two processes that create a schema at once: one of them meets the other's.
            Err(_) if check(session, client).await? == Some(FORMAT) => return Ok(()),
            Err(error) if error.code().is_some_and(|state| TAKEN.contains(state)) => {
                let message = format!(
                    "schema {} has other tables under the names of ours; name another in store.url",
                    session.schema
                );
                return Err(Error::new(ErrorKind::Unavailable, message)
                    .with_code(Code::StoreForeign)
                    .with_source(error)
                    .not_applied());
            }
            Err(error) => return Err(uncommitted(error)),
        }
    }
}

async fn try_create(
    session: &Session,
    client: &mut Object,
) -> Result<(), deadpool_postgres::tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    let schema = &*session.schema;
    transaction
        .execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('semel store ' || $1::text, 0))",
            &[&schema],
        )
        .await?;
    let is_there = "SELECT to_regnamespace(quote_ident($1::text)) IS NOT NULL, \
                    to_regclass(quote_ident($1::text) || '.meta') IS NOT NULL";
    let row = transaction.query_one(is_there, &[&schema]).await?;
    let (has_schema, has_tables): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    if !has_schema {
        let make = format!("CREATE SCHEMA {}", quoted(schema));
        transaction.batch_execute(&make).await?;
    }
    if !has_tables {
        transaction.batch_execute(&session.texts.create.sql).await?;
    } else if let Some(row) = transaction
        .query_opt(&*session.texts.format.sql, &[])
        .await?
        && row.try_get::<_, i64>(0)? == OLDEST
    {
        transaction
            .batch_execute(&session.texts.migrate_2.sql)
            .await?;
    }
    transaction.commit().await
}

/// Error for a store that does not exist yet.
fn absent(schema: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("there is no store in schema {schema}; `semel store migrate --yes` makes one"),
    )
    .not_applied()
}

/// Error for a store that an older version created.
fn outdated(schema: &str, format: i64) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the tables in schema {schema} have format {format}, this version works with {FORMAT}; `semel store \
             migrate --yes` brings them forward"
        ),
    )
    .not_applied()
}

fn foreign(schema: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "schema {schema} has a table `meta` that is not a store's; name another in store.url"
        ),
    )
    .with_code(Code::StoreForeign)
    .not_applied()
}

/// The oldest format that can be brought forward.
const OLDEST: i64 = 1;
/// Errors of a table, sequence or view that is there already.
const TAKEN: [SqlState; 2] = [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
