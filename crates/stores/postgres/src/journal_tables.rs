//! The tables of a journal beside those of the store: creating them, and reading their format.

use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::Object;
use deadpool_postgres::tokio_postgres::types::ToSql;
use semel_core::producer::{ProducerEntry, ProducerName};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::connection::{Cells, Runs};
use crate::error::{is_passing, misconfigured, of_commit, uncommitted, undone};
use crate::failure::Failure;
use crate::preflight;
use crate::producers::rows::entries;
use crate::session::{Session, Tries};
use crate::sql::{Text, Texts, quoted};

/// The tables of a journal.
pub(crate) struct JournalTables {
    /// The name of the whole, as in messages: `journal of producers`.
    pub(crate) name: &'static str,
    /// The format that this version creates and knows.
    pub(crate) format: i64,
    /// The table that has the format.
    pub(crate) format_table: &'static str,
    /// The statement that reads it.
    pub(crate) text_for_format: fn(&Texts) -> &Text,
    /// The statements that create the tables.
    pub(crate) text_to_create: fn(&Texts) -> &Text,
}

impl JournalTables {
    /// Makes sure that there is a journal: makes what is missing, if the user may.
    pub(crate) async fn open(&self, session: &Session, client: &mut Object) -> Result<()> {
        if self.check(session, client).await? {
            return Ok(());
        }
        preflight::check(session, client).await?;
        if create(self, session, client, true).await? {
            return Ok(());
        }
        Err(misconfigured(&format!(
            "there is no {} in schema {}, and the user of the store's url may not make one; `semel store migrate --yes` \
             makes it, for a user who may create tables there",
            self.name, session.schema
        )))
    }

    /// Creates the tables where there are none. Where the user may not, or has others under their names, leaves that to
    /// the first call that needs them.
    pub(crate) async fn migrate(&self, session: &Session, client: &mut Object) -> Result<()> {
        match format(self, session, client).await {
            Ok(None) => create(self, session, client, false).await.map(drop),
            Ok(Some(format)) => known(self, session, format).map(drop),
            Err(failure) if matches!(failure.answer(), Some(("42501", _))) => Ok(()),
            Err(failure) => Err(undone(failure)),
        }
    }

    /// Tells whether the table with the format is there. Who asks now and then puts no error into the server's log.
    async fn is_there(&self, session: &Session, client: &Object) -> Result<bool> {
        let asked: [&(dyn ToSql + Sync); 2] = [&session.schema, &self.format_table];
        let rows = session
            .run(client, &session.texts.journal_room, &asked)
            .await?;
        let is_there = rows.first().map_or(Ok(false), |row| Cells::try_get(row, 1));
        is_there.map_err(undone)
    }

    /// Tells whether there is a journal, and refuses a newer one.
    pub(crate) async fn check(&self, session: &Session, client: &Object) -> Result<bool> {
        match format(self, session, client).await.map_err(undone)? {
            Some(format) => known(self, session, format),
            None => Ok(false),
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

    /// Returns a connection to a server that has the journal: it is made where it is missing.
    pub(crate) async fn client(&self) -> Result<Object> {
        let mut client = self.session.client().await?;
        if !self.is_found.load(Ordering::Relaxed) {
            self.tables.open(&self.session, &mut client).await?;
            self.is_found.store(true, Ordering::Relaxed);
        }
        Ok(client)
    }

    /// Returns a connection only if there is a journal.
    pub(crate) async fn present(&self) -> Result<Option<Object>> {
        let client = self.session.client().await?;
        if !self.is_found.load(Ordering::Relaxed) {
            let (tables, session) = (self.tables, &self.session);
            if !tables.is_there(session, &client).await? || !tables.check(session, &client).await? {
                return Ok(None);
            }
            self.is_found.store(true, Ordering::Relaxed);
        }
        Ok(Some(client))
    }

    /// Lists a page of the producers, by names that `named` reads; none where there is no journal.
    pub(crate) async fn page(
        &self,
        text: &Text,
        (after, most): (Option<&ProducerName>, u32),
        named: impl Fn(&str) -> Result<ProducerName>,
    ) -> Result<Vec<ProducerEntry>> {
        let Some(client) = self.present().await? else {
            return Ok(Vec::new());
        };
        let after = after.map_or("", ProducerName::as_str);
        let most = i64::from(most.max(1));
        let rows = self.session.run(&client, text, &[&after, &most]).await?;
        entries(&rows, named)
    }

    /// Carries out an order about a producer by its statement; tells whether there is such a producer.
    pub(crate) async fn order(&self, text: &Text, name: &ProducerName) -> Result<bool> {
        let Some(client) = self.present().await? else {
            return Ok(false);
        };
        let rows = self.session.run(&client, text, &[&name.as_str()]).await?;
        Ok(!rows.is_empty())
    }
}

/// Reads the format; `None` where there is no journal.
async fn format(
    tables: &JournalTables,
    session: &Session,
    client: &Object,
) -> Result<Option<i64>, Failure> {
    let text = (tables.text_for_format)(&session.texts);
    match client.rows(text, &[]).await {
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
fn known(tables: &JournalTables, session: &Session, format: i64) -> Result<bool> {
    let (name, newest) = (tables.name, tables.format);
    if format == newest {
        return Ok(true);
    }
    let schema = &session.schema;
    if format < newest {
        return Err(foreign(schema));
    }
    let message = format!(
        "the {name} in schema {schema} has format {format}, this version knows {newest}; use a newer version"
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

/// Creates the tables where they are missing; tells whether they are there. Creates the schema as well if a journal
/// `is_wanted` there, and refuses others' tables.
async fn create(
    tables: &JournalTables,
    session: &Session,
    client: &mut Object,
    is_wanted: bool,
) -> Result<bool> {
    let mut tries = Tries::begin();
    loop {
        match try_create(tables, session, client, is_wanted).await {
            Ok(is_there) => return Ok(is_there),
            Err(Refusal::Answer(failure)) if may_pass(&failure) && tries.are_left() => {
                tries.pause().await;
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
    tables: &JournalTables,
    session: &Session,
    client: &mut Object,
    is_wanted: bool,
) -> Result<bool, Refusal> {
    let texts = &session.texts;
    let transaction = client.transaction().await?;
    let schema = &session.schema;
    transaction.rows(&texts.journal_lock, &[schema]).await?;
    let asked: [&(dyn ToSql + Sync); 2] = [schema, &tables.format_table];
    let rows = transaction.rows(&texts.journal_room, &asked).await?;
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
    let make = &(tables.text_to_create)(texts).sql;
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
