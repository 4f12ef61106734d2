//! The store ports: each call runs in a task of its own, so that a caller that stops waiting does not stop the call.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transactional::{Application, Applied, Statements, TransactionalStore};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Audited, ClaimRequest, Error, Mark, Note, Operation, Parked, ParkedId, Record,
    Renewal, Renewed, Result, Settled, Settlement, Store,
};
use tokio::sync::oneshot;

use crate::checkpoint::{AdmitWith, SettleWith};
use crate::config::{Options, address};
use crate::connect;
use crate::error::gone;
use crate::inbox::InboxSteps;
use crate::new_key_run::NewKeyRun;
use crate::preflight::Kept;
use crate::session::Session;
use crate::transaction::transact;
use crate::{apply, audit, jobs, listing, parked, preflight, rounds, schema, statements, transfer};

/// A store in a schema of a PostgreSQL database, which may hold its users' own tables as well.
///
/// Any number of stores, in any number of processes, may use one schema at once.
pub struct PostgresStore {
    pub(crate) session: Arc<Session>,
}

impl PostgresStore {
    /// Connects to the server of `url`, and creates schema and tables where there are none and `options` allow it.
    ///
    /// # Shape
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=semel&connections=4&sslmode=require`
    ///
    /// # Errors
    /// `invalid-config` (the url), `store-unavailable` (no server, wrong password, no right, no
    /// tables, older ones), `store-read-only` (a replica), `store-newer`, `store-foreign`; none has changed
    /// anything, and none repeats the password.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let session = session(url, &options)?;
        let mut client = session.client().await?;
        preflight::check(&session, &client).await?;
        schema::open(&session, &mut client, options.create).await?;
        drop(client);
        Ok(Self {
            session: Arc::new(session),
        })
    }

    /// Returns the inbox of this store's schema, for transactions on connections of your own.
    pub fn inbox(&self) -> InboxSteps {
        InboxSteps::new(self.session.texts.clone(), self.session.clock.clone())
    }

    /// Runs a call to its end, even if the caller stops waiting.
    pub(crate) async fn call<T, F>(&self, work: impl FnOnce(Arc<Session>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let working = work(Arc::clone(&self.session));
        if semel_core::planted("M31") {
            return Box::pin(working).await;
        }
        let (reply, answer) = oneshot::channel();
        // Boxed, since each type of task would be compiled with a runtime of its own.
        let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
            // The caller may no longer be waiting.
            let _ = reply.send(working.await);
        });
        tokio::spawn(task);
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

/// Builds the state that calls share, without a connection yet.
pub(crate) fn session(url: &str, options: &Options) -> Result<Session> {
    let address = address(url)?;
    let pool = connect::pool(&address, options)?;
    Ok(Session::new(
        pool,
        &address,
        options.clock.clone(),
        options.patience,
        NewKeyRun::of(options.new_keys),
    ))
}

/// Puts the answers of a part of a batch in their places. An error is that of the whole call only if the part is all of
/// it: it is not true of the items written before.
fn fill<A>(
    answers: &mut [A],
    places: &[usize],
    part: Result<Vec<A>>,
    failed: impl Fn(Error) -> A,
) -> Result<()> {
    match part {
        Ok(part) => {
            for (place, answer) in places.iter().zip(part) {
                answers[*place] = answer;
            }
        }
        Err(error) if places.len() == answers.len() => return Err(error),
        Err(error) => {
            for place in places {
                answers[*place] = failed(error.clone());
            }
        }
    }
    Ok(())
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("schema", &self.session.schema)
            .finish_non_exhaustive()
    }
}

impl Store for PostgresStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move {
            if batch.iter().any(|request| request.gate.is_some()) {
                transact(&session, jobs::Claim(&batch)).await
            } else {
                rounds::claim(&session, &batch).await
            }
        })
        .await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move {
            let (mut answers, gated) = rounds::settle(&session, &batch).await?;
            if !gated.is_empty() {
                let some: Vec<_> = gated.iter().map(|place| batch[*place].clone()).collect();
                let settled = transact(&session, jobs::Settle(&some)).await;
                fill(&mut answers, &gated, settled, Settled::Failed)?;
            }
            Ok(answers)
        })
        .await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move {
            let (mut answers, gated) = rounds::renew(&session, &batch).await?;
            if !gated.is_empty() {
                let some: Vec<_> = gated.iter().map(|place| batch[*place].clone()).collect();
                let renewed = transact(&session, jobs::Renew(&some)).await;
                fill(&mut answers, &gated, renewed, Renewed::Failed)?;
            }
            Ok(answers)
        })
        .await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move {
            let client = session.client().await?;
            let given = session.given_now().map(crate::row::timestamp);
            let messages: Vec<_> = batch.iter().collect();
            parked::park(&session, &client, &messages, given).await
        })
        .await
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let note = note.cloned();
        self.call(
            |session| async move { transact(&session, parked::Drop(&batch, note.as_ref())).await },
        )
        .await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let ids: Vec<_> = batch.iter().map(Operation::id).collect();
        self.call(|session| async move { listing::records(&session, &ids).await })
            .await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        let query = query.clone();
        self.call(|session| async move { listing::list(&session, &query).await })
            .await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        let query = query.clone();
        self.call(|session| async move { parked::list(&session, &query).await })
            .await
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { transact(&session, jobs::Operate(&batch)).await })
            .await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        let query = query.clone();
        self.call(|session| async move { audit::list(&session, &query).await })
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.call(|session| async move { listing::sweep(&session, limit).await })
            .await
    }

    async fn stats(&self) -> Result<Stats> {
        self.call(|session| async move { listing::stats(&session).await })
            .await
    }

    async fn estimate(&self, most: usize) -> Result<Stats> {
        self.call(|session| async move { listing::estimate(&session, most).await })
            .await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        self.call(|session| async move {
            let client = session.client().await?;
            preflight::preflight(&session, &client, Kept::Records).await
        })
        .await
    }
}

impl CheckpointStore for PostgresStore {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let mark = mark.clone();
        self.call(|session| async move { transact(&session, SettleWith(&batch, &mark)).await })
            .await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        let job = AdmitWith::new(batch, write)?;
        self.call(|session| async move { transact(&session, job).await })
            .await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        let name: Box<str> = name.into();
        self.call(|session| async move { listing::mark(&session, &name).await })
            .await
    }
}

impl TransactionalStore for PostgresStore {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        let statements = statements.clone();
        self.call(|session| async move {
            let client = session.client().await?;
            statements::prepare(&client, &statements).await.map(drop)
        })
        .await
    }

    async fn apply(
        &self,
        statements: &Statements,
        batch: Arc<[Application]>,
    ) -> Result<Vec<Applied>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let statements = statements.clone();
        self.call(|session| async move { apply::apply(&session, &statements, &batch).await })
            .await
    }
}

impl TransferStore for PostgresStore {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let after = after.map(<[u8]>::to_vec);
        self.call(
            |session| async move { transfer::export(&session, after.as_deref(), limit).await },
        )
        .await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { transfer::import(&session, &batch).await })
            .await
    }
}
