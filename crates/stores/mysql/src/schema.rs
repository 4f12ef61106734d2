//! Creating the tables, and checking that existing ones are ours and fit to be used.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mysql_async::Row;
use semel_core::{Code, Error, ErrorKind, Result};

use crate::FORMAT;
use crate::answer::{only, some_number, some_text, text};
use crate::error::{Failure, foreign, misconfigured};
use crate::pool::PooledConnection;
use crate::script::{Literal, Script};
use crate::session::{Session, ask};
use crate::sql::Text;

/// Returns the format of the tables; `None` where there are none, or where their creation broke off. Tables that claim
/// a format whose column they lack are of the one before.
pub(crate) async fn format(
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<Option<i64>> {
    let tables = tables(session, connection).await?;
    let meta = format!("{}meta", session.prefix);
    if tables.is_empty() {
        return Ok(None);
    }
    if !tables.contains_key(&meta) {
        return Err(foreign(&format!(
            "the database has tables that begin with {} but are not a store's",
            session.prefix
        )));
    }
    let mut script = Script::default();
    script.add(&session.texts.format, &[]);
    match connection.run(&script).await {
        Ok(sets) => {
            connection.ended();
            let format = sets[0].rows.first().map(|row| some_number(row, 0));
            match format {
                None => Ok(None),
                Some(Ok(2)) if lacks_members(session, connection).await? => Ok(Some(1)),
                Some(Ok(format)) => Ok(Some(format.try_into().unwrap_or(i64::MAX))),
                Some(Err(_)) => Err(foreign_meta(&meta)),
            }
        }
        Err(failure)
            if failure
                .refusal()
                .is_some_and(|error| error.code == NO_COLUMN) =>
        {
            Err(foreign_meta(&meta))
        }
        Err(failure) => Err(failure.uncommitted()),
    }
}

/// Refuses tables that this version cannot read or must not use; returns their format if they are there.
pub(crate) async fn check(
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<Option<i64>> {
    match format(session, connection).await? {
        None => Ok(None),
        Some(FORMAT) => {
            check_tables(session, connection).await?;
            Ok(Some(FORMAT))
        }
        Some(older @ OLDEST..FORMAT) => Ok(Some(older)),
        Some(newer) if newer > FORMAT => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the tables that begin with {} have format {newer}, this version reads up to {FORMAT}; \
                 update semel",
                session.prefix
            ),
        )
        .with_code(Code::StoreNewer)),
        Some(_) => Err(foreign_meta(&format!("{}meta", session.prefix))),
    }
}

/// Refuses tables in an engine without transactions, and columns that take different texts for one.
pub(crate) async fn check_tables(
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<()> {
    check_tables_of(FORMAT, session, connection).await
}

/// Does the same for tables of a format that may be older.
async fn check_tables_of(
    format: i64,
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<()> {
    let found = tables(session, connection).await?;
    for table in session.tables() {
        let Some(engine) = found.get(&table) else {
            return Err(misconfigured(&format!(
                "table {table} of the store is missing; restore it from a backup"
            )));
        };
        check_engine(&table, engine)?;
    }
    let found = columns(session, connection).await?;
    for (column, is_text) in expected(format, &session.texts.create) {
        let name = format!("{}.{}", column.0, column.1);
        match (found.get(&column), is_text) {
            (None, _) => {
                return Err(foreign(&format!(
                    "the store's tables have no column {name}, so that they are not of this format"
                )));
            }
            (Some(None), false) => {}
            (Some(Some(collation)), true) if collation == "utf8mb4_bin" => {}
            (Some(collation), true) => {
                let collation = collation.as_deref().unwrap_or("none");
                return Err(misconfigured(&format!(
                    "column {name} has the collation {collation}, but needs utf8mb4_bin; alter it back"
                )));
            }
            (Some(Some(collation)), false) => {
                return Err(misconfigured(&format!(
                    "column {name} holds text ({collation}), but needs bytes or a number; alter it back"
                )));
            }
        }
    }
    Ok(())
}

/// Refuses a table whose engine has no transactions.
fn check_engine(table: &str, engine: &str) -> Result<()> {
    if engine.eq_ignore_ascii_case("InnoDB") {
        return Ok(());
    }
    Err(misconfigured(&format!(
        "table {table} is in the engine {engine}, which has no transactions; stop all workers and \
         run ALTER TABLE {table} ENGINE=InnoDB"
    )))
}

/// Refuses tables that are there under the names of a creating text, and are others than it creates.
pub(crate) async fn check_others(
    session: &Session,
    connection: &mut PooledConnection,
    create: &Text,
) -> Result<()> {
    let expected = expected(FORMAT, create);
    let names: BTreeSet<_> = expected.iter().map(|((table, _), _)| table).collect();
    let engines = tables_of(session, connection, Literal::list(&names)).await?;
    let columns = columns_of(session, connection, Literal::list(&names)).await?;
    for (column, is_text) in &expected {
        let Some(engine) = engines.get(&column.0) else {
            continue;
        };
        let found = columns.get(column);
        if found.is_none_or(|it| it.is_some() != *is_text) {
            return Err(foreign(&format!(
                "the database has a table {} that is not ours, but has its name",
                column.0
            )));
        }
        check_engine(&column.0, engine)?;
    }
    Ok(())
}

/// Checks that the user may do everything that a store does, and that the server takes writes.
pub(crate) async fn check_rights(
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<()> {
    let mut script = Script::default();
    script.add(&session.texts.rights, &[]);
    ask(connection, &script).await.map(drop)
}

/// Creates the tables, or continues a creation that broke off, even that of an older program. Tables that another
/// process has created are left as they are.
pub(crate) async fn create(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    lock(session, connection, &session.prefix).await?;
    let made = make(session, connection).await;
    unlock(session, connection, &session.prefix, made.is_ok()).await;
    made
}

async fn make(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    // The previous holder of the lock may have created them: then they are a store, of any format.
    if format(session, connection).await?.is_some() {
        return Ok(());
    }
    let texts = &session.texts;
    let mut script = Script::default();
    script.add(&texts.create, &[]);
    // Creating tables commits each of them.
    ask(connection, &script).await?;
    add_members(session, connection).await?;
    // This turns them into a store.
    let mut script = Script::default();
    script.add(&texts.made, &[]);
    let made = connection.run(&script).await;
    made.map(drop).map_err(Failure::uncommitted)
}

/// Brings tables of an older format forward. Steps that another process has done are left as they are.
pub(crate) async fn migrate(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    lock(session, connection, &session.prefix).await?;
    let migrated = bring_forward(session, connection).await;
    unlock(session, connection, &session.prefix, migrated.is_ok()).await;
    migrated
}

async fn bring_forward(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    add_members(session, connection).await?;
    let mut script = Script::default();
    script.add(&session.texts.migrated_2, &[]);
    let migrated = connection.run(&script).await;
    migrated.map(drop).map_err(Failure::uncommitted)
}

/// Adds the column of format 2 where it is missing, and changes nothing that is not a store's.
async fn add_members(session: &Session, connection: &mut PooledConnection) -> Result<()> {
    check_tables_of(OLDEST, session, connection).await?;
    if !lacks_members(session, connection).await? {
        return Ok(());
    }
    let mut script = Script::default();
    script.add(&session.texts.migrate_2, &[]);
    let added = connection.run(&script).await;
    added.map(drop).map_err(Failure::uncommitted)
}

/// Returns whether there are records without the column of format 2. A creation that broke off before it is of format
/// 1, whatever the tables say: continuing one made them say 2 once.
async fn lacks_members(session: &Session, connection: &mut PooledConnection) -> Result<bool> {
    let records = format!("{}records", session.prefix);
    let found = columns(session, connection).await?;
    let is_there = |column: &str| found.contains_key(&(records.clone(), column.to_owned()));
    Ok(is_there("id") && !is_there("members"))
}

/// Keeps other processes from creating or changing the tables that begin so.
pub(crate) async fn lock(
    session: &Session,
    connection: &mut PooledConnection,
    prefix: &str,
) -> Result<()> {
    let texts = &session.texts;
    let name = Literal::text(prefix);
    let mut lock = Script::default();
    let patience = Literal::number(PATIENCE.as_secs());
    lock.add(&texts.lock_name, &[&name, &patience]);
    let sets = ask(connection, &lock).await?;
    if text(only(&sets[0])?, 0)? != Some("1") {
        return Err(Error::new(
            ErrorKind::Unavailable,
            "another process has been making the tables of the store for long; try again",
        )
        .not_applied()
        .retry_after(Duration::from_secs(1)));
    }
    Ok(())
}

/// Lets others create or change them again. A connection that does not answer to that is closed, which does the same.
pub(crate) async fn unlock(
    session: &Session,
    connection: &mut PooledConnection,
    prefix: &str,
    is_sound: bool,
) {
    let mut unlock = Script::default();
    let name = Literal::text(prefix);
    unlock.add(&session.texts.unlock_name, &[&name]);
    if connection.run(&unlock).await.is_err() {
        connection.close();
    } else if is_sound {
        connection.ended();
    }
}

/// Error for a store that does not exist yet.
pub(crate) fn absent(session: &Session) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the database has no store whose tables begin with {}; `semel store migrate --yes` makes one",
            session.prefix
        ),
    )
    .not_applied()
}

/// Error for a store that an older version created.
pub(crate) fn outdated(session: &Session, format: i64) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the tables that begin with {} have format {format}, this version works with {FORMAT}; `semel store \
             migrate --yes` brings them forward",
            session.prefix
        ),
    )
    .not_applied()
}

/// Returns our tables with their engines, as far as there are any.
async fn tables(
    session: &Session,
    connection: &mut PooledConnection,
) -> Result<BTreeMap<String, String>> {
    tables_of(session, connection, Literal::list(session.tables())).await
}

async fn tables_of(
    session: &Session,
    connection: &mut PooledConnection,
    names: Literal,
) -> Result<BTreeMap<String, String>> {
    let mut script = Script::default();
    script.add(&session.texts.tables, &[&names]);
    let sets = ask(connection, &script).await?;
    let pair = |row: &Row| {
        // A table that cannot be opened has no engine.
        let engine = text(row, 1)?.unwrap_or("none").to_owned();
        Ok((some_text(row, 0)?.into_string(), engine))
    };
    sets[0].rows.iter().map(pair).collect()
}

type Columns = BTreeMap<(String, String), Option<String>>;

async fn columns(session: &Session, connection: &mut PooledConnection) -> Result<Columns> {
    columns_of(session, connection, Literal::list(session.tables())).await
}

async fn columns_of(
    session: &Session,
    connection: &mut PooledConnection,
    names: Literal,
) -> Result<Columns> {
    let mut script = Script::default();
    script.add(&session.texts.columns, &[&names]);
    let sets = ask(connection, &script).await?;
    let column = |row: &Row| {
        let name = (
            some_text(row, 0)?.into_string(),
            some_text(row, 1)?.into_string(),
        );
        Ok((name, text(row, 2)?.map(str::to_owned)))
    };
    sets[0].rows.iter().map(column).collect()
}

/// Returns the columns that a creating text of a format creates, and whether each is text.
fn expected(format: i64, create: &Text) -> BTreeSet<((String, String), bool)> {
    let mut expected = BTreeSet::new();
    for statement in create.parts[0].split(";\n") {
        let mut lines = statement.lines();
        let table = lines.next().and_then(|line| line.split_whitespace().nth(5));
        for line in lines {
            let name = line.split_whitespace().next().unwrap_or_default();
            let is_newer = format < 2 && name == "members";
            if line.starts_with("    ")
                && !["PRIMARY", "KEY", "UNIQUE"].contains(&name)
                && !is_newer
            {
                let column = (table.unwrap_or_default().to_owned(), name.replace('`', ""));
                expected.insert((column, line.contains("utf8mb4_bin")));
            }
        }
    }
    expected
}

fn foreign_meta(table: &str) -> Error {
    foreign(&format!(
        "the database has a table {table} that is not a store's"
    ))
}

/// The oldest format that can be brought forward.
const OLDEST: i64 = 1;
/// The longest wait for another process that creates the tables.
const PATIENCE: Duration = Duration::from_secs(20);
/// Code of a column that does not exist.
const NO_COLUMN: u16 = 1054;
