//! The tables of a journal beside those of the store: creating them, and reading their format.

use semel_core::{Code, Error, ErrorKind, Result};

use crate::answer::parsed;
use crate::error::{Failure, foreign, misconfigured};
use crate::pool::PooledConnection;
use crate::preflight::Settings;
use crate::schema::{check_others, lock, unlock};
use crate::script::Script;
use crate::session::Session;
use crate::sql::Text;

/// The tables of a journal.
pub(crate) struct JournalTables {
    /// The name of the whole, as in messages: `journal of producers`.
    pub(crate) name: &'static str,
    /// The format that this version creates and knows.
    pub(crate) format: i64,
    /// The table that has the format, without its prefix.
    pub(crate) format_table: &'static str,
    /// The statements about them.
    pub(crate) texts: fn(&Session) -> TableTexts<'_>,
}

/// The statements about the tables of a journal.
pub(crate) struct TableTexts<'s> {
    /// Reads the format.
    pub(crate) format: &'s Text,
    /// Creates the tables.
    pub(crate) create: &'s Text,
    /// Says that all are made.
    pub(crate) made: &'s Text,
}

impl JournalTables {
    /// Makes sure that there is a journal: makes what is missing, if the user may.
    pub(crate) async fn open(
        &self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<()> {
        // A user with all rights could write on a replica.
        Settings::read(session, connection).await?.check()?;
        if self.check(session, connection).await? {
            return Ok(());
        }
        if create(self, session, connection).await? {
            return Ok(());
        }
        Err(misconfigured(&format!(
            "there is no {} in tables that begin with {}, and the user of the store's url may not make them; `semel store \
             migrate --yes` makes them, for a user with the right CREATE",
            self.name, session.prefix
        )))
    }

    /// Creates the tables where they are not. Where the user may not, or has others under their names, leaves that to the
    /// first call that needs them.
    pub(crate) async fn migrate(
        &self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<()> {
        match format(self, session, connection).await {
            Ok(None) => match create(self, session, connection).await {
                Err(error) if error.code() == Code::StoreForeign => Ok(()),
                created => created.map(drop),
            },
            Ok(Some(format)) => known(self, session, format).map(drop),
            Err(failure) if is_refused(&failure, &LACKS_RIGHT) => Ok(()),
            Err(failure) => Err(failure.uncommitted()),
        }
    }

    /// Tells whether there is a journal whose making came to its end, and refuses a newer one.
    pub(crate) async fn check(
        &self,
        session: &Session,
        connection: &mut PooledConnection,
    ) -> Result<bool> {
        match format(self, session, connection).await {
            Ok(Some(format)) => known(self, session, format),
            Ok(None) => Ok(false),
            Err(failure) => Err(failure.uncommitted()),
        }
    }
}

/// Reads the format; `None` where there is no journal, or where its making broke off.
async fn format(
    tables: &JournalTables,
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<Option<i64>, Failure> {
    let mut script = Script::default();
    script.add((tables.texts)(session).format, &[]);
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
fn known(tables: &JournalTables, session: &Session, format: i64) -> Result<bool> {
    let (name, newest) = (tables.name, tables.format);
    if format == newest {
        return Ok(true);
    }
    if format < newest {
        return Err(foreign(&format!(
            "the database has a table {}{} that is not a journal's",
            session.prefix, tables.format_table
        )));
    }
    let message =
        format!("the {name} has format {format}, this version knows {newest}; use a newer version");
    Err(Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreNewer)
        .not_applied())
}

/// Creates the tables, also those of a creation that broke off; tells whether they are there.
async fn create(
    tables: &JournalTables,
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<bool> {
    lock(session, connection, &session.prefix).await?;
    let made = make(tables, session, connection).await;
    unlock(session, connection, &session.prefix, made.is_ok()).await;
    made
}

async fn make(
    tables: &JournalTables,
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<bool> {
    // Whoever had the lock before may have made a journal of any format.
    if tables.check(session, connection).await? {
        return Ok(true);
    }
    let texts = (tables.texts)(session);
    check_others(session, connection, texts.create).await?;
    let mut script = Script::default();
    // Creating tables commits each of them.
    script.add(texts.create, &[]);
    script.add(texts.made, &[]);
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
