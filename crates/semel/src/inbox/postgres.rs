//! PostgreSQL through `tokio-postgres`.

use std::ops::Deref;

use semel_core::ClaimRequest;
use semel_engine::once::inbox::{Call, Turn};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember, ToKey};
use semel_store_postgres::tokio_postgres::Transaction;

use super::no_savepoint;

/// Runs operations within transactions that you begin and commit, on your own connection of
/// [`tokio-postgres`](crate::tokio_postgres) to a store's database: effect and record are committed
/// together, or neither is.
///
/// For work that takes longer than a transaction should, there are the single steps: `admit`, `complete` and
/// `settle`. Transactions are best `READ COMMITTED`, PostgreSQL's default.
///
/// ```no_run
/// use semel::postgres::Inbox;
///
/// # async fn deliver(client: &mut semel::tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let inbox = Inbox::in_schema("semel");
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
pub struct Inbox(semel_store_postgres::Inbox);

impl Inbox {
    /// The inbox of the store in this schema (`semel`, unless the store's url says otherwise). A store or
    /// `semel store migrate` has created it.
    pub fn in_schema(schema: &str) -> Self {
        Self(semel_store_postgres::Inbox::in_schema(schema))
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
        let call = Call::new(name, key)?;
        self.run(transaction, &call, effect).await
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
        self.run(transaction, &Call::of(request), effect).await
    }

    async fn run<T, F>(
        &self,
        transaction: &mut Transaction<'_>,
        call: &Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, Failure>,
    {
        let refused = |why| call.unasked(no_savepoint(why));
        // A savepoint that is dropped is rolled back.
        let savepoint = transaction.transaction().await.map_err(refused)?;
        match self.step(&savepoint, call, effect).await {
            Ok(receipt) => {
                savepoint.commit().await.map_err(refused)?;
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
        call: &Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&Transaction<'_>) -> Result<T, Failure>,
    {
        let request = call.request();
        let admitted = self.0.admit(transaction, request).await;
        let claim = match call.turn(admitted)? {
            Turn::Granted(claim) => claim,
            Turn::Replayed(receipt) => return Ok(receipt),
        };
        let value = effect(transaction).await;
        let value = value.map_err(|failure| call.failed(&claim, failure))?;
        let outcome = Call::outcome(&value);
        let completed = self
            .0
            .complete(transaction, &claim, outcome.clone(), request.window);
        call.receipt(&claim, value, &outcome, completed.await)
    }
}

impl From<semel_store_postgres::Inbox> for Inbox {
    /// The inbox of an open store: `store.inbox().into()`.
    fn from(inbox: semel_store_postgres::Inbox) -> Self {
        Self(inbox)
    }
}

impl Deref for Inbox {
    type Target = semel_store_postgres::Inbox;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
