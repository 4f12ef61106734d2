//! A guarded store keeps the laws, and says at once that its store is away.

use std::sync::Arc;
use std::time::Duration;

use semel_conformance::{Subject, TestClock};
use semel_core::port::store::ListQuery;
use semel_core::{Certainty, ErrorKind, Store};
use semel_engine::event::Unobserved;
use semel_engine::layer::outage::{Breaker, Entry, Guarded, Settings};
use semel_engine::system::SystemEntropy;
use semel_store_memory::MemoryStore;

struct Behind {
    clock: TestClock,
    breaker: Arc<Breaker>,
    store: Arc<Guarded<MemoryStore>>,
}

impl Subject for Behind {
    type Store = Guarded<MemoryStore>;

    async fn open() -> Self {
        let clock = TestClock::new();
        let shared = Arc::new(clock.clone());
        let breaker = Breaker::new(Settings::default(), shared.clone(), Arc::new(SystemEntropy));
        let breaker = Arc::new(breaker);
        let store = MemoryStore::new(shared);
        let store = Guarded::new(store, Arc::clone(&breaker), Arc::new(Unobserved));
        Self {
            clock,
            breaker,
            store: Arc::new(store),
        }
    }

    fn store(&self) -> &Arc<Self::Store> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

semel_conformance::store_laws!(Behind);

#[tokio::test]
async fn while_the_breaker_is_open_a_call_is_surely_not_made_and_says_when_to_come_back() {
    let behind = Behind::open().await;
    let failed: semel_core::Result<()> = Err(semel_core::Error::new(ErrorKind::Timeout, "silence"));
    for pause in [0, 0, 0, 0, 2] {
        behind.clock.advance(Duration::from_secs(pause));
        let Entry::Call(permit) = behind.breaker.enter() else {
            panic!("it is closed");
        };
        let _ = permit.tell(&failed);
    }
    let refused = behind.store.list(&ListQuery::default()).await;
    let error = refused.expect_err("nobody calls the store");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.certainty(), Certainty::NotApplied);
    assert!(matches!(
        error.advice(),
        semel_core::Advice::Retry { after } if after >= Duration::from_millis(500)
    ));

    behind.clock.advance(Duration::from_secs(1));
    assert!(behind.store.list(&ListQuery::default()).await.is_ok());
    assert!(!behind.breaker.is_open(), "the probe was answered");
}
