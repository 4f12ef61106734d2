//! A store behind a breaker, for callers who would rather fail at once than wait.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Note, Operation, Parked, ParkedId, Record, Renewal, Renewed,
    Result, Settled, Settlement, Store,
};

use super::{ANSWER_WITHIN, Breaker, Entry, unanswered};
use crate::event::Observer;

/// A layer that does not call a store whose breaker is open.
///
/// A call that was not made is answered with the store's last failure, surely not applied, and with
/// the time to wait. A call without an answer in time is answered with a timeout, maybe applied; it
/// may still be carried out.
#[derive(Clone)]
pub struct Guarded<S> {
    inner: S,
    breaker: Arc<Breaker>,
    observer: Arc<dyn Observer>,
    answer_within: Duration,
}

impl<S> Guarded<S> {
    /// Returns a layer over `inner`; `observer` gets an event, under no pipeline's name, when the
    /// breaker turns.
    pub fn new(inner: S, breaker: Arc<Breaker>, observer: Arc<dyn Observer>) -> Self {
        Self {
            inner,
            breaker,
            observer,
            answer_within: ANSWER_WITHIN,
        }
    }

    /// Returns the same layer with another limit than 30 seconds for the wait for one answer.
    #[must_use]
    pub fn answer_within(self, answer_within: Duration) -> Self {
        Self {
            answer_within,
            ..self
        }
    }
}

impl<S: Store> Guarded<S> {
    async fn pass<T: Send>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.pass_within(self.answer_within, call).await
    }

    /// Passes a call that visits much of a store; it may take ten times as long.
    async fn pass_slow<T: Send>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        self.pass_within(self.answer_within.saturating_mul(10), call)
            .await
    }

    async fn pass_within<T: Send>(
        &self,
        within: Duration,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let permit = match self.breaker.enter() {
            Entry::Call(permit) => permit,
            Entry::Wait { wait, error } => return Err(error.not_applied().retry_after(wait)),
        };
        let result = tokio::time::timeout(within, call)
            .await
            .unwrap_or_else(|_| Err(unanswered(within)));
        if let Some(turn) = permit.tell(&result) {
            self.observer.observe("", &turn.event());
        }
        result
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for Guarded<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guarded")
            .field("inner", &self.inner)
            .field("breaker", &self.breaker)
            .finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Guarded<S> {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        self.pass(self.inner.claim(batch)).await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        self.pass(self.inner.settle(batch)).await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        self.pass(self.inner.renew(batch)).await
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        self.pass(self.inner.park(batch)).await
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        self.pass(self.inner.drop_parked(batch, note)).await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        self.pass(self.inner.get(batch)).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        self.pass_slow(self.inner.list(query)).await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.pass_slow(self.inner.list_parked(query)).await
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        // An order that is carried out late would come behind those that were given after it.
        self.pass_within(Duration::MAX, self.inner.operate(batch))
            .await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.pass_slow(self.inner.list_audit(query)).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.pass_slow(self.inner.sweep(limit)).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.pass_slow(self.inner.stats()).await
    }

    async fn estimate(&self, most: usize) -> Result<Stats> {
        self.pass_slow(self.inner.estimate(most)).await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        self.pass(self.inner.preflight()).await
    }
}
