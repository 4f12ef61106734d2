//! MySQL and MariaDB through sqlx.

use ::sqlx::mysql::{MySqlConnection, MySqlDatabaseError, MySqlRow};
use ::sqlx::{AssertSqlSafe, Either, MySql, Row as _, Transaction};
use bytes::Bytes;
use futures_util::TryStreamExt;
use semel_core::outbox::{OutboxId, OutboxMessage};
use semel_core::{Admission, Claim, ClaimRequest, Outcome, Result, Settled, Settlement, Window};
use semel_engine::once::inbox::{Call, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember, ToKey};
use semel_store_mysql::InboxSteps;
use semel_store_mysql::driver::{Driver, Refused, Row};

use super::once::{Steps, run};
use crate::inbox::watched;

/// Admits and completes operations within transactions of `sqlx` in a MySQL or MariaDB database that
/// holds a store's tables.
///
/// Transactions may be of any isolation level: the statements read under locks what they decide on, as it
/// stands now. With `READ COMMITTED`, transactions block each other the least.
///
/// ```no_run
/// # use semel::{Admission, ClaimId, ClaimRequest, Key, Outcome, Scope, Settled, Window};
/// # use semel::sqlx::MysqlInbox;
/// # async fn deliver(pool: &sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
/// let inbox = MysqlInbox::with_prefix("semel_")?;
/// let request = ClaimRequest::new(Scope::new("", "payments")?, Key::parse("pay-1")?, ClaimId::from_u128(7));
///
/// let mut tx = pool.begin().await?;
/// if let Admission::Granted(claim) = inbox.admit(&mut tx, &request).await? {
///     sqlx::query("INSERT INTO payments VALUES ('pay-1', 100)").execute(&mut *tx).await?;
///     let settled = inbox.complete(&mut tx, &claim, Outcome::empty(), Window::DEFAULT).await?;
///     assert!(matches!(settled, Settled::Now(_)));
/// }
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MysqlInbox {
    inner: InboxSteps,
    watch: Watch,
}

watched!(MysqlInbox);

impl MysqlInbox {
    /// The inbox of the store whose tables begin with this prefix (`semel_`, unless the store's url says
    /// otherwise), in the database of the connection. A store or `semel store migrate` has created them.
    ///
    /// # Errors
    /// `InvalidConfig`: the text cannot be a prefix.
    pub fn with_prefix(prefix: &str) -> Result<Self> {
        InboxSteps::with_prefix(prefix).map(Self::from)
    }

    /// Asks for the right to run an effect within `transaction`. The answer holds once the transaction
    /// is committed; rolling back takes it back, and so does rolling back to a savepoint before it.
    ///
    /// # Guarantee   INB-1 and those of [`Store::claim`](crate::Store::claim)
    /// # Shape       granted → run the effect; anything else → do not
    /// # Cost        one round trip if the key is new, else two; waits for another transaction with
    /// the same key
    /// # Errors
    /// `Throttled` (another transaction has the same key, or a deadlock: roll back and begin again),
    /// `Unavailable`. Nothing is applied if you roll back. MySQL itself would go on, and after a deadlock
    /// outside of any transaction: do not.
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn admit(
        &self,
        transaction: &mut Transaction<'_, MySql>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        let mut connection = Connection(transaction);
        self.inner.admit_on(&mut connection, request).await
    }

    /// Records that the effect of `claim` happened within `transaction`.
    ///
    /// # Guarantee   INB-1, CLM-3, OUT-1
    /// # Shape       mine → completed; lost → [`Settled::Fenced`], and you roll back
    /// # Cost        two round trips, three where the claim is gated
    /// # Errors
    /// As [`MysqlInbox::admit`].
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn complete(
        &self,
        transaction: &mut Transaction<'_, MySql>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        let mut connection = Connection(transaction);
        let settled = self
            .inner
            .complete_on(&mut connection, claim, outcome, window);
        settled.await
    }

    /// Reports any other step of a claim within `transaction`: start, release, fail.
    ///
    /// # Guarantee   those of [`Store::settle`](crate::Store::settle)
    /// # Errors
    /// As [`MysqlInbox::admit`].
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn settle(
        &self,
        transaction: &mut Transaction<'_, MySql>,
        settlement: &Settlement,
    ) -> Result<Settled> {
        let mut connection = Connection(transaction);
        self.inner.settle_on(&mut connection, settlement).await
    }

    /// Runs `effect` for `key` within `transaction` and records its value there, or returns the value of the
    /// run that already happened.
    ///
    /// The inbox never commits: your commit makes effect and record visible, and a rollback undoes both.
    /// After an error the transaction is as it was before the call, and may go on with other calls; after a
    /// lost connection or a deadlock (`throttled`), roll back. Another transaction with the same key waits
    /// for your commit.
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
    /// a call that is dropped is undone with your transaction's next statement
    pub async fn once<T, F>(
        &self,
        transaction: &mut Transaction<'_, MySql>,
        name: &str,
        key: impl ToKey,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_, MySql>) -> Result<T, Failure>,
    {
        run(self, transaction, Call::new(name, key)?, effect).await
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
        transaction: &mut Transaction<'_, MySql>,
        request: &ClaimRequest,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_, MySql>) -> Result<T, Failure>,
    {
        run(self, transaction, Call::of(request), effect).await
    }
}

impl Steps for MysqlInbox {
    type Db = MySql;

    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn admit(
        &self,
        transaction: &mut Transaction<'_, MySql>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        self.admit(transaction, request).await
    }

    async fn complete(
        &self,
        transaction: &mut Transaction<'_, MySql>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.complete(transaction, claim, outcome, window).await
    }
}

impl From<InboxSteps> for MysqlInbox {
    /// The inbox of an open store: `store.inbox().into()`.
    fn from(inbox: InboxSteps) -> Self {
        Self {
            inner: inbox,
            watch: Watch::default(),
        }
    }
}

/// A user's connection for the duration of a call.
struct Connection<'t>(&'t mut MySqlConnection);

/// Writes messages into the outbox of a MySQL or MariaDB database within transactions of `sqlx`: they are published if, and
/// only if, the transaction commits.
///
/// ```no_run
/// # use semel::OutboxMessage;
/// # use semel::sqlx::MysqlOutbox;
/// # async fn order(pool: &sqlx::MySqlPool) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = pool.begin().await?;
/// sqlx::query("INSERT INTO orders VALUES ('o-1', 100)").execute(&mut *tx).await?;
/// let paid = OutboxMessage::new("orders", r#"{"order":"o-1","paid":100}"#).ordered_by("o-1");
/// MysqlOutbox::publish(&mut tx, &paid).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MysqlOutbox(());

impl MysqlOutbox {
    /// Writes `message`, and returns the id under which it will be published.
    ///
    /// # Guarantee   published if, and only if, the transaction commits, under this id at every try
    /// # Cost        one round trip; waits for another transaction that has written a message of the same order key
    /// # Errors
    /// `InvalidInput`: what no outbox takes; `Throttled`: a deadlock, or a lock that does not come free; `InvalidConfig`:
    /// there is no outbox, or its trigger cannot run; `Unavailable`. Nothing is applied: roll back, and begin again where
    /// the error's advice says so
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn publish(
        transaction: &mut Transaction<'_, MySql>,
        message: &OutboxMessage,
    ) -> Result<OutboxId> {
        let mut connection = Connection(transaction);
        semel_store_mysql::MysqlOutbox::publish_on(&mut connection, message).await
    }
}

impl Driver for Connection<'_> {
    async fn query(&mut self, script: &str) -> std::result::Result<Vec<Vec<Row>>, Refused> {
        // A caller's values are part of it only as hexadecimal digits.
        let query = sqlx::raw_sql(AssertSqlSafe(script.to_owned()));
        let mut results = query.fetch_many(&mut *self.0);
        let (mut answers, mut rows) = (Vec::new(), Vec::new());
        while let Some(result) = results.try_next().await.map_err(refused)? {
            match result {
                Either::Right(it) => rows.push(row(&it)?),
                // The end of a statement's rows.
                Either::Left(_) => answers.push(std::mem::take(&mut rows)),
            }
        }
        Ok(answers)
    }
}

fn row(row: &MySqlRow) -> std::result::Result<Row, Refused> {
    let column = |number| {
        // Every column is read as bytes, whatever its type: in text, each is bytes.
        let bytes = row.try_get_unchecked::<Option<&[u8]>, usize>(number);
        Ok(bytes.map_err(refused)?.map(Bytes::copy_from_slice))
    };
    let columns = (0..row.len()).map(column).collect::<Result<_, _>>();
    Ok(Row { columns: columns? })
}

fn refused(error: sqlx::Error) -> Refused {
    let answer = error.as_database_error();
    let answer = answer.and_then(|it| it.try_downcast_ref::<MySqlDatabaseError>());
    match answer.map(|it| (it.number(), it.message().into())) {
        Some((code, message)) => Refused::Answered {
            code,
            message,
            source: error.into(),
        },
        None => Refused::Broken(error.into()),
    }
}
