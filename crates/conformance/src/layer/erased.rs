//! A subject through its erased store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::AnyStore;
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::port::transfer::AnyTransferStore;

use crate::clock::TestClock;
use crate::subject::{
    CheckpointSubject, DurableSubject, Subject, TransactionalSubject, TransferSubject,
};

/// `S`, seen through [`AnyStore`] and its like.
#[derive(Debug)]
pub struct Erased<S> {
    inner: S,
    store: Arc<AnyStore>,
}

impl<S: Subject> Subject for Erased<S> {
    type Store = AnyStore;
    const SCALE: u32 = S::SCALE;
    const HISTORIES: u64 = S::HISTORIES;

    async fn open() -> Self {
        Self::of(S::open().await)
    }

    fn store(&self) -> &Arc<AnyStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        self.inner.clock()
    }

    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send {
        self.inner.advance(by)
    }
}

impl<S: Subject> Erased<S> {
    fn of(inner: S) -> Self {
        let store = Arc::new(AnyStore::new(Arc::clone(inner.store())));
        Self { inner, store }
    }
}

impl<S: DurableSubject> DurableSubject for Erased<S> {
    async fn reopen(self) -> Self {
        let Self { inner, store } = self;
        drop(store);
        Self::of(inner.reopen().await)
    }
}

impl<S: CheckpointSubject> CheckpointSubject for Erased<S> {
    type Checkpoint = AnyCheckpointStore;

    fn checkpoint(&self) -> Arc<AnyCheckpointStore> {
        Arc::new(AnyCheckpointStore::new(self.inner.checkpoint()))
    }
}

impl<S: TransferSubject> TransferSubject for Erased<S> {
    type Transfer = AnyTransferStore;

    fn transfer(&self) -> Arc<AnyTransferStore> {
        Arc::new(AnyTransferStore::new(self.inner.transfer()))
    }
}

impl<S: TransactionalSubject> TransactionalSubject for Erased<S> {
    type Transactional = AnyTransactionalStore;

    fn transactional(&self) -> Arc<AnyTransactionalStore> {
        Arc::new(AnyTransactionalStore::new(self.inner.transactional()))
    }

    fn make_table(&self) -> impl Future<Output = ()> + Send {
        self.inner.make_table()
    }

    fn rows(&self) -> impl Future<Output = Vec<(String, i64)>> + Send {
        self.inner.rows()
    }
}
