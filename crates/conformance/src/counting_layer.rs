//! A subject behind the smallest layer there is, which proves that layers are transparent.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::Page;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Admission, ClaimRequest, Mark, Result, Settlement, Store, forward_store};

use crate::clock::TestClock;
use crate::subject::{CheckpointSubject, Subject, TransferSubject};

/// A layer that counts the calls and hands them on.
#[derive(Debug)]
pub struct Counted<T> {
    inner: T,
    calls: AtomicU64,
}

impl<T> Counted<T> {
    /// A layer over `inner`.
    pub const fn new(inner: T) -> Self {
        Self {
            inner,
            calls: AtomicU64::new(0),
        }
    }

    /// The number of calls that went through.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn inner(&self) -> &T {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: Store> Store for Counted<T> {
    forward_store!(self => self.inner());
}

#[deny(clippy::missing_trait_methods)]
impl<T: CheckpointStore> CheckpointStore for Counted<T> {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        self.inner().settle_with(batch, mark).await
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        self.inner().admit_with(batch, write).await
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.inner().mark(name).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<T: TransferStore> TransferStore for Counted<T> {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        self.inner().export(after, limit).await
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        self.inner().import(batch).await
    }
}

/// `S`, seen through [`Counted`].
#[derive(Debug)]
pub struct Observed<S: Subject> {
    inner: S,
    store: Arc<Counted<Arc<S::Store>>>,
}

impl<S: Subject> Observed<S> {
    fn of(inner: S) -> Self {
        let store = Arc::new(Counted::new(Arc::clone(inner.store())));
        Self { inner, store }
    }
}

impl<S: Subject> Subject for Observed<S> {
    type Store = Counted<Arc<S::Store>>;
    const SCALE: u32 = S::SCALE;
    const HISTORIES: u64 = S::HISTORIES;

    async fn open() -> Self {
        Self::of(S::open().await)
    }

    fn store(&self) -> &Arc<Self::Store> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        self.inner.clock()
    }

    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send {
        self.inner.advance(by)
    }
}

impl<S: CheckpointSubject> CheckpointSubject for Observed<S> {
    type Checkpoint = Counted<Arc<S::Checkpoint>>;

    fn checkpoint(&self) -> Arc<Self::Checkpoint> {
        Arc::new(Counted::new(self.inner.checkpoint()))
    }
}

impl<S: TransferSubject> TransferSubject for Observed<S> {
    type Transfer = Counted<Arc<S::Transfer>>;

    fn transfer(&self) -> Arc<Self::Transfer> {
        Arc::new(Counted::new(self.inner.transfer()))
    }
}
