//! Whole pipelines over each layer: every key comes several times, and its effect happens once.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::{Claimant, Result, Store};
use semel_engine::effect::OnDoubt;
use semel_engine::event::Unobserved;
use semel_engine::handler::Builder;
use semel_engine::layer::approximate::{Approximate, Settings as Filtered};
use semel_engine::layer::outage::{Breaker, Guarded, Settings as Outages};
use semel_engine::layer::tiered::{Settings as Cached, Tiered};
use semel_engine::once::Settings;
use semel_engine::summary::{Fate, Summary};
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_store_memory::MemoryStore;

/// A list of lines that ends.
struct Lines(VecDeque<(DeliveryId, String)>);

impl Source for Lines {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let count = max.min(self.0.len());
        if count == 0 {
            return Ok(Fetched::Ended);
        }
        let taken = self.0.drain(..count);
        let deliveries = taken.map(|(id, line)| Delivery::new(id, line, format!("line {}", id.0)));
        Ok(Fetched::Deliveries(deliveries.collect()))
    }

    async fn acknowledge(&mut self, _batch: &[Acknowledgement]) -> Result<()> {
        Ok(())
    }

    async fn requeue(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

const KEYS: u64 = 50;
const TIMES: u64 = 8;

fn surroundings() -> Surroundings {
    Surroundings {
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        claimant: Claimant::random(&SystemEntropy),
        observer: Arc::new(Unobserved),
    }
}

/// Runs every key [`TIMES`] times over `store`; returns how often the effect of each happened.
async fn run(store: impl Store + Clone) -> (Summary, BTreeMap<Vec<u8>, u64>) {
    let lines = (0..KEYS * TIMES).map(|at| (DeliveryId(at), format!("key {}", at % KEYS)));
    let effects: Arc<Mutex<BTreeMap<Vec<u8>, u64>>> = Arc::default();
    let counted = Arc::clone(&effects);
    let settings = Settings::default();
    let source = Lines(lines.collect());
    let builder = Builder::new("lines", source, store, surroundings(), &settings)
        .unkeyed(OnDoubt::Repeat)
        .batch(20);
    let summary = builder.run(move |message| {
        let counted = Arc::clone(&counted);
        async move {
            let mut effects = counted.lock().expect("counting never panics");
            *effects.entry(message.payload().to_vec()).or_default() += 1;
            Ok(())
        }
    });
    let summary = summary.await.expect("a summary");
    let effects = effects.lock().expect("counting never panics").clone();
    (summary, effects)
}

fn check((summary, effects): &(Summary, BTreeMap<Vec<u8>, u64>)) {
    assert_eq!(summary.of(Fate::Applied), KEYS);
    assert_eq!(summary.of(Fate::Replayed), KEYS * (TIMES - 1));
    assert_eq!(effects.len() as u64, KEYS);
    assert!(effects.values().all(|count| *count == 1), "{effects:?}");
}

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))
}

#[tokio::test]
async fn over_a_cache_most_duplicates_never_reach_the_store() {
    let clock = Arc::new(SystemClock::new());
    let tiered = Arc::new(Tiered::new(memory(), Cached::default(), clock));
    check(&run(Arc::clone(&tiered)).await);
    let statistics = tiered.statistics();
    assert!(statistics.answered >= KEYS * (TIMES - 3), "{statistics:?}");
    assert!(statistics.asked <= KEYS * 2, "{statistics:?}");
}

#[tokio::test]
async fn over_a_filter_every_duplicate_is_skipped() {
    let clock = Arc::new(SystemClock::new());
    let settings = Filtered {
        error_rate: 1e-9,
        ..Filtered::new(Duration::from_secs(3_600), KEYS)
    };
    let store = Approximate::new(memory(), settings, clock, &SystemEntropy);
    let store = Arc::new(store.expect("settings that hold"));
    check(&run(Arc::clone(&store)).await);
    let statistics = store.statistics();
    assert_eq!(statistics.skipped, KEYS * (TIMES - 1));
    assert_eq!((statistics.finished, statistics.unfinished), (KEYS, 0));
}

#[tokio::test]
async fn over_a_guard_nothing_changes() {
    let clock = Arc::new(SystemClock::new());
    let breaker = Breaker::new(Outages::default(), clock, Arc::new(SystemEntropy));
    let store = Guarded::new(memory(), Arc::new(breaker), Arc::new(Unobserved));
    check(&Box::pin(run(store)).await);
}
