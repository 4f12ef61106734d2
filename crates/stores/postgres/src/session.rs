//! State that all calls of a store share, and the running of statements.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use deadpool_postgres::tokio_postgres::types::{FromSql, ToSql, Type};
use deadpool_postgres::tokio_postgres::{self, Row};
use deadpool_postgres::{Object, Pool};
use semel_core::{Clock, Error, Result, Scope};

use crate::config::Address;
use crate::driver::Refused;
use crate::error::{is_passing, no_connection, undone};
use crate::new_key_run::NewKeyRun;
use crate::sql::{Text, Texts};

/// State that all calls share.
pub(crate) struct Session {
    pub(crate) pool: Pool,
    pub(crate) texts: Texts,
    pub(crate) schema: Box<str>,
    /// Host and port, to show to people.
    hosts: Box<str>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) patience: Duration,
    /// Number of further batches of effects in which every message has a savepoint.
    pub(crate) careful: AtomicU32,
    pub(crate) new_key_run: NewKeyRun,
    /// The numbers of scopes that are known to be stored.
    scopes: Mutex<HashMap<Scope, i32>>,
}

/// Runs statements: a connection of the pool, a transaction on it, or a user's own transaction on a
/// connection of any driver.
pub(crate) trait Runs: Sync {
    /// A row as the driver hands it over.
    type Row: Cells + Send + Sync;

    /// Runs a statement and returns its rows.
    fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<Self::Row>, Failure>> + Send;
}

/// A user's transaction, in which a savepoint may be set.
pub(crate) trait Nests: Runs {
    /// Runs statements without parameters or rows.
    fn order(&self, sql: &str) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// The columns of a row.
pub(crate) trait Cells {
    /// Returns the value of a column.
    fn try_get<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, Failure>;
}

/// Reason why a statement did not run, or why its answer cannot be read.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A failure of our own driver.
    Driver(tokio_postgres::Error),
    /// A failure of another driver.
    Refused(Refused),
    /// A value of another type than the statement has, over another driver.
    Unreadable(Box<str>),
}

impl Failure {
    /// Returns the `SQLSTATE` of the server's answer, and its words, if it is one.
    pub(crate) fn answer(&self) -> Option<(&str, &str)> {
        match self {
            Self::Driver(error) => {
                let db = error.as_db_error()?;
                Some((db.code().code(), db.message()))
            }
            Self::Refused(Refused::Answered { state, message, .. }) => Some((state, message)),
            Self::Refused(Refused::Broken(_)) | Self::Unreadable(_) => None,
        }
    }

    /// Returns `error` with this as its cause.
    pub(crate) fn because(self, error: Error) -> Error {
        match self {
            Self::Driver(cause) => error.with_source(cause),
            Self::Refused(cause) => error.with_source(cause),
            Self::Unreadable(_) => error,
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}

impl Session {
    pub(crate) fn new(
        pool: Pool,
        address: &Address,
        clock: Option<Arc<dyn Clock>>,
        patience: Duration,
        new_key_run: NewKeyRun,
    ) -> Self {
        Self {
            pool,
            texts: Texts::in_schema(&address.schema),
            schema: address.schema.clone(),
            hosts: address.hosts_and_ports(),
            clock,
            patience,
            careful: AtomicU32::new(0),
            new_key_run,
            scopes: Mutex::default(),
        }
    }

    /// Returns a connection of the pool.
    pub(crate) async fn client(&self) -> Result<Object> {
        let got = self.pool.get().await;
        got.map_err(|error| no_connection(error, &self.hosts, self.patience))
    }

    /// Returns the time to send along where the store was given a clock, for tests.
    pub(crate) fn given_now(&self) -> Option<i64> {
        let clock = self.clock.as_ref()?;
        Some(crate::row::millis(clock.now()))
    }

    /// Runs a statement that commits by itself; tries again where others were in its way.
    pub(crate) async fn run<C: Runs>(
        &self,
        client: &C,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<C::Row>> {
        self.run_where(client, text, parameters, is_passing).await
    }

    /// Does what [`Session::run`] does; `passes` says which failures mean that others were in the
    /// way.
    pub(crate) async fn run_where<C: Runs>(
        &self,
        client: &C,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
        passes: impl Fn(&Failure) -> bool,
    ) -> Result<Vec<C::Row>> {
        let mut tries = 0;
        loop {
            match client.rows(text, parameters).await {
                Ok(rows) => return Ok(rows),
                Err(error) if passes(&error) && tries < TRIES => {
                    tries += 1;
                    pause(tries).await;
                }
                Err(error) => return Err(undone(error)),
            }
        }
    }

    /// Returns the number of a scope, which is stored if it is not yet. Remembered, so `client`
    /// must not be in a transaction that may be undone.
    pub(crate) async fn scope(&self, client: &impl Runs, scope: &Scope) -> Result<i32> {
        let known = |numbers: &HashMap<Scope, i32>| numbers.get(scope).copied();
        if let Some(number) = known(&self.scopes.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(number);
        }
        let number = store_scope(client, &self.texts.scope, scope)
            .await
            .map_err(undone)?;
        let mut scopes = self.scopes.lock().unwrap_or_else(PoisonError::into_inner);
        scopes.insert(scope.clone(), number);
        Ok(number)
    }
}

/// Returns the number of a scope, which is stored if it is not yet.
pub(crate) async fn store_scope(
    client: &impl Runs,
    text: &Text,
    scope: &Scope,
) -> Result<i32, Failure> {
    loop {
        let rows = client
            .rows(text, &[&scope.tenant(), &scope.operation()])
            .await?;
        // Without a row, another transaction has just stored it: the next look finds it.
        if let Some(row) = rows.first() {
            return row.try_get(0);
        }
    }
}

/// Waits a little longer each time, and never as long as other processes do.
pub(crate) async fn pause(tries: u32) {
    let mut random = [0; 2];
    // Without entropy all processes wait alike, which is slower and nothing else.
    let _ = getrandom::fill(&mut random);
    let most = 4_u32.saturating_pow(tries.min(4));
    let millis = u32::from(u16::from_le_bytes(random)) % most.max(1) + 1;
    tokio::time::sleep(Duration::from_millis(millis.into())).await;
}

impl Runs for Object {
    type Row = Row;

    async fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare_typed_cached(&text.sql, &text.types).await?;
        Ok(self.query(&statement, parameters).await?)
    }
}

impl Runs for deadpool_postgres::Transaction<'_> {
    type Row = Row;

    async fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.prepare_typed_cached(&text.sql, &text.types).await?;
        Ok(self.query(&statement, parameters).await?)
    }
}

impl Runs for tokio_postgres::Transaction<'_> {
    type Row = Row;

    async fn rows(
        &self,
        text: &Text,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let typed: Vec<(&(dyn ToSql + Sync), Type)> = parameters
            .iter()
            .copied()
            .zip(text.types.iter().cloned())
            .collect();
        Ok(self.query_typed(&text.sql, &typed).await?)
    }
}

impl Nests for tokio_postgres::Transaction<'_> {
    async fn order(&self, sql: &str) -> Result<(), Failure> {
        Ok(self.batch_execute(sql).await?)
    }
}

impl Cells for Row {
    fn try_get<'r, T: FromSql<'r>>(&'r self, column: usize) -> Result<T, Failure> {
        Ok(Self::try_get(self, column)?)
    }
}

/// Tries of a statement that others are in the way of.
pub(crate) const TRIES: u32 = 8;
