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
    Admission, Audited, ClaimRequest, Mark, Note, Operation, Parked, ParkedId, Record, Renewal,
    Renewed, Result, Settled, Settlement, Store,
};
use tokio::sync::oneshot;

use crate::apply::Apply;
use crate::checkpoint::{self, AdmitWith, SettleWith};
use crate::config::Options;
use crate::error::gone;
use crate::inbox::InboxSteps;
use crate::inspection::open;
use crate::preflight::Settings;
use crate::script::addend;
use crate::session::Session;
use crate::transaction::{end, transact};
use crate::transfer::{Import, export};
use crate::{audit, claim, jobs, listing, parked, schema, settle, statements};

/// A store in a MySQL or MariaDB database, which may hold its users' own tables as well.
///
/// Any number of stores, in any number of processes, may use the same tables at once.
pub struct MysqlStore {
    session: Arc<Session>,
}

impl MysqlStore {
    /// Connects to the server of `url`, and creates tables where there are none and `options` allow it.
    ///
    /// # Shape
    /// `mysql://USER:PASSWORD@HOST:PORT/DATABASE?prefix=semel_&connections=4&ssl-mode=required`
    ///
    /// # Errors
    /// `invalid-config` (the url), `store-unavailable` (no server, wrong password, no right, no
    /// tables, tables without transactions), `store-read-only`, `store-newer`, `store-foreign`,
    /// `unsupported` (the server); none repeats the password.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        let session = Session::new(url, &options)?;
        let mut connection = session.connection().await?;
        let opened = open(&session, &mut connection, options.create).await;
        end(&session, connection).await;
        opened?;
        Ok(Self {
            session: Arc::new(session),
        })
    }

    /// Returns the inbox of this store's tables, for transactions on connections of your own.
    pub fn inbox(&self) -> InboxSteps {
        InboxSteps::new(Arc::clone(&self.session.texts), self.session.clock.clone())
    }

    /// Runs a call to its end, even if the caller stops waiting.
    async fn call<T, F>(&self, work: impl FnOnce(Arc<Session>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let working = work(Arc::clone(&self.session));
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

impl fmt::Debug for MysqlStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlStore")
            .field("prefix", &self.session.prefix)
            .finish_non_exhaustive()
    }
}

impl Store for MysqlStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        // A lease beyond a server's integers is decided here, and never by adding there.
        let is_plain = |it: &ClaimRequest| it.gate.is_none() && addend(it.lease).is_some();
        self.call(|session| async move {
            if batch.iter().all(is_plain) {
                claim::claim(&session, &batch).await
            } else {
                transact(&session, jobs::Claim(&batch)).await
            }
        })
        .await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { settle::settle(&session, &batch).await })
            .await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { settle::renew(&session, &batch).await })
            .await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { parked::park(&session, &batch).await })
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
            let mut connection = session.connection().await?;
            schema::check_tables(&session, &mut connection).await?;
            let settings = Settings::read(&session, &mut connection).await?;
            end(&session, connection).await;
            Ok(settings.capabilities(&session))
        })
        .await
    }
}

impl TransferStore for MysqlStore {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let after = after.map(<[u8]>::to_vec);
        self.call(|session| async move { export(&session, after.as_deref(), limit).await })
            .await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { transact(&session, Import(&batch)).await })
            .await
    }
}

impl CheckpointStore for MysqlStore {
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
        self.call(|session| async move { checkpoint::mark(&session, &name).await })
            .await
    }
}

impl TransactionalStore for MysqlStore {
    async fn prepare(&self, statements: &Statements) -> Result<()> {
        let statements = statements.clone();
        self.call(|session| async move {
            let mut connection = session.connection().await?;
            let prepared = statements::prepare(&session, &mut connection, &statements).await;
            end(&session, connection).await;
            prepared
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
        self.call(
            |session| async move { transact(&session, Apply::new(&statements, &batch)?).await },
        )
        .await
    }
}
