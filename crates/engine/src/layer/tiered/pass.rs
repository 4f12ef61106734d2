//! The ports: claims go through the cache, everything else is passed on, and the cache learns from the
//! answers about completed keys.

use std::sync::Arc;

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::{Capabilities, Page};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, ClaimRequest, Mark, OpId, Renewal, Renewed, Result, Settled, Settlement, StateKind,
    Store, forward_store,
};

use super::{Memory, Tiered};

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Tiered<S> {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        if batch.is_empty() {
            return self.authority.claim(batch).await;
        }
        self.admit(&batch).await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let answers = self.authority.settle(Arc::clone(&batch)).await?;
        self.learn(&batch, &answers);
        Ok(answers)
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let answers = self.authority.renew(Arc::clone(&batch)).await?;
        let mut memory = self.memory();
        for (renewal, answer) in batch.iter().zip(&answers) {
            match answer {
                Renewed::Lost {
                    found: Some(StateKind::Completed),
                }
                | Renewed::Failed(_) => {}
                Renewed::Until(_) | Renewed::Lost { .. } => memory.evict(&renewal.operation.id()),
            }
        }
        Ok(answers)
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let ids: Vec<OpId> = batch.iter().map(|it| it.operation.id()).collect();
        let ordering = Ordering::begin(self, ids);
        let answers = self.authority.operate(batch).await;
        drop(ordering);
        answers
    }

    async fn preflight(&self) -> Result<Capabilities> {
        let mut capabilities = self.authority.preflight().await?;
        if capabilities.shared {
            let fresh = self.settings.fresh;
            let warning = format!(
                "finished keys are answered from a cache: a key that is forgotten from elsewhere \
                 may be skipped here for another {fresh:?}"
            );
            capabilities.warnings.push(warning.into());
        }
        Ok(capabilities)
    }

    forward_store!(self => self.authority; but claim, settle, renew, operate, preflight);
}

impl<S: Store> Tiered<S> {
    /// Notes which keys were completed, and which turned out not to be.
    fn learn(&self, batch: &[Settlement], answers: &[Settled]) {
        let mut memory = self.memory();
        for (settlement, answer) in batch.iter().zip(answers) {
            learn_one(&mut memory, settlement, answer);
        }
    }
}

fn learn_one(memory: &mut Memory, settlement: &Settlement, answer: &Settled) {
    let found = match answer {
        Settled::Now(state) => Some(*state),
        Settled::Fenced { found } => *found,
        Settled::Failed(_) => return,
    };
    let id = settlement.operation.id();
    if found == Some(StateKind::Completed) {
        memory.hint(id);
    } else {
        memory.evict(&id);
    }
}

/// An order under way: nothing that is read meanwhile is kept, and nothing that was kept before outlives
/// it, also if its caller stops waiting for its end.
struct Ordering<'a, S: Store> {
    tiered: &'a Tiered<S>,
    ids: Vec<OpId>,
}

impl<'a, S: Store> Ordering<'a, S> {
    fn begin(tiered: &'a Tiered<S>, ids: Vec<OpId>) -> Self {
        tiered.memory().order_begins(&ids);
        Self { tiered, ids }
    }
}

impl<S: Store> Drop for Ordering<'_, S> {
    fn drop(&mut self) {
        self.tiered.memory().order_ends(&self.ids);
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + CheckpointStore> CheckpointStore for Tiered<S> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let together = self.authority.settle_with(Arc::clone(&batch), mark).await?;
        if let Together::Applied(answers) = &together {
            self.learn(&batch, answers);
        }
        Ok(together)
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.authority.admit_with(batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.authority.mark(name).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + TransferStore> TransferStore for Tiered<S> {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        self.authority.export(after, limit).await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        self.authority.import(batch).await
    }
}
