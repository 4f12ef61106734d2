//! The store as it serves other processes, through the one that has it open.

use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Store, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Note, Operation, Parked, ParkedId, Record, Renewal, Renewed,
    Result, Settled, Settlement,
};

use crate::EmbeddedStore;

/// The same store for claimants in other processes: whoever opens the folder next waits out the leases that they have,
/// because they may still be at work.
///
/// # Guarantee   CLM-1 between such a claimant and the process that has the store open, over a crash of the latter
/// # Cost        one durable write per renewal
#[derive(Clone, Debug)]
pub struct LentStore(Arc<EmbeddedStore>);

impl LentStore {
    /// The store, for others.
    pub const fn new(store: Arc<EmbeddedStore>) -> Self {
        Self(store)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for LentStore {
    async fn claim(&self, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
        self.0.claim_for(batch, true).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>> {
        self.0.settle(batch).await
    }

    async fn renew(&self, batch: &[Renewal]) -> Result<Vec<Renewed>> {
        self.0.renew(batch).await
    }

    async fn park(&self, batch: &[Parked]) -> Result<Vec<bool>> {
        self.0.park(batch).await
    }

    async fn drop_parked(&self, batch: &[ParkedId], note: Option<&Note>) -> Result<Vec<bool>> {
        self.0.drop_parked(batch, note).await
    }

    async fn get(&self, batch: &[Operation]) -> Result<Vec<Option<Record>>> {
        self.0.get(batch).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        self.0.list(query).await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.0.list_parked(query).await
    }

    async fn operate(&self, batch: &[Directive]) -> Result<Vec<Directed>> {
        self.0.operate(batch).await
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.0.list_audit(query).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.0.sweep(limit).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.0.stats().await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        self.0.preflight().await
    }
}
