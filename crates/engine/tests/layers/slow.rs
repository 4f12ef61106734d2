//! A store whose next read stands still when it has its answer, and one that can be cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Error, ErrorKind, Note, Operation, Parked, ParkedId, Record,
    Renewal, Renewed, Result, Settled, Settlement, Store,
};
use semel_store_memory::MemoryStore;
use tokio::sync::Notify;

/// The store, and what befalls its calls.
#[derive(Debug)]
pub(crate) struct Slow {
    pub(crate) inner: Arc<MemoryStore>,
    /// Whether the next read waits with its answer in its hands.
    pub(crate) holds_read: AtomicBool,
    /// A read waits.
    pub(crate) is_held: Notify,
    /// It may go on.
    pub(crate) go_on: Notify,
    /// Nothing is answered.
    pub(crate) is_cut: AtomicBool,
    /// Whether it says that others use it, too.
    pub(crate) is_shared: AtomicBool,
}

impl Slow {
    pub(crate) fn over(inner: &Arc<MemoryStore>) -> Self {
        Self {
            inner: Arc::clone(inner),
            holds_read: AtomicBool::default(),
            is_held: Notify::new(),
            go_on: Notify::new(),
            is_cut: AtomicBool::default(),
            is_shared: AtomicBool::default(),
        }
    }

    fn alive(&self) -> Result<&MemoryStore> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "the connection broke"));
        }
        Ok(&self.inner)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for Slow {
    async fn claim(&self, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
        self.alive()?.claim(batch).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>> {
        self.alive()?.settle(batch).await
    }

    async fn renew(&self, batch: &[Renewal]) -> Result<Vec<Renewed>> {
        self.alive()?.renew(batch).await
    }

    async fn park(&self, batch: &[Parked]) -> Result<Vec<bool>> {
        self.alive()?.park(batch).await
    }

    async fn drop_parked(&self, batch: &[ParkedId], note: Option<&Note>) -> Result<Vec<bool>> {
        self.alive()?.drop_parked(batch, note).await
    }

    async fn get(&self, batch: &[Operation]) -> Result<Vec<Option<Record>>> {
        let records = self.alive()?.get(batch).await;
        if self.holds_read.swap(false, Ordering::SeqCst) {
            self.is_held.notify_one();
            self.go_on.notified().await;
        }
        records
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        self.alive()?.list(query).await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.alive()?.list_parked(query).await
    }

    async fn operate(&self, batch: &[Directive]) -> Result<Vec<Directed>> {
        self.alive()?.operate(batch).await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.alive()?.list_audit(query).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.alive()?.sweep(limit).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.alive()?.stats().await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        let mut capabilities = self.alive()?.preflight().await?;
        capabilities.shared = self.is_shared.load(Ordering::SeqCst);
        Ok(capabilities)
    }
}
