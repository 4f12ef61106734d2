//! SQLite through `rusqlite`.

use std::ops::Deref;
use std::sync::Arc;

use semel_core::{ClaimRequest, Clock, Error, ErrorKind, Result};
use semel_engine::once::inbox::{Call, Turn, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember, ToKey};
use semel_engine::system::SystemClock;
use semel_store_sqlite::rusqlite::Connection;

use super::{no_savepoint, watched};

/// Runs operations within transactions that you begin and commit, on your own connection of
/// [`rusqlite`](crate::rusqlite): effect and record are committed together, or neither is.
///
/// For work that takes longer than a transaction should, there are the single steps: `admit`,
/// `complete` and `settle`.
///
/// ```
/// use semel::rusqlite::{Connection, TransactionBehavior};
/// use semel::sqlite::SqliteInbox;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("app.db");
/// let mut connection = Connection::open(path)?;
/// let inbox = SqliteInbox::open(&connection)?;
/// connection.execute_batch("CREATE TABLE stock (count INTEGER); INSERT INTO stock VALUES (10)")?;
///
/// for order in ["order-1", "order-2", "order-1"] {
///     let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
///     let left = inbox.once(&tx, "take", order, |tx| {
///         let sql = "UPDATE stock SET count = count - 1 RETURNING count";
///         Ok(tx.query_row(sql, [], |row| row.get::<_, i64>(0))?)
///     })?;
///     tx.commit()?;
///     println!("{order}: {} left", left.value()); // 9, 8 and again 9
/// }
/// # let count: i64 = connection.query_row("SELECT count FROM stock", [], |row| row.get(0))?;
/// # assert_eq!(count, 8);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteInbox {
    inner: semel_store_sqlite::InboxSteps,
    watch: Watch,
}

watched!(SqliteInbox);

impl SqliteInbox {
    /// An inbox in the file of `connection`. Creates Semel's tables if there are none.
    ///
    /// # Errors
    /// as `SqliteStore::open`; `InvalidInput` within a transaction
    pub fn open(connection: &Connection) -> Result<Self> {
        Self::open_with(connection, Arc::new(SystemClock::new()))
    }

    /// As [`open`](Self::open), with a clock of your own.
    ///
    /// # Errors
    /// as [`open`](Self::open)
    pub fn open_with(connection: &Connection, clock: Arc<dyn Clock>) -> Result<Self> {
        semel_store_sqlite::InboxSteps::open(connection, clock).map(Self::from)
    }

    /// Runs `effect` for `key` within `transaction` and records its value there, or returns the value
    /// of the run that already happened.
    ///
    /// The inbox never commits: your commit makes effect and record visible, and a rollback undoes
    /// both. After an error the transaction is as it was before the call, and may go on with other
    /// calls.
    /// A refusal that callers are to get again belongs in the value: a failure is not recorded.
    ///
    /// # Guarantee   INB-1, OUT-1: exactly once; another request under the key is a conflict
    /// # Shape       new → the effect runs; done → the value on record; any other state → an error
    /// # Cost        five or six statements on rows of one key; no flush but your commit's
    /// # Errors
    /// [`OnceError::Failed`]: the effect failed and is undone; `Busy`, `Conflict`, `TooOld`, `Stale`,
    /// `Dead`, `InDoubt`, `Unreadable`, `ClaimLost`, `Store`, `Invalid`: see [`OnceError`]
    ///
    /// # Cancel safety
    /// it is not asynchronous; if the effect panics, roll back
    pub fn once<T, F>(
        &self,
        transaction: &Connection,
        name: &str,
        key: impl ToKey,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: FnOnce(&Connection) -> Result<T, Failure>,
    {
        self.run(transaction, Call::new(name, key)?, effect)
    }

    /// As [`once`](Self::once), for a request with more settings: a window, a fingerprint, a tenant, a
    /// birth. [`Declared::claim_request`](crate::Declared::claim_request) makes one.
    ///
    /// # Guarantee   that of [`once`](Self::once)
    /// # Shape       that of [`once`](Self::once)
    /// # Cost        that of [`once`](Self::once)
    /// # Errors
    /// as [`once`](Self::once)
    ///
    /// # Cancel safety
    /// as [`once`](Self::once)
    pub fn once_of<T, F>(
        &self,
        transaction: &Connection,
        request: &ClaimRequest,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: FnOnce(&Connection) -> Result<T, Failure>,
    {
        self.run(transaction, Call::of(request), effect)
    }

    fn run<T, F>(
        &self,
        transaction: &Connection,
        call: Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: FnOnce(&Connection) -> Result<T, Failure>,
    {
        let mut call = call.watched(&self.watch);
        let answer = self.within_savepoint(transaction, &mut call, effect);
        call.ended(answer)
    }

    fn within_savepoint<T, F>(
        &self,
        transaction: &Connection,
        call: &mut Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: FnOnce(&Connection) -> Result<T, Failure>,
    {
        if transaction.is_autocommit() {
            // A savepoint would begin a transaction of its own, and its release commit it.
            let message = "an inbox works within a transaction; begin one first";
            let error = Error::new(ErrorKind::InvalidInput, message);
            return Err(call.unasked(error.not_applied()));
        }
        let order = |sql| transaction.execute_batch(sql);
        order("SAVEPOINT semel_once").map_err(|why| call.unasked(no_savepoint(why)))?;
        let result = self.step(transaction, call, effect);
        if result.is_err() {
            // If the transaction is gone, there is nothing to undo.
            let _ = order("ROLLBACK TO semel_once");
        }
        let released = order("RELEASE semel_once");
        let receipt = result?;
        released.map_err(|why| call.unasked(no_savepoint(why)))?;
        Ok(receipt)
    }

    fn step<T, F>(
        &self,
        transaction: &Connection,
        call: &mut Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: FnOnce(&Connection) -> Result<T, Failure>,
    {
        let admitted = self.inner.admit(transaction, call.ask());
        let claim = match call.turn(admitted)? {
            Turn::Granted(claim) => claim,
            Turn::Replayed(receipt) => return Ok(receipt),
        };
        let (value, outcome, window) = call.run_blocking(&claim, || effect(transaction))?;
        let completed = self
            .inner
            .complete(transaction, &claim, outcome.clone(), window);
        call.receipt(&claim, value, &outcome, completed)
    }
}

impl From<semel_store_sqlite::InboxSteps> for SqliteInbox {
    /// The inbox of an open store: `store.inbox().into()`.
    fn from(inbox: semel_store_sqlite::InboxSteps) -> Self {
        Self {
            inner: inbox,
            watch: Watch::default(),
        }
    }
}

impl Deref for SqliteInbox {
    type Target = semel_store_sqlite::InboxSteps;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}
