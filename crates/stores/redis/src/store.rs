//! The store ports: each call runs in a task of its own, so that a caller that stops waiting does not stop the call.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Audited, ClaimRequest, Note, Operation, Parked, ParkedId, Record, Renewal, Renewed,
    Result, Settled, Settlement, Store,
};
use tokio::sync::oneshot;

use crate::config::Options;
use crate::error::gone;
use crate::open::open;
use crate::preflight::{self, Kept};
use crate::report::{Renew, Settle, report};
use crate::session::Session;
use crate::{audit, claim, listing, operate, parked, stats, sweep, transfer};

/// A store under a prefix of a Redis or Valkey server, or of a cluster of them.
///
/// Any number of stores, in any number of processes, may use one prefix at once.
pub struct RedisStore {
    session: Arc<Session>,
}

impl RedisStore {
    /// Connects to the server or cluster of `url`, and creates the store where there is none and `options` allow it.
    ///
    /// # Shape
    /// `redis://USER:PASSWORD@HOST:PORT/DATABASE?prefix=semel&connections=2`; `rediss://` for TLS, with
    /// `ca=FILE` for certificates of one's own; `redis+cluster://HOST:PORT,HOST:PORT` for a cluster.
    ///
    /// # Errors
    /// `invalid-config` (the url), `store-unavailable` (no server, wrong password, no right, no store, a
    /// server that evicts), `store-read-only` (a replica), `store-newer`, `store-foreign`; none has changed
    /// anything, and none repeats the password.
    pub async fn connect(url: &str, options: Options) -> Result<Self> {
        Ok(Self {
            session: Arc::new(open(url, &options).await?),
        })
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

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("buckets", &self.session.buckets.count())
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { claim::claim(&session, &batch).await })
            .await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { report::<Settle>(&session, &batch).await })
            .await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move { report::<Renew>(&session, &batch).await })
            .await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.call(|session| async move {
            let messages: Vec<_> = batch.iter().collect();
            parked::park(&session, &messages, |_| None).await
        })
        .await
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let note = note.cloned();
        self.call(
            |session| async move { parked::drop_parked(&session, &batch, note.as_ref()).await },
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
        self.call(|session| async move { operate::operate(&session, &batch).await })
            .await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        let query = query.clone();
        self.call(|session| async move { audit::list(&session, &query).await })
            .await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.call(|session| async move { sweep::sweep(&session, limit).await })
            .await
    }

    async fn stats(&self) -> Result<Stats> {
        self.call(|session| async move { stats::stats(&session).await })
            .await
    }

    async fn estimate(&self, most: usize) -> Result<Stats> {
        self.call(|session| async move { stats::estimate(&session, most).await })
            .await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        self.call(|session| async move {
            session.server.discover().await?;
            preflight::preflight(&session.server, session.allow_eviction, Kept::Records).await
        })
        .await
    }
}

impl TransferStore for RedisStore {
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
