//! The laws of the store ports, over this store.

use std::sync::Arc;

use semel_conformance::{CheckpointSubject, DurableSubject, Subject, TestClock, TransferSubject};
use semel_store_embedded::{EmbeddedStore, Options};
use tempfile::TempDir;

struct Embedded {
    clock: TestClock,
    store: Arc<EmbeddedStore>,
    dir: TempDir,
}

impl Embedded {
    fn open_in(dir: TempDir, clock: TestClock) -> Self {
        let options = Options::default().with_segment_bytes(16 << 10);
        let store = EmbeddedStore::open(dir.path(), Arc::new(clock.clone()), options);
        Self {
            clock,
            store: Arc::new(store.expect("the store opens")),
            dir,
        }
    }
}

impl Subject for Embedded {
    type Store = EmbeddedStore;

    async fn open() -> Self {
        Self::open_in(TempDir::new().expect("a folder"), TestClock::new())
    }

    fn store(&self) -> &Arc<EmbeddedStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

impl DurableSubject for Embedded {
    async fn reopen(self) -> Self {
        let Self { clock, store, dir } = self;
        drop(Arc::into_inner(store).expect("nobody else holds the store"));
        Self::open_in(dir, clock)
    }
}

impl CheckpointSubject for Embedded {
    type Checkpoint = EmbeddedStore;

    fn checkpoint(&self) -> Arc<EmbeddedStore> {
        Arc::clone(&self.store)
    }
}

impl TransferSubject for Embedded {
    type Transfer = EmbeddedStore;

    fn transfer(&self) -> Arc<EmbeddedStore> {
        Arc::clone(&self.store)
    }
}

semel_conformance::store_laws!(Embedded);
semel_conformance::history_laws!(Embedded);
semel_conformance::durable_laws!(Embedded);
semel_conformance::checkpoint_laws!(Embedded);
semel_conformance::durable_checkpoint_laws!(Embedded);
semel_conformance::transfer_laws!(Embedded);
semel_conformance::durable_transfer_laws!(Embedded);
semel_conformance::checkpoint_transfer_laws!(Embedded);
