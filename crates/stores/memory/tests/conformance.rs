//! The memory store keeps the laws.

use std::sync::Arc;

use semel_conformance::{CheckpointSubject, Subject, TestClock, TransferSubject};
use semel_core::Store;
use semel_core::port::store::Durability;
use semel_store_memory::MemoryStore;

struct Memory {
    clock: TestClock,
    store: Arc<MemoryStore>,
}

impl Subject for Memory {
    type Store = MemoryStore;

    async fn open() -> Self {
        let clock = TestClock::new();
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        Self { clock, store }
    }

    fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

impl CheckpointSubject for Memory {
    type Checkpoint = MemoryStore;

    fn checkpoint(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store)
    }
}

impl TransferSubject for Memory {
    type Transfer = MemoryStore;

    fn transfer(&self) -> Arc<MemoryStore> {
        Arc::clone(&self.store)
    }
}

#[tokio::test]
async fn it_says_that_it_forgets() -> semel_core::Result<()> {
    let found = Memory::open().await.store().preflight().await?;
    assert_eq!(found.durability, Durability::Process);
    assert!(!found.shared && found.warnings[0].contains("FORGETS"));
    Ok(())
}

semel_conformance::store_laws!(Memory);
semel_conformance::checkpoint_laws!(Memory);
semel_conformance::transfer_laws!(Memory);
semel_conformance::checkpoint_transfer_laws!(Memory);
semel_conformance::history_laws!(Memory);

/// Through the smallest layer there is: the laws do not see it.
mod observed {
    type Observed = semel_conformance::Observed<super::Memory>;

    semel_conformance::store_laws!(Observed);
    semel_conformance::checkpoint_laws!(Observed);
    semel_conformance::transfer_laws!(Observed);
    semel_conformance::checkpoint_transfer_laws!(Observed);
}

/// Producers whose journal every process shares.
struct Producers(Arc<semel_store_memory::MemoryProducers>);

impl semel_conformance::producers::ProducerSubject for Producers {
    type Journal = semel_core::port::producer::AnyProducerJournal;

    async fn open() -> Self {
        Self(Arc::default())
    }

    async fn journal(&self) -> Self::Journal {
        Self::Journal::shared(Arc::clone(&self.0))
    }
}

semel_conformance::producer_laws!(Producers);

/// Messages of others, in a journal that every process shares.
struct Ingest(Arc<semel_store_memory::MemoryIngest>);

impl semel_conformance::ingest::IngestSubject for Ingest {
    type Journal = semel_core::port::ingest::AnyIngestJournal;

    async fn open() -> Self {
        Self(Arc::default())
    }

    async fn journal(&self) -> Self::Journal {
        Self::Journal::shared(Arc::clone(&self.0))
    }
}

semel_conformance::ingest_laws!(Ingest);

#[test]
fn the_input_used_longest_ago_is_forgotten_first() {
    use semel_conformance::producers::{check, laws};
    check(laws::the_input_used_longest_ago_is_forgotten_first::<Producers>);
}
