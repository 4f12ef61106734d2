//! Effects that commit with their record: statements in the store's own transaction (class A).

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use super::erased::erase;
use crate::backoff::Backoff;
use crate::claim::{Admission, ClaimRequest};
use crate::error::Result;
use crate::record::StateKind;
use crate::time::Timestamp;
use crate::window::Window;

/// A store whose database also holds the data that the effect changes.
///
/// Each backend serves the users' own transactions natively; this port serves the worker, whose
/// statements come from a configuration.
pub trait TransactionalStore: Send + Sync + 'static {
    /// Prepares `statements` once, so that a mistake in them is found before work begins.
    ///
    /// # Errors      `InvalidConfig` with the database's own words
    fn prepare(&self, statements: &Statements) -> impl Future<Output = Result<()>> + Send;

    /// Claims each operation, runs its statements and completes it, all in one transaction for the
    /// whole batch; a message whose statements fail leaves nothing behind but its record.
    ///
    /// # Guarantee   INB-1, INB-2, BAT-1, BAT-2 and those of `claim` and `settle`
    /// # Cost        one transaction, one durable write per batch
    /// # Errors      `Unavailable`, `Timeout` (maybe applied: apply again with the same claim ids)
    fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> impl Future<Output = Result<Vec<Applied>>> + Send;
}

/// SQL with `:name` placeholders, run in order for each message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statements {
    /// The statements.
    pub sql: Arc<[Box<str>]>,
    /// Names of the parameters, without the colon, in the order of [`Application::values`].
    pub params: Arc<[Box<str>]>,
}

/// One message's claim and values.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// The claim; [`Start::Unmarked`](crate::Start::Unmarked), since nothing can be left behind.
    pub claim: ClaimRequest,
    /// One value per parameter.
    pub values: Arc<[Value]>,
    /// The time for which the finished record is kept.
    pub window: Window,
    /// The backoff after a failure that another attempt may mend, by the number of failed attempts so
    /// far.
    pub backoff: Backoff,
    /// True if the message is given back when its statements fail, however they fail: the attempt does
    /// not count, and the operation is never given up because of it.
    pub gives_back: bool,
}

/// A value bound to a placeholder.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// SQL NULL.
    Null,
    /// A boolean.
    Boolean(bool),
    /// A number, in canonical decimal text at full precision.
    Number(Box<str>),
    /// Text.
    Text(Box<str>),
    /// Bytes.
    Bytes(Bytes),
    /// A JSON object or array, as text.
    Json(Box<str>),
}

/// The result of applying one message.
#[derive(Clone, Debug)]
#[must_use = "only what was applied may be acknowledged"]
pub enum Applied {
    /// The effect and the record are committed together.
    Completed {
        /// An earlier claim had vanished.
        takeover: bool,
    },
    /// The claim was not granted: replay, busy, conflict, stale, parked or too old.
    NotGranted(Admission),
    /// Its statements failed and were undone.
    Failed {
        /// [`StateKind::Released`] (another try follows) or [`StateKind::Dead`].
        state: StateKind,
        /// The time from which the next attempt may be made, if one may.
        not_before: Timestamp,
        /// The store's clock now.
        now: Timestamp,
        /// The database's own words, one line.
        error: Box<str>,
    },
}

/// Any transactional store, picked at run time.
#[derive(Clone)]
pub struct AnyTransactionalStore(Arc<dyn Erased>);

impl AnyTransactionalStore {
    /// Erases `store`.
    pub fn new(store: impl TransactionalStore) -> Self {
        Self(Arc::new(store))
    }
}

impl std::fmt::Debug for AnyTransactionalStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyTransactionalStore")
    }
}

impl TransactionalStore for AnyTransactionalStore {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        self.0.prepare(statements).await
    }

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        self.0.apply(statements, batch).await
    }
}

erase!(Erased from TransactionalStore {
    prepare(statements: &'a Statements) -> ();
    apply(statements: &'a Statements, batch: Arc<[Application]>) -> Vec<Applied>;
});

impl<S: TransactionalStore> TransactionalStore for Arc<S> {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        S::prepare(self, statements).await
    }

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        S::apply(self, statements, batch).await
    }
}
