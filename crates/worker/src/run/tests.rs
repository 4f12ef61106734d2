use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::key::KeySelector;
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Progress};
use semel_core::{
    Admission, Backoff, ClaimRequest, Claimant, Mark, Outcome, Scope, Settlement, Window,
};
use semel_engine::event::Unobserved;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_store_memory::MemoryStore;
use tempfile::TempDir;
use tokio::time::sleep;

use super::*;

/// A store whose marks are away.
#[derive(Default)]
struct Away(Arc<AtomicUsize>);

fn away<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unavailable, "connection refused"))
}

impl CheckpointStore for Away {
    async fn settle_with(&self, _: Arc<[Settlement]>, _: &Mark) -> Result<Together> {
        away()
    }

    async fn admit_with(&self, _: Vec<ClaimRequest>, _: Write) -> Result<Vec<Admission>> {
        away()
    }

    async fn mark(&self, _: &str) -> Result<Option<u64>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        away()
    }
}

/// Hands nothing over.
struct Idle;

impl Source for Idle {
    async fn fetch(&mut self, _: usize) -> Result<Fetched> {
        std::future::pending().await
    }

    async fn acknowledge(&mut self, _: &[Acknowledgement]) -> Result<()> {
        Ok(())
    }

    async fn requeue(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn extend(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

fn pipeline() -> Pipeline {
    Pipeline {
        name: "payments".into(),
        scope: Scope::new("", "payments").expect("a scope"),
        tenant: None,
        key: KeySelector::try_from(vec!["json:/id".parse().expect("a selector")])
            .expect("a key selector"),
        fingerprint: FingerprintSelector::Payload,
        transport: None,
        birth: None,
        order: None,
        gate: None,
        window: Window::DEFAULT,
        lease: Duration::from_secs(30),
        limits: AttemptLimits::default(),
        backoff: Backoff {
            first: Duration::from_millis(1),
            most: Duration::from_millis(1),
        },
        outcome_limit_bytes: Outcome::DEFAULT_LIMIT_BYTES,
        batch: 100,
        concurrency: 1,
        max_message_bytes: 1 << 20,
        pause_after: 20,
        bind: None,
        live_only: false,
    }
}

/// A run has nothing in hand before its output agrees with the mark of the store: then a stop waits for nothing.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_a_run_well_whose_store_is_away_before_it_has_begun() {
    let folder = TempDir::new().expect("a folder");
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let marks = Away::default();
    let asked = Arc::clone(&marks.0);
    let stores = Stores {
        store: AnyStore::new(store),
        checkpoints: Some(AnyCheckpointStore::new(marks)),
        transactions: None,
        transfer: None,
        lent: None,
    };
    let around = Run {
        surroundings: Surroundings {
            clock,
            entropy: Arc::new(SystemEntropy),
            claimant: Claimant::random(&SystemEntropy),
            observer: Arc::new(Unobserved),
        },
        stop: watch::channel(false).0,
        patience: Duration::from_secs(30),
        recalled: None,
        on_progress: None,
        dead_letters: None,
    };
    let stop = around.stop.clone();
    let effect = EffectSettings::File {
        path: folder.path().join("out"),
    };
    let running = tokio::spawn(run(pipeline(), effect, Idle, stores, around));
    while asked.load(Ordering::Relaxed) < 3 {
        sleep(Duration::from_millis(10)).await;
    }
    stop.send_replace(true);
    let ended = running.await.expect("no panic");
    assert_eq!(ended.expect("a good end").deliveries(), 0);
}
