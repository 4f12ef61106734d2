//! The ports: claims by way of the cache, everything else handed on, with an eye on what it says about
//! completed keys.

use semel_core::decide::{Directed, Directive};
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Audited, ClaimRequest, Mark, Note, OpId, Operation, Parked, ParkedId, Record,
    Renewal, Renewed, Result, Settled, Settlement, StateKind, Store,
};

use super::{Memory, Tiered};

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Tiered<S> {
    async fn claim(&self, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
        if batch.is_empty() {
            return self.authority.claim(batch).await;
        }
        self.admit(batch).await
    }

    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<Settled>> {
        let answers = self.authority.settle(batch).await?;
        self.learn(batch, &answers);
        Ok(answers)
    }

    async fn renew(&self, batch: &[Renewal]) -> Result<Vec<Renewed>> {
        let answers = self.authority.renew(batch).await?;
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

    async fn park(&self, batch: &[Parked]) -> Result<Vec<bool>> {
        self.authority.park(batch).await
    }

    async fn drop_parked(&self, batch: &[ParkedId], note: Option<&Note>) -> Result<Vec<bool>> {
        self.authority.drop_parked(batch, note).await
    }

    async fn get(&self, batch: &[Operation]) -> Result<Vec<Option<Record>>> {
        self.authority.get(batch).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        self.authority.list(query).await
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        self.authority.list_parked(query).await
    }

    async fn operate(&self, batch: &[Directive]) -> Result<Vec<Directed>> {
        let ids: Vec<OpId> = batch.iter().map(|it| it.operation.id()).collect();
        let ordering = Ordering::begin(self, ids);
        let answers = self.authority.operate(batch).await;
        drop(ordering);
        answers
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        self.authority.list_audit(query).await
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        self.authority.sweep(limit).await
    }

    async fn stats(&self) -> Result<Stats> {
        self.authority.stats().await
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
}

impl<S: Store> Tiered<S> {
    /// Notes what was completed, and what turned out not to be.
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
/// it, also where nobody waits for its end.
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
    async fn settle_with(&self, batch: &[Settlement], mark: &Mark) -> Result<Together> {
        let together = self.authority.settle_with(batch, mark).await?;
        if let Together::Applied(answers) = &together {
            self.learn(batch, answers);
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

    async fn import(&self, batch: &[Item]) -> Result<Vec<bool>> {
        self.authority.import(batch).await
    }
}
