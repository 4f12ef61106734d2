//! A cache under a caller that asks again and again, so that the cache answers everything that it can.

use std::collections::BTreeSet;
use std::sync::Arc;

use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::{ListQuery, Page};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Admission, ClaimRequest, Mark, OpId, Result, Settlement, Store, forward_store};
use semel_engine::layer::tiered::Tiered;
use semel_store_memory::MemoryStore;

/// The way in which a caller insists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// Asks again about replayed keys: at first their records are read, and then they are known.
    Again,
    /// Has all completed records read before each claim.
    Warmed,
}

/// `S` behind a cache, with a caller that insists. A completed key stays completed, whoever asks.
#[derive(Debug)]
pub(crate) struct Insistent<S = MemoryStore> {
    pub(crate) tiered: Tiered<Arc<S>>,
    pub(crate) how: How,
}

impl<S: Store> Insistent<S> {
    /// Asks for a key again only if a record answered all claims of it, and then for all of them: a
    /// claim that is answered later than the next one of its key would have left its place in the batch.
    async fn again(
        &self,
        batch: &[ClaimRequest],
        mut answers: Vec<Admission>,
    ) -> Result<Vec<Admission>> {
        for _ in 0..2 {
            let changed: BTreeSet<OpId> = std::iter::zip(batch, &answers)
                .filter(|(_, answer)| !is_of_a_record(answer))
                .map(|(request, _)| request.operation.id())
                .collect();
            let places: Vec<_> = (0..batch.len())
                .filter(|at| !changed.contains(&batch[*at].operation.id()))
                .collect();
            let requests = places.iter().map(|at| batch[*at].clone());
            let again = self.tiered.claim(requests.collect()).await?;
            for (at, admission) in places.into_iter().zip(again) {
                answers[at] = admission;
            }
        }
        Ok(answers)
    }
}

/// Tells whether the claim was answered from a record and left it as it was.
const fn is_of_a_record(answer: &Admission) -> bool {
    matches!(
        answer,
        Admission::Replay { .. } | Admission::Conflict { .. }
    )
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Insistent<S> {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        match self.how {
            How::Warmed => {
                self.tiered.warm(ListQuery::default(), u64::MAX).await?;
                self.tiered.claim(batch).await
            }
            How::Again => {
                let answers = self.tiered.claim(Arc::clone(&batch)).await?;
                self.again(&batch, answers).await
            }
        }
    }

    forward_store!(self => self.tiered; but claim);
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + CheckpointStore> CheckpointStore for Insistent<S> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        self.tiered.settle_with(batch, mark).await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.tiered.admit_with(batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.tiered.mark(name).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + TransferStore> TransferStore for Insistent<S> {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        self.tiered.export(after, limit).await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        self.tiered.import(batch).await
    }
}
