//! Settlements and a mark in one atomic write, which keep an output file exact across crashes.

use std::future::Future;
use std::sync::Arc;

use super::erased::erase;
use crate::claim::{Admission, ClaimRequest};
use crate::error::Result;
use crate::settle::{Mark, Settled, Settlement};

/// A store that can write a batch of settlements and a mark together.
///
/// Not every store can do this: one that is spread over several machines decides per key. The `file` effect, which
/// needs it, refuses such stores before work begins.
pub trait CheckpointStore: Send + Sync + 'static {
    /// Settles all of `batch` and sets `mark`, or changes nothing.
    ///
    /// # Guarantee   MRK-1; durable before the answer
    /// # Shape       all mine → [`Together::Applied`]; one fenced → [`Together::Refused`], unchanged
    /// # Cost        one durable write
    /// # Errors      as [`Store::settle`](super::store::Store::settle); repeating it is harmless
    fn settle_with(
        &self,
        batch: Arc<[Settlement]>,
        mark: &Mark,
    ) -> impl Future<Output = Result<Together>> + Send;

    /// Claims and completes in one step, together with a mark: for an output that is cut back to its mark after a
    /// crash. The store decides each request and hands the answers to `write`, which makes the granted ones durable in
    /// the output and returns the mark. The store then writes the completions and the mark. Each completion has an
    /// empty outcome and the window of its request. `write` is called once, so the batch is given away with it.
    ///
    /// # Guarantee   MRK-2 and those of `claim`; durable before the answer
    /// # Shape       absent → granted, and completed already; all else as [`Store::claim`]
    /// # Cost        one durable write; nobody else is served while `write` runs
    /// # Errors      those of `write`, and then nothing is changed; those of [`Store::settle`];
    /// `InvalidInput` for a request that is not [`Start::Unmarked`](crate::Start::Unmarked)
    ///
    /// [`Store::claim`]: super::store::Store::claim
    /// [`Store::settle`]: super::store::Store::settle
    fn admit_with(
        &self,
        batch: Vec<ClaimRequest>,
        write: Write,
    ) -> impl Future<Output = Result<Vec<Admission>>> + Send;

    /// Reads a mark. If another caller's commit of the mark is under way, waits for it to end first.
    ///
    /// # Errors      as [`Store::get`](super::store::Store::get)
    fn mark(&self, name: &str) -> impl Future<Output = Result<Option<u64>>> + Send;
}

/// A function that makes the granted requests durable in an output, and returns the output's mark.
pub type Write = Box<dyn FnOnce(&[Admission]) -> Result<Mark> + Send>;

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
pub struct AnyCheckpointStore(Arc<dyn Erased>);

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
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        self.0.settle_with(batch, mark).await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.0.admit_with(batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.0.mark(name).await
    }
}

erase!(
    #[expect(clippy::elidable_lifetime_names, reason = "most methods need the name")]
    Erased from CheckpointStore {
        settle_with(batch: Arc<[Settlement]>, mark: &'a Mark) -> Together;
        mark(name: &'a str) -> Option<u64>;
        admit_with(batch: Vec<ClaimRequest>, write: Write) -> Vec<Admission>;
    }
);

impl<S: CheckpointStore> CheckpointStore for Arc<S> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        S::settle_with(self, batch, mark).await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        S::admit_with(self, batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        S::mark(self, name).await
    }
}
