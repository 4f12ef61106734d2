//! Gauges that are sampled beside the work: what the store holds, and how long the windows have to be.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::StateKind;
use semel_core::port::horizon::Horizon;
use semel_core::port::store::{Stats, Store};
use semel_telemetry::{Sample, SampledFamily};
use tokio::time::{Instant, sleep};

/// The last counts of a store.
#[derive(Debug, Default)]
pub(crate) struct StoreSamples(Mutex<Option<Stats>>);

impl StoreSamples {
    /// Counts over and over for as long as the future is polled: every few seconds, and so that the store
    /// spends no more than one part of its time in `parts` on it. While the store fails, the last counts stand.
    pub(crate) async fn take(&self, store: impl Store, parts: u32) {
        loop {
            let begun = Instant::now();
            if let Ok(stats) = store.stats().await {
                *self.lock() = Some(stats);
            }
            sleep(EVERY.max(begun.elapsed() * parts)).await;
        }
    }

    /// Returns the families of the store, without a series before the first count.
    pub(super) fn families(&self, store: &str) -> [SampledFamily; 2] {
        let stats = self.lock().clone();
        let bytes = stats.as_ref().and_then(|it| it.disk_bytes);
        let bytes = bytes.map(|bytes| Sample::new([("store", store)], bytes));
        let records = stats.into_iter().flat_map(|stats| {
            let words = StateKind::ALL.map(StateKind::as_str);
            let by_state = words.into_iter().zip(stats.records);
            by_state.chain([("entity", stats.entities), ("parked", stats.parked)])
        });
        let records =
            records.map(|(state, count)| Sample::new([("store", store), ("state", state)], count));
        [
            SampledFamily::gauge(
                "semel_records",
                "Records in the store by state, entities and parked messages as well.",
                records.collect(),
            ),
            SampledFamily::gauge(
                "semel_store_bytes",
                "Bytes that the store takes on disk, where it tells.",
                bytes.into_iter().collect(),
            ),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stats>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The windows of the pipelines, and the times for which their messages can come again.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<ByPipeline>);

/// The window of each pipeline, and how long it has to be as far as that is known.
type ByPipeline = BTreeMap<Box<str>, (Duration, Option<Horizon>)>;

impl Windows {
    /// Adds a pipeline with this window.
    pub(crate) fn knows(&self, pipeline: &str, window: Duration) {
        self.lock().insert(pipeline.into(), (window, None));
    }

    /// Notes for how long a message of a pipeline can come again, attempts and margin included.
    pub(crate) fn needs(&self, pipeline: &str, needed: Horizon) {
        if let Some((_, known)) = self.lock().get_mut(pipeline) {
            *known = Some(needed);
        }
    }

    pub(super) fn families(&self) -> [SampledFamily; 2] {
        let (mut windows, mut needs) = (Vec::new(), Vec::new());
        for (pipeline, (window, needed)) in &*self.lock() {
            let labels = [("pipeline", &**pipeline)];
            windows.push(Sample::real(labels, window.as_secs_f64()));
            let needed = match needed {
                Some(Horizon::Within(needed)) => needed.as_secs_f64(),
                Some(Horizon::Endless) => f64::INFINITY,
                Some(Horizon::Unknown) | None => continue,
            };
            needs.push(Sample::real(labels, needed));
        }
        [
            SampledFamily::gauge(
                "semel_window_seconds",
                "The window: for how long a finished key is remembered, in seconds.",
                windows,
            ),
            SampledFamily::gauge(
                "semel_window_needed_seconds",
                "For how long a message can come again, attempts and margin included, in seconds.",
                needs,
            ),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, ByPipeline> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time between two counts.
const EVERY: Duration = Duration::from_secs(5);
