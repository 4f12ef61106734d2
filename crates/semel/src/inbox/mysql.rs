//! MySQL and MariaDB through `mysql_async`.

use std::ops::Deref;

use semel_core::ClaimRequest;
use semel_engine::once::inbox::{Call, Turn, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember, ToKey};
use semel_store_mysql::mysql_async::{Transaction, prelude::Queryable};

use super::{no_savepoint, watched};

/// Runs operations within transactions that you begin and commit, on your own connection of
/// [`mysql_async`](crate::mysql_async) to a store's database: effect and record are committed together,
/// or neither is.
///
/// For work that takes longer than a transaction should, there are the single steps: `admit`,
/// `complete` and `settle`. With `READ COMMITTED`, transactions block each other the least.
///
/// ```no_run
/// use semel::mysql::MysqlInbox;
/// use semel::mysql_async::{Conn, TxOpts, prelude::Queryable};
///
/// # async fn deliver(connection: &mut Conn) -> Result<(), Box<dyn std::error::Error>> {
/// let inbox = MysqlInbox::with_prefix("semel_")?;
/// let mut tx = connection.start_transaction(TxOpts::default()).await?;
/// let left = inbox
///     .once(&mut tx, "take", "order-1", async |tx| {
///         tx.query_drop("UPDATE stock SET count = count - 1").await?;
///         Ok(tx.query_first::<i64, _>("SELECT count FROM stock").await?)
///     })
///     .await?;
/// tx.commit().await?;
/// println!("{:?} left", left.value());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MysqlInbox {
    inner: semel_store_mysql::InboxSteps,
    watch: Watch,
}

watched!(MysqlInbox);

impl MysqlInbox {
    /// The inbox of the store whose tables begin with this prefix (`semel_`, unless the store's url
    /// says otherwise), in the database of the connection. A store or `semel store migrate` has created
    /// them.
    ///
    /// # Errors
    /// `InvalidConfig`: the text cannot be a prefix.
    pub fn with_prefix(prefix: &str) -> semel_core::Result<Self> {
        semel_store_mysql::InboxSteps::with_prefix(prefix).map(Self::from)
    }

    /// Runs `effect` for `key` within `transaction` and records its value there, or returns the value
    /// of the run that already happened.
    ///
    /// The inbox never commits: your commit makes effect and record visible, and a rollback undoes
    /// both. After an error the transaction is as it was before the call, and may go on with other
    /// calls; after a lost connection or a deadlock (`throttled`), roll back. Another transaction with
    /// the same key waits for your commit.
    /// A refusal that callers are to get again belongs in the value: a failure is not recorded.
    ///
    /// # Guarantee   INB-1, OUT-1: exactly once; another request under the key is a conflict
    /// # Shape       new → the effect runs; done → the value on record; any other state → an error
    /// # Cost        five round trips, six where it is gated
    /// # Errors
    /// [`OnceError::Failed`]: the effect failed and is undone; `Conflict`, `TooOld`, `Stale`, `Dead`,
    /// `InDoubt`, `Busy`, `Unreadable`, `ClaimLost`, `Store`, `Invalid`: see [`OnceError`]
    ///
    /// # Cancel safety
    /// a call that is dropped may have run: roll back
    pub async fn once<T, F>(
        &self,
        transaction: &mut Transaction<'_>,
        name: &str,
        key: impl ToKey,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, Failure>,
    {
        self.run(transaction, Call::new(name, key)?, effect).await
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
        transaction: &mut Transaction<'_>,
        request: &ClaimRequest,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, Failure>,
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
        F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, Failure>,
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
        F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, Failure>,
    {
        let begun = transaction.query_drop("SAVEPOINT semel_once").await;
        begun.map_err(|why| call.unasked(no_savepoint(why)))?;
        let result = self.step(transaction, call, effect).await;
        if result.is_err() {
            // If the transaction is gone, there is nothing to undo.
            let _ = transaction
                .query_drop("ROLLBACK TO SAVEPOINT semel_once")
                .await;
        }
        let released = transaction.query_drop("RELEASE SAVEPOINT semel_once").await;
        let receipt = result?;
        // A deadlock ends the transaction, and later statements would commit on their own.
        released.map_err(|why| call.unasked(no_savepoint(why)))?;
        Ok(receipt)
    }

    async fn step<T, F>(
        &self,
        transaction: &mut Transaction<'_>,
        call: &mut Call,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_>) -> Result<T, Failure>,
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

impl From<semel_store_mysql::InboxSteps> for MysqlInbox {
    /// The inbox of an open store: `store.inbox().into()`.
    fn from(inbox: semel_store_mysql::InboxSteps) -> Self {
        Self {
            inner: inbox,
            watch: Watch::default(),
        }
    }
}

impl Deref for MysqlInbox {
    type Target = semel_store_mysql::InboxSteps;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}
