//! PostgreSQL through `tokio-postgres`.

use std::ops::Deref;

use semel_core::ClaimRequest;
use semel_engine::once::inbox::{Call, Turn, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember, ToKey};
use semel_store_postgres::tokio_postgres::Transaction;

use super::{no_savepoint, watched};

/// Runs operations within transactions that you begin and commit, on your own connection of
/// [`tokio-postgres`](crate::tokio_postgres) to a store's database: effect and record are committed
/// together, or neither is.
///
/// For work that takes longer than a transaction should, there are the single steps: `admit`, `complete` and
/// `settle`. Transactions are best `READ COMMITTED`, PostgreSQL's default.
///
/// ```no_run
/// use semel::postgres::PostgresInbox;
///
/// # async fn deliver(client: &mut semel::tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let inbox = PostgresInbox::in_schema("semel");
/// let mut tx = client.transaction().await?;
/// let left = inbox
///     .once(&mut tx, "take", "order-1", async |tx| {
///         let sql = "UPDATE stock SET count = count - 1 RETURNING count";
///         Ok(tx.query_one(sql, &[]).await?.try_get::<_, i64>(0)?)
///     })
///     .await?;
/// tx.commit().await?;
/// println!("{} left", left.value());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresInbox {
    inner: semel_store_postgres::InboxSteps,
    watch: Watch,
}

watched!(PostgresInbox);

impl PostgresInbox {
    /// The inbox of the store in this schema (`semel`, unless the store's url says otherwise). A store or
    /// `semel store migrate` has created it.
    pub fn in_schema(schema: &str) -> Self {
        semel_store_postgres::InboxSteps::in_schema(schema).into()
    }

    /// Runs `effect` for `key` within `transaction` and records its value there, or returns the value of the
    /// run that already happened.
    ///
    /// The inbox never commits: your commit makes effect and record visible, and a rollback undoes both.
    /// After an error the transaction is as it was before the call, and may go on with other calls; after a
    /// lost connection or a serialization failure, roll back. Another transaction with the same key waits for
    /// your commit.
    /// A refusal that callers are to get again belongs in the value: a failure is not recorded.
    ///
    /// # Guarantee   INB-1, OUT-1: exactly once; another request under the key is a conflict
    /// # Shape       new → the effect runs; done → the value on record; any other state → an error
    /// # Cost        ten statements on rows of one key, thirteen where it is gated
    /// # Errors
    /// [`OnceError::Failed`]: the effect failed and is undone; `Conflict`, `TooOld`, `Stale`, `Dead`,
    /// `InDoubt`, `Busy`, `Unreadable`, `ClaimLost`, `Store`, `Invalid`: see [`OnceError`]
    ///
    /// # Cancel safety
    /// a call that is dropped is undone with your transaction's next statement
    pub async fn once<T, F>(
        &self,
        transaction: &mut Transaction<'_>,
        name: &str,
        key: impl ToKey,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, Failure>,
    {
        self.run(transaction, Call::new(name, key)?, effect).await
    }

    /// As [`once`](Self::once), for a request with more settings: a window, a fingerprint, a tenant, a birth.
    /// [`Declared::claim_request`](crate::Declared::claim_request) makes one.
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
        transaction: &mut Transaction<'_>,
        request: &ClaimRequest,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, Failure>,
    {
        self.run(transaction, Call::of(request), effect).await
    }

    async fn run<T, F>(
        &self,
        transaction: &mut Transaction<'_>,
        call: Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, Failure>,
    {
        let mut call = call.watched(&self.watch);
        let answer = self.within_savepoint(transaction, &mut call, effect).await;
        call.ended(answer)
    }

    async fn within_savepoint<T, F>(
        &self,
        transaction: &mut Transaction<'_>,
        call: &mut Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, Failure>,
    {
        // A savepoint that is dropped is rolled back.
        let savepoint = transaction.transaction().await;
        let savepoint = savepoint.map_err(|why| call.unasked(no_savepoint(why)))?;
        match self.step(&savepoint, call, effect).await {
            Ok(receipt) => {
                let released = savepoint.commit().await;
                released.map_err(|why| call.unasked(no_savepoint(why)))?;
                Ok(receipt)
            }
            Err(error) => {
                // If the transaction is gone, there is nothing to undo.
                let _ = savepoint.rollback().await;
                Err(error)
            }
        }
    }

    async fn step<T, F>(
        &self,
        transaction: &Transaction<'_>,
        call: &mut Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, Failure>,
    {
        let admitted = self.inner.admit(transaction, call.ask()).await;
        let claim = match call.turn(admitted)? {
            Turn::Granted(claim) => claim,
            Turn::Replayed(receipt) => return Ok(receipt),
        };
        let (value, outcome, window) = call.run(&claim, effect(transaction)).await?;
        let completed = self
            .inner
            .complete(transaction, &claim, outcome.clone(), window);
        call.receipt(&claim, value, &outcome, completed.await)
    }
}

impl From<semel_store_postgres::InboxSteps> for PostgresInbox {
    /// The inbox of an open store: `store.inbox().into()`.
    fn from(inbox: semel_store_postgres::InboxSteps) -> Self {
        Self {
            inner: inbox,
            watch: Watch::default(),
        }
    }
}

impl Deref for PostgresInbox {
    type Target = semel_store_postgres::InboxSteps;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}
