//! The tables of the journal: creating them, and reading their format.

use semel_core::{Code, Error, ErrorKind, Result};

use crate::answer::parsed;
use crate::error::{Failure, foreign, misconfigured};
use crate::pool::PooledConnection;
use crate::preflight::Settings;
use crate::schema::{check_others, lock, unlock};
use crate::script::Script;
use crate::session::Session;

/// The format of the journal of producers that this version creates and knows.
pub const PRODUCERS_FORMAT: i64 = 1;

/// Makes sure that there is a journal: makes what is missing, if the user may.
pub(super) async fn open(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    // A user with all rights could write on a replica.
    Settings::read(session, connection).await?.check()?;
    if check(session, connection).await? {
        return Ok(());
    }
    if create(session, connection).await? {
        return Ok(());
    }
    Err(misconfigured(&format!(
        "there is no journal of producers in tables that begin with {}, and the user of the store's url may not make \
         them; `semel store migrate --yes` makes them, for a user with the right CREATE",
        session.prefix
    )))
}

/// Creates the tables where they are not. Where the user may not, or has others under their names, leaves that to the
/// first opening of a producer.
pub(crate) async fn migrate(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    match format(session, connection).await {
        Ok(None) => match create(session, connection).await {
            Err(error) if error.code() == Code::StoreForeign => Ok(()),
            created => created.map(drop),
        },
        Ok(Some(format)) => known(session, format).map(drop),
        Err(failure) if is_refused(&failure, &LACKS_RIGHT) => Ok(()),
        Err(failure) => Err(failure.uncommitted()),
    }
}

/// Tells whether there is a journal whose making came to its end, and refuses a newer one.
pub(super) async fn check(session: &Session, connection: &mut PooledConnection) -> Result<bool> {
    match format(session, connection).await {
        Ok(Some(format)) => known(session, format),
        Ok(None) => Ok(false),
        Err(failure) => Err(failure.uncommitted()),
    }
}

/// Reads the format; `None` where there is no journal, or where its making broke off.
async fn format(
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<Option<i64>, Failure> {
    let mut script = Script::default();
    script.add(&session.producers.format, &[]);
    let ran = connection.run(&script).await;
    connection.ended();
    match ran {
        Ok(sets) => {
            let row = sets[0].rows.first();
            let read = |row| parsed(row, 0).ok().flatten().unwrap_or(0);
            Ok(row.map(read))
        }
        Err(failure) if is_refused(&failure, &[NO_TABLE]) => Ok(None),
        Err(failure) if is_refused(&failure, &[NO_COLUMN]) => Ok(Some(0)),
        Err(failure) => Err(failure),
    }
}

/// Refuses a format that is newer, and what is none.
fn known(session: &Session, format: i64) -> Result<bool> {
    if format == PRODUCERS_FORMAT {
        return Ok(true);
    }
    if format < PRODUCERS_FORMAT {
        return Err(foreign(&format!(
            "the database has a table {}producer_format that is not a journal's",
            session.prefix
        )));
    }
    let message = format!(
        "the journal of producers has format {format}, this version knows {PRODUCERS_FORMAT}; use a newer version"
    );
    Err(Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreNewer)
        .not_applied())
}

/// Creates the tables, also those of a creation that broke off; tells whether they are there.
async fn create(session: &Session, connection: &mut PooledConnection) -> Result<bool> {
    lock(session, connection, &session.prefix).await?;
    let made = make(session, connection).await;
    unlock(session, connection, &session.prefix, made.is_ok()).await;
    made
}

async fn make(session: &Session, connection: &mut PooledConnection) -> Result<bool> {
    // Whoever had the lock before may have made a journal of any format.
    if check(session, connection).await? {
        return Ok(true);
    }
    let texts = &session.producers;
    check_others(session, connection, &texts.create).await?;
    let mut script = Script::default();
    // Creating tables commits each of them.
    script.add(&texts.create, &[]);
    script.add(&texts.made, &[]);
    match connection.run(&script).await {
        Ok(_) => {
            connection.ended();
            Ok(true)
        }
        Err(failure) if is_refused(&failure, &LACKS_RIGHT) => {
            connection.ended();
            Ok(false)
        }
        Err(failure) => Err(failure.uncommitted()),
    }
}

fn is_refused(failure: &Failure, with: &[u16]) -> bool {
    let refusal = failure.refusal();
    refusal.is_some_and(|error| with.contains(&error.code))
}

const NO_TABLE: u16 = 1146;
const NO_COLUMN: u16 = 1054;
/// Answers to a user who may not make tables.
const LACKS_RIGHT: [u16; 4] = [1044, 1142, 1143, 1227];
