//! SQLite through sqlx.

use std::sync::Arc;

use ::sqlx::{Sqlite, SqliteConnection, Transaction};
use semel_core::outbox::{OutboxId, OutboxMessage};
use semel_core::{
    Admission, Claim, ClaimRequest, Clock, Error, ErrorKind, Outcome, Result, Settled, Settlement,
    Window,
};
use semel_engine::once::inbox::{Call, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember, ToKey};
use semel_sqlx_rusqlite::{Connection, lend};
use semel_store_sqlite::{InboxSteps, driver};

use super::once::{Steps, run};
use crate::inbox::watched;

/// Admits and completes operations within transactions of `sqlx` in an SQLite file, which may hold a
/// store or be one of your own.
///
/// Begin transactions with `pool.begin_with("BEGIN IMMEDIATE")`. A deferred one (`pool.begin()`) that
/// has read before it calls the inbox may no longer be able to write; the call then fails, and the
/// caller rolls back. Your connection decides how durable a commit is: `journal_mode` and `synchronous`.
///
/// ```
/// # use std::sync::Arc;
/// # use semel::{Admission, ClaimId, ClaimRequest, Key, Outcome, Scope, Settled, SystemClock, Window};
/// # use semel::sqlx::SqliteInbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("sqlite://{}?mode=rwc", folder.path().join("app.db").display());
/// let pool = sqlx::SqlitePool::connect(&url).await?;
/// sqlx::query("CREATE TABLE payments (id TEXT, amount INTEGER)").execute(&pool).await?;
/// let inbox = SqliteInbox::open(&mut *pool.acquire().await?, Arc::new(SystemClock::new())).await?;
///
/// for delivery in 0..2 {
///     let key = Key::parse("pay-1")?;
///     let request = ClaimRequest::new(Scope::new("", "payments")?, key, ClaimId::from_u128(delivery));
///     let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
///     if let Admission::Granted(claim) = inbox.admit(&mut tx, &request).await? {
///         sqlx::query("INSERT INTO payments VALUES ('pay-1', 100)").execute(&mut *tx).await?;
///         let settled = inbox.complete(&mut tx, &claim, Outcome::empty(), Window::DEFAULT).await?;
///         assert!(matches!(settled, Settled::Now(_)));
///     }
///     tx.commit().await?;
/// }
/// let payments: i64 = sqlx::query_scalar("SELECT count(*) FROM payments").fetch_one(&pool).await?;
/// assert_eq!(payments, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteInbox {
    inner: InboxSteps,
    watch: Watch,
}

watched!(SqliteInbox);

impl SqliteInbox {
    /// An inbox in the file of `connection`. Creates Semel's tables if there are none.
    ///
    /// # Errors
    /// `InvalidInput` within a transaction; `Unavailable` if the file cannot be written or belongs to
    /// another program; `Unsupported`: its tables are of a newer format.
    ///
    /// # Cancel safety
    /// A call that is dropped has made all tables or none.
    pub async fn open(connection: &mut SqliteConnection, clock: Arc<dyn Clock>) -> Result<Self> {
        let opened = lend(connection, |lent| InboxSteps::open(lent, clock)).await;
        opened.map_err(refused)?.map(Self::from)
    }

    /// Asks for the right to run an effect within `transaction`. The answer holds once the transaction
    /// is committed; rolling back takes it back, and so does rolling back a savepoint before it.
    ///
    /// # Guarantee   INB-1 and those of [`Store::claim`](crate::Store::claim)
    /// # Shape       granted → run the effect; anything else → do not
    /// # Cost        three or four statements on rows of one key; waits for another transaction that
    /// writes to the file, as long as your connection's `busy_timeout`
    /// # Errors
    /// `Unavailable` (not applied: roll back and try again); `InvalidConfig`: the file has none of
    /// Semel's tables.
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn admit(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        let admit = |lent: &_| self.inner.admit(lent, request);
        locked(transaction, driver::WRITE_LOCK, admit).await
    }

    /// Records that the effect of `claim` happened within `transaction`.
    ///
    /// # Guarantee   INB-1, CLM-3, OUT-1
    /// # Shape       mine → completed; lost → [`Settled::Fenced`], and you roll back
    /// # Errors
    /// As [`SqliteInbox::admit`].
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn complete(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        let complete = |lent: &_| self.inner.complete(lent, claim, outcome, window);
        locked(transaction, driver::WRITE_LOCK, complete).await
    }

    /// Reports any other step of a claim within `transaction`: start, release, fail.
    ///
    /// # Guarantee   those of [`Store::settle`](crate::Store::settle)
    /// # Errors
    /// As [`SqliteInbox::admit`].
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn settle(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        settlement: &Settlement,
    ) -> Result<Settled> {
        let settle = |lent: &_| self.inner.settle(lent, settlement);
        locked(transaction, driver::WRITE_LOCK, settle).await
    }

    /// Runs `effect` for `key` within `transaction` and records its value there, or returns the value of
    /// the run that already happened.
    ///
    /// The inbox never commits: your commit makes effect and record visible, and a rollback undoes both.
    /// After an error the transaction is as it was before the call, and may go on with other calls.
    /// A refusal that callers are to get again belongs in the value: a failure is not recorded.
    ///
    /// # Guarantee   INB-1, OUT-1: exactly once; another request under the key is a conflict
    /// # Shape       new → the effect runs; done → the value on record; any other state → an error
    /// # Cost        six or seven statements on rows of one key; no flush but your commit's
    /// # Errors
    /// [`OnceError::Failed`]: the effect failed and is undone; `Conflict`, `TooOld`, `Stale`, `Dead`,
    /// `InDoubt`, `Busy`, `Unreadable`, `ClaimLost`, `Store`, `Invalid`: see [`OnceError`]
    ///
    /// # Cancel safety
    /// a call that is dropped is undone with your transaction's next statement
    pub async fn once<T, F>(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        name: &str,
        key: impl ToKey,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_, Sqlite>) -> Result<T, Failure>,
    {
        run(self, transaction, Call::new(name, key)?, effect).await
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
    pub async fn once_of<T, F>(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        request: &ClaimRequest,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_, Sqlite>) -> Result<T, Failure>,
    {
        run(self, transaction, Call::of(request), effect).await
    }
}

impl Steps for SqliteInbox {
    type Db = Sqlite;

    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn admit(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        self.admit(transaction, request).await
    }

    async fn complete(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.complete(transaction, claim, outcome, window).await
    }
}

impl From<InboxSteps> for SqliteInbox {
    /// The inbox of an open store: `store.inbox().into()`.
    fn from(inbox: InboxSteps) -> Self {
        Self {
            inner: inbox,
            watch: Watch::default(),
        }
    }
}

/// Writes messages into the outbox of an SQLite file within transactions of `sqlx`: they are published if, and only if,
/// the transaction commits.
///
/// ```
/// # use semel::OutboxMessage;
/// # use semel::sqlx::SqliteOutbox;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let url = format!("sqlite://{}?mode=rwc", folder.path().join("shop.db").display());
/// let pool = sqlx::SqlitePool::connect(&url).await?;
/// sqlx::query("CREATE TABLE orders (id TEXT, paid INTEGER)").execute(&pool).await?;
/// SqliteOutbox::create(&mut *pool.acquire().await?).await?;
///
/// let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
/// sqlx::query("INSERT INTO orders VALUES ('o-1', 100)").execute(&mut *tx).await?;
/// let paid = OutboxMessage::new("orders", r#"{"order":"o-1","paid":100}"#).ordered_by("o-1");
/// let id = SqliteOutbox::publish(&mut tx, &paid).await?;
/// tx.commit().await?;
/// let row: Vec<u8> = sqlx::query_scalar("SELECT id FROM semel_outbox").fetch_one(&pool).await?;
/// assert_eq!(row, id.as_u128().to_be_bytes());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SqliteOutbox(());

impl SqliteOutbox {
    /// Creates the tables of an outbox in the file of `connection`, if there are none.
    ///
    /// # Errors
    /// `InvalidInput` within a transaction; `InvalidConfig`: there is a newer outbox; `Unavailable`: the file cannot be
    /// written
    ///
    /// # Cancel safety
    /// A call that is dropped has made all tables or none.
    pub async fn create(connection: &mut SqliteConnection) -> Result<()> {
        let created = lend(connection, semel_store_sqlite::SqliteOutbox::create).await;
        created.map_err(refused)?
    }

    /// Writes `message`, and returns the id under which it will be published.
    ///
    /// # Guarantee   published if, and only if, the transaction commits, under this id at every try
    /// # Cost        two statements; waits for another transaction that writes to the file, as long as your connection's
    /// `busy_timeout`
    /// # Errors
    /// `InvalidInput`: what no outbox takes, an id that is there already; `InvalidConfig`: there is no outbox;
    /// `Unavailable` (not applied: roll back and try again)
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn publish(
        transaction: &mut Transaction<'_, Sqlite>,
        message: &OutboxMessage,
    ) -> Result<OutboxId> {
        let publish = |lent: &_| semel_store_sqlite::SqliteOutbox::publish(lent, message);
        locked(transaction, driver::OUTBOX_WRITE_LOCK, publish).await
    }
}

/// Runs `work` once no other connection writes to the file, which the statement `lock` sees to. The wait for that happens
/// on sqlx's thread, not on one of the runtime's.
async fn locked<A>(
    connection: &mut SqliteConnection,
    lock: &'static str,
    work: impl FnOnce(&Connection) -> Result<A>,
) -> Result<A> {
    let lock = sqlx::query(lock).execute(&mut *connection);
    lock.await.map_err(refused)?;
    lend(connection, work).await.map_err(refused)?
}

fn refused(error: sqlx::Error) -> Error {
    let answer = error.as_database_error().and_then(|answer| {
        let code = answer.code()?.parse().ok()?;
        Some(driver::refused(code, answer.message()))
    });
    let broken = || Error::new(ErrorKind::Unavailable, "the connection to the file is gone");
    answer.unwrap_or_else(|| broken().not_applied().with_source(error))
}
