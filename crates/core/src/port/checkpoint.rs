//! Settlements and a mark in one atomic write: how an output file stays exact across crashes.

use std::future::Future;
use std::sync::Arc;

use super::erased;
use crate::error::Result;
use crate::settle::{Mark, Settled, Settlement};

/// A store that can write a batch of settlements and a mark together.
///
/// Not every store can: one that is spread over several machines decides per key. What needs this
/// (the `file` effect) refuses the others before work begins.
pub trait CheckpointStore: Send + Sync + 'static {
    /// Settles all of `batch` and sets `mark`, or changes nothing.
    ///
    /// # Guarantee   MRK-1; durable before the answer
    /// # Shape       all mine → [`Together::Applied`]; one fenced → [`Together::Refused`], unchanged
    /// # Cost        one durable write
    /// # Errors      as [`Store::settle`](super::store::Store::settle); repeating it is harmless
    fn settle_with(
        &self,
        batch: &[Settlement],
        mark: &Mark,
    ) -> impl Future<Output = Result<Together>> + Send;

    /// Reads a mark.
    ///
    /// # Errors      as [`Store::get`](super::store::Store::get)
    fn mark(&self, name: &str) -> impl Future<Output = Result<Option<u64>>> + Send;
}

/// The answer to [`CheckpointStore::settle_with`].
#[derive(Clone, Debug)]
#[must_use = "a refused batch changed nothing"]
pub enum Together {
    /// Everything was written; one answer per settlement.
    Applied(Vec<Settled>),
    /// Nothing was written, because at least one item is not [`Settled::Now`].
    Refused(Vec<Settled>),
}

/// Any checkpoint store, picked at run time.
#[derive(Clone)]
pub struct AnyCheckpointStore(Arc<dyn erased::ErasedCheckpoint>);

impl AnyCheckpointStore {
    /// Erases `store`.
    pub fn new(store: impl CheckpointStore) -> Self {
        Self(Arc::new(store))
    }
}

impl std::fmt::Debug for AnyCheckpointStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnyCheckpointStore")
    }
}

impl CheckpointStore for AnyCheckpointStore {
    async fn settle_with(&self, batch: &[Settlement], mark: &Mark) -> Result<Together> {
        self.0.settle_with(batch, mark).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.0.mark(name).await
    }
}

impl<S: CheckpointStore> CheckpointStore for Arc<S> {
    async fn settle_with(&self, batch: &[Settlement], mark: &Mark) -> Result<Together> {
        S::settle_with(self, batch, mark).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        S::mark(self, name).await
    }
}
