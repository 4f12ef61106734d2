//! PostgreSQL through sqlx.

use ::sqlx::encode::IsNull;
use ::sqlx::error::BoxDynError;
use ::sqlx::postgres::types::Oid;
use ::sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnection, PgRow, PgTypeInfo};
use ::sqlx::{Arguments, AssertSqlSafe, Encode, Postgres, Row as _, Transaction, Type, ValueRef};
use bytes::Bytes;
use semel_core::outbox::{OutboxId, OutboxMessage};
use semel_core::{Admission, Claim, ClaimRequest, Outcome, Result, Settled, Settlement, Window};
use semel_engine::once::inbox::{Call, Watch};
use semel_engine::once::{Error as OnceError, Failure, Receipt, Remember, ToKey};
use semel_store_postgres::InboxSteps;
use semel_store_postgres::driver::{Driver, Parameter, Refused, Row};

use super::once::{Steps, run};
use crate::inbox::watched;

/// Admits and completes operations within transactions of `sqlx` in a PostgreSQL database that holds a
/// store's tables.
///
/// Transactions are best `READ COMMITTED`, PostgreSQL's default. In a stricter one, a key that another
/// transaction took meanwhile is a serialization failure: roll back and begin again. Statements are prepared
/// once per connection, as sqlx prepares yours.
///
/// ```no_run
/// # use semel::{Admission, ClaimId, ClaimRequest, Key, Outcome, Scope, Settled, Window};
/// # use semel::sqlx::PostgresInbox;
/// # async fn deliver(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let inbox = PostgresInbox::in_schema("semel");
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
pub struct PostgresInbox {
    inner: InboxSteps,
    watch: Watch,
}

watched!(PostgresInbox);

impl PostgresInbox {
    /// The inbox of the store in this schema, which a store or `semel store migrate` has created.
    pub fn in_schema(schema: &str) -> Self {
        InboxSteps::in_schema(schema).into()
    }

    /// Asks for the right to run an effect within `transaction`. The answer holds once the transaction
    /// is committed; rolling back takes it back, and so does rolling back a savepoint before it.
    ///
    /// # Guarantee   INB-1 and those of [`Store::claim`](crate::Store::claim)
    /// # Shape       granted → run the effect; anything else → do not
    /// # Cost        four statements on rows of one key, seven where it is gated; waits for another
    /// transaction with the same key
    /// # Errors
    /// `Throttled` (another transaction has the same key, a deadlock, a serialization failure: roll back and
    /// begin again), `Unavailable`; after any error PostgreSQL refuses everything but a rollback, so nothing
    /// was applied.
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn admit(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        let mut connection = Connection(transaction);
        self.inner.admit_on(&mut connection, request).await
    }

    /// Records that the effect of `claim` happened within `transaction`.
    ///
    /// # Guarantee   INB-1, CLM-3, OUT-1
    /// # Shape       mine → completed; lost → [`Settled::Fenced`], and you roll back
    /// # Errors
    /// As [`PostgresInbox::admit`].
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn complete(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
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
    /// As [`PostgresInbox::admit`].
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn settle(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
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
        transaction: &mut Transaction<'_, Postgres>,
        name: &str,
        key: impl ToKey,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_, Postgres>) -> Result<T, Failure>,
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
        transaction: &mut Transaction<'_, Postgres>,
        request: &ClaimRequest,
        effect: F,
    ) -> Result<Receipt<T>, OnceError>
    where
        T: Remember,
        F: AsyncFnOnce(&mut Transaction<'_, Postgres>) -> Result<T, Failure>,
    {
        run(self, transaction, Call::of(request), effect).await
    }
}

impl Steps for PostgresInbox {
    type Db = Postgres;

    fn watch(&self) -> &Watch {
        &self.watch
    }

    async fn admit(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        request: &ClaimRequest,
    ) -> Result<Admission> {
        self.admit(transaction, request).await
    }

    async fn complete(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        claim: &Claim,
        outcome: Outcome,
        window: Window,
    ) -> Result<Settled> {
        self.complete(transaction, claim, outcome, window).await
    }
}

impl From<InboxSteps> for PostgresInbox {
    /// The inbox of an open store: `store.inbox().into()`.
    fn from(inbox: InboxSteps) -> Self {
        Self {
            inner: inbox,
            watch: Watch::default(),
        }
    }
}

/// A user's connection for the duration of a call.
struct Connection<'t>(&'t mut PgConnection);

/// Writes messages into the outbox of a PostgreSQL database within transactions of `sqlx`: they are published if, and only
/// if, the transaction commits.
///
/// ```no_run
/// # use semel::OutboxMessage;
/// # use semel::sqlx::PostgresOutbox;
/// # async fn order(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = pool.begin().await?;
/// sqlx::query("INSERT INTO orders VALUES ('o-1', 100)").execute(&mut *tx).await?;
/// let paid = OutboxMessage::new("orders", r#"{"order":"o-1","paid":100}"#).ordered_by("o-1");
/// PostgresOutbox::publish(&mut tx, &paid).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PostgresOutbox(());

impl PostgresOutbox {
    /// Writes `message`, and returns the id under which it will be published.
    ///
    /// # Guarantee   published if, and only if, the transaction commits, under this id at every try
    /// # Cost        one statement
    /// # Errors
    /// `InvalidInput`: what no outbox takes; `InvalidConfig`: there is no outbox; `Unavailable`; after an error of the
    /// server it refuses everything but a rollback, so nothing was applied
    ///
    /// # Cancel safety
    /// A call that is dropped may have run: roll back.
    pub async fn publish(
        transaction: &mut Transaction<'_, Postgres>,
        message: &OutboxMessage,
    ) -> Result<OutboxId> {
        let mut connection = Connection(transaction);
        semel_store_postgres::PostgresOutbox::publish_on(&mut connection, message).await
    }
}

impl Driver for Connection<'_> {
    async fn query(
        &mut self,
        sql: &str,
        parameters: Vec<Parameter>,
    ) -> std::result::Result<Vec<Row>, Refused> {
        let mut arguments = PgArguments::default();
        for parameter in parameters {
            let added = arguments.add(Raw(parameter));
            added.map_err(Refused::Broken)?;
        }
        // No value of a caller is part of a statement.
        let query = sqlx::query_with(AssertSqlSafe(sql.to_owned()), arguments);
        let rows = query.fetch_all(&mut *self.0).await.map_err(refused)?;
        rows.iter().map(row).collect()
    }

    async fn execute(&mut self, sql: &str) -> std::result::Result<(), Refused> {
        let query = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        query.execute(&mut *self.0).await.map(drop).map_err(refused)
    }
}

fn row(row: &PgRow) -> std::result::Result<Row, Refused> {
    let column = |number| {
        let value = row.try_get_raw(number).map_err(refused)?;
        let bytes = (!value.is_null()).then(|| value.as_bytes()).transpose();
        let bytes = bytes.map_err(Refused::Broken)?;
        Ok(Parameter {
            oid: value.type_info().oid().unwrap_or_default().0,
            value: bytes.map(Bytes::copy_from_slice),
        })
    };
    let columns = (0..row.len()).map(column).collect::<Result<_, _>>();
    Ok(Row { columns: columns? })
}

fn refused(error: sqlx::Error) -> Refused {
    let answer = error.as_database_error();
    let answer = answer.and_then(|it| Some((it.code()?.into(), it.message().into())));
    match answer {
        Some((state, message)) => Refused::Answered {
            state,
            message,
            source: error.into(),
        },
        None => Refused::Broken(error.into()),
    }
}

/// A parameter that is already encoded.
struct Raw(Parameter);

impl Type<Postgres> for Raw {
    fn type_info() -> PgTypeInfo {
        // Each says its own.
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Raw {
    fn encode_by_ref(
        &self,
        buffer: &mut PgArgumentBuffer,
    ) -> std::result::Result<IsNull, BoxDynError> {
        Ok(match &self.0.value {
            None => IsNull::Yes,
            Some(bytes) => {
                buffer.extend_from_slice(bytes);
                IsNull::No
            }
        })
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.0.oid)))
    }
}
