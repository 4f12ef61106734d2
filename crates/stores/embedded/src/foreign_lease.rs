//! The store as it serves other processes, through the process that has it open.

use std::sync::Arc;

use semel_core::{Admission, ClaimRequest, Result, Store, forward_store};

use crate::EmbeddedStore;

/// The same store for claimants in other processes. The next process that opens the folder waits out their leases,
/// because the claimants may still be at work.
///
/// # Guarantee   CLM-1 between such a claimant and the process that has the store open, over a crash of the latter
/// # Cost        one durable write per renewal
#[derive(Clone, Debug)]
pub struct LentStore(Arc<EmbeddedStore>);

impl LentStore {
    /// Wraps the store for other processes.
    pub const fn new(store: Arc<EmbeddedStore>) -> Self {
        Self(store)
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for LentStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        self.0.claim_for(batch, true).await
    }

    forward_store!(self => self.0; but claim);
}
