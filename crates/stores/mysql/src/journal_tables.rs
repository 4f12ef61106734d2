//! The tables of a journal beside those of the store: creating them, and reading their format.

use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::producer::{ProducerEntry, ProducerName};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::answer::{Set, parsed};
use crate::error::{Failure, damaged, foreign, misconfigured};
use crate::pool::PooledConnection;
use crate::preflight::Settings;
use crate::producers::rows::entries;
use crate::schema::{check_others, lock, unlock};
use crate::script::{Literal, Script};
use crate::session::Session;
use crate::sql::Text;
use crate::transaction::{end, run_through};

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

/// A journal, whose tables are looked for until they are found.
pub(crate) struct Journal {
    pub(crate) session: Session,
    tables: &'static JournalTables,
    is_found: AtomicBool,
}

impl Journal {
    pub(crate) fn new(session: Session, tables: &'static JournalTables) -> Self {
        Self {
            session,
            tables,
            is_found: AtomicBool::new(false),
        }
    }

    /// Makes sure that there is a journal: it is made where it is missing.
    pub(crate) async fn found(&self) -> Result<()> {
        if !self.is_found.load(Ordering::Relaxed) {
            let mut connection = self.session.connection().await?;
            let opened = self.tables.open(&self.session, &mut connection).await;
            end(&self.session, connection).await;
            opened?;
            self.is_found.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Tells whether there is a journal. The answer is not remembered: that is for [`Journal::found`], which has looked
    /// whether the server takes writes, too.
    pub(crate) async fn is_there(&self) -> Result<bool> {
        if !self.is_found.load(Ordering::Relaxed) {
            let mut connection = self.session.connection().await?;
            let checked = self.tables.check(&self.session, &mut connection).await;
            end(&self.session, connection).await;
            return checked;
        }
        Ok(true)
    }

    /// Runs a transaction that begins with the lock of a producer's row, in one round trip; returns all results.
    pub(crate) async fn write(
        &self,
        (lock, values): (&Text, &[&Literal]),
        statements: impl FnOnce(&mut Script),
    ) -> Result<Vec<Set>> {
        let texts = &self.session.texts;
        let mut script = Script::default();
        script.add(&texts.begin, &[]);
        script.add(lock, values);
        statements(&mut script);
        script.add(&texts.commit, &[]);
        let mut connection = self.session.connection().await?;
        let ran = run_through(&self.session, &mut connection, &script).await;
        end(&self.session, connection).await;
        ran
    }

    /// Lists a page of the producers, by names that `named` reads; none where there is no journal.
    pub(crate) async fn page(
        &self,
        text: &Text,
        (after, most): (Option<&ProducerName>, u32),
        named: impl Fn(&str) -> Result<ProducerName>,
    ) -> Result<Vec<ProducerEntry>> {
        if !self.is_there().await? {
            return Ok(Vec::new());
        }
        let mut script = Script::default();
        let after = after.map_or("", ProducerName::as_str);
        let after = Literal::bytes(after.as_bytes());
        script.add(text, &[&after, &Literal::number(most.max(1).into())]);
        let sets = self.session.ask(&script).await?;
        entries(
            &sets.first().ok_or_else(|| damaged("producer"))?.rows,
            named,
        )
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
