//! The tables of the journal: creating them, and reading their format.

use deadpool_postgres::Object;
use semel_core::{Code, Error, ErrorKind, Result};

use crate::connection::{Cells, Runs};
use crate::error::{is_passing, misconfigured, of_commit, uncommitted, undone};
use crate::failure::Failure;
use crate::preflight;
use crate::session::{Session, TRIES, pause};
use crate::sql::quoted;

/// The format of the journal of producers that this version creates and knows.
pub const PRODUCERS_FORMAT: i64 = 1;

/// Makes sure that there is a journal: makes what is missing, if the user may.
pub(super) async fn open(session: &Session, client: &mut Object) -> Result<()> {
    if check(session, client).await? {
        return Ok(());
    }
    preflight::check(session, client).await?;
    if create(session, client, true).await? {
        return Ok(());
    }
    Err(misconfigured(&format!(
        "there is no journal of producers in schema {}, and the user of the store's url may not make one; `semel store \
         migrate --yes` makes it, for a user who may create tables there",
        session.schema
    )))
}

/// Creates the tables where there are none. Where the user may not, or has others under their names, leaves that to the
/// first opening of a producer.
pub(crate) async fn migrate(session: &Session, client: &mut Object) -> Result<()> {
    match format(session, client).await {
        Ok(None) => create(session, client, false).await.map(drop),
        Ok(Some(format)) => known(session, format).map(drop),
        Err(failure) if matches!(failure.answer(), Some(("42501", _))) => Ok(()),
        Err(failure) => Err(undone(failure)),
    }
}

/// Tells whether there is a journal, and refuses a newer one.
pub(super) async fn check(session: &Session, client: &Object) -> Result<bool> {
    match format(session, client).await.map_err(undone)? {
        Some(format) => known(session, format),
        None => Ok(false),
    }
}

/// Reads the format; `None` where there is no journal.
async fn format(session: &Session, client: &Object) -> Result<Option<i64>, Failure> {
    match client.rows(&session.texts.producer_format, &[]).await {
        // Nobody takes its row away.
        Ok(rows) => {
            let read = |row| Cells::try_get(row, 0).unwrap_or(0);
            Ok(Some(rows.first().map_or(0, read)))
        }
        Err(failure) => match failure.answer() {
            Some(("42P01" | "3F000", _)) => Ok(None),
            Some(("42703", _)) => Ok(Some(0)),
            _ => Err(failure),
        },
    }
}

/// Refuses a format that is newer, and what is none.
fn known(session: &Session, format: i64) -> Result<bool> {
    if format == PRODUCERS_FORMAT {
        return Ok(true);
    }
    let schema = &session.schema;
    if format < PRODUCERS_FORMAT {
        return Err(foreign(schema));
    }
    let message = format!(
        "the journal of producers in schema {schema} has format {format}, this version knows {PRODUCERS_FORMAT}; use a \
         newer version"
    );
    Err(Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreNewer)
        .not_applied())
}

fn foreign(schema: &str) -> Error {
    let message = format!(
        "schema {schema} has other tables under the names of ours; name another in store.url"
    );
    Error::new(ErrorKind::Unavailable, message)
        .with_code(Code::StoreForeign)
        .not_applied()
}

/// Creates the tables where they are missing; tells whether they are there. Creates the schema as well if a producer
/// `is_wanted` there, and refuses others' tables.
async fn create(session: &Session, client: &mut Object, is_wanted: bool) -> Result<bool> {
    let mut tries = 0;
    loop {
        match try_create(session, client, is_wanted).await {
            Ok(is_there) => return Ok(is_there),
            Err(Refusal::Answer(failure)) if may_pass(&failure) && tries < TRIES => {
                tries += 1;
                pause(tries).await;
            }
            Err(Refusal::Answer(failure)) => {
                if !matches!(failure.answer(), Some(("42P07" | "42710", _))) {
                    return Err(uncommitted(failure));
                }
                if !is_wanted {
                    return Ok(false);
                }
                return Err(failure.because(foreign(&session.schema)));
            }
            Err(Refusal::Commit(error)) => return Err(error),
        }
    }
}

async fn try_create(
    session: &Session,
    client: &mut Object,
    is_wanted: bool,
) -> Result<bool, Refusal> {
    let texts = &session.texts;
    let transaction = client.transaction().await?;
    let schema = &session.schema;
    transaction.rows(&texts.producer_lock, &[schema]).await?;
    let rows = transaction.rows(&texts.producer_room, &[schema]).await?;
    let Some(row) = rows.first() else {
        return Ok(false);
    };
    let (has_schema, is_there): (bool, bool) = (Cells::try_get(row, 0)?, Cells::try_get(row, 1)?);
    let may_create: bool = Cells::try_get(row, 2)?;
    if is_there || !may_create || !has_schema && !is_wanted {
        return Ok(is_there);
    }
    if !has_schema {
        let make = format!("CREATE SCHEMA {}", quoted(schema));
        transaction.batch_execute(&make).await?;
    }
    let make = &texts.producer_create.sql;
    transaction.batch_execute(make).await?;
    let committed = transaction.commit().await;
    committed.map_err(|error| Refusal::Commit(of_commit(error)))?;
    Ok(true)
}

/// Tells whether somebody else was in the way, perhaps one who made the schema just now.
fn may_pass(failure: &Failure) -> bool {
    is_passing(failure) || matches!(failure.answer(), Some(("42P06" | "23505", _)))
}

/// Reason why the tables were not made.
enum Refusal {
    Answer(Failure),
    Commit(Error),
}

impl From<deadpool_postgres::tokio_postgres::Error> for Refusal {
    fn from(error: deadpool_postgres::tokio_postgres::Error) -> Self {
        Self::Answer(error.into())
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Answer(failure)
    }
}
