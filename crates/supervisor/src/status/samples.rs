//! Gauges that are sampled beside the work: what the store holds, and how long the windows have to be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::port::horizon::{Fact, Horizon, HorizonReport};
use semel_core::port::store::{Stats, Store};
use semel_core::{Result, StateKind};
use semel_telemetry::{Sample, SampledFamily};
use tokio::time::{Instant, sleep, timeout};

use super::pace::{Pace, Reading};

/// The last counts of a store.
#[derive(Debug, Default)]
pub(crate) struct StoreSamples(Mutex<Option<Reading<Stats>>>);

impl StoreSamples {
    /// Counts over and over for as long as the future is polled: every few seconds, and more seldom where that takes
    /// long, for one part of the time in `parts`, see [`Pace`].
    pub(crate) async fn take(&self, store: impl Store, parts: u32) {
        self.take_from(|| store.estimate(MOST), parts).await;
    }

    async fn take_from<F: Future<Output = Result<Stats>>>(
        &self,
        stats: impl Fn() -> F,
        parts: u32,
    ) {
        let mut pace = Pace::new(EVERY, parts);
        loop {
            let begun = Instant::now();
            let pause = if let Ok(Ok(stats)) = timeout(PATIENCE, stats()).await {
                *self.lock() = Some(Reading::new(stats, begun));
                pace.after(begun.elapsed())
            } else {
                pace.after_failure()
            };
            sleep(pause).await;
        }
    }

    /// Returns the counts, unless they are too old.
    fn stats(&self) -> Option<Stats> {
        self.lock().as_ref()?.value().cloned()
    }

    /// Returns the families of the store, without a series while nothing is known of late.
    pub(super) fn families(&self, store: &str) -> [SampledFamily; 2] {
        let stats = self.stats();
        let bytes = stats.as_ref().and_then(|it| it.disk_bytes);
        let bytes = bytes.map(|bytes| Sample::new([("store", store)], bytes));
        let records = stats.into_iter().flat_map(|stats| {
            let words = StateKind::ALL.map(StateKind::as_str);
            let by_state = words.into_iter().zip(stats.records);
            let others = [
                ("entity", Some(stats.entities)),
                ("parked", Some(stats.parked)),
                ("audit", Some(stats.audited)),
                ("remembered", stats.remembered),
            ];
            let others = others.into_iter();
            by_state.chain(others.filter_map(|(state, count)| Some((state, count?))))
        });
        let records =
            records.map(|(state, count)| Sample::new([("store", store), ("state", state)], count));
        [
            SampledFamily::gauge(
                "semel_records",
                "Records in the store by state; entities, parked messages, the audit trail and what has passed its \
                 window as well.",
                records.collect(),
            ),
            SampledFamily::gauge(
                "semel_store_bytes",
                "Bytes that the store takes on disk, where it tells.",
                bytes.into_iter().collect(),
            ),
        ]
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reading<Stats>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The windows of the pipelines, the times for which their messages can come again, and the settings of their brokers from
/// which these follow.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    lengths: Mutex<ByPipeline>,
    facts: Mutex<BTreeMap<Box<str>, Arc<[Fact]>>>,
}

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

    /// Notes the settings of the broker of a pipeline, as they were when it was looked at last.
    pub(crate) fn rest_on(&self, pipeline: &str, horizons: &HorizonReport) {
        let facts = horizons.facts.as_slice().into();
        let mut known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(pipeline.into(), facts);
    }

    /// The settings of the broker of a pipeline; nothing where there is none, or it was not looked at yet.
    pub(super) fn facts(&self, pipeline: &str) -> Option<Arc<[Fact]>> {
        let known = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(pipeline).cloned()
    }

    /// The window of a pipeline, and for how long its messages can come again as far as that is known.
    pub(super) fn of(&self, pipeline: &str) -> Option<(Duration, Option<Horizon>)> {
        self.lock().get(pipeline).copied()
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
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time between two counts.
const EVERY: Duration = Duration::from_secs(5);
/// The records that a store is looked at for one sample: an estimate by as many is off by one or two in a hundred.
const MOST: usize = 4_096;
/// The longest wait for a count.
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use semel_core::{Error, ErrorKind};

    use super::*;

    /// The store answers, fails slowly, or does neither.
    const ANSWERS: u64 = 0;
    const FAILS: u64 = 1;
    const HANGS: u64 = 2;

    #[tokio::test(start_paused = true)]
    async fn counts_go_on_soon_after_an_outage_and_do_not_stand_through_it() {
        let (samples, state, calls) = (
            StoreSamples::default(),
            AtomicU64::new(ANSWERS),
            AtomicU64::new(0),
        );
        let answer = async || {
            calls.fetch_add(1, Ordering::Relaxed);
            match state.load(Ordering::Relaxed) {
                ANSWERS => sleep(Duration::from_millis(2)).await,
                FAILS => {
                    sleep(Duration::from_secs(20)).await;
                    return Err(Error::new(ErrorKind::Unavailable, "gone"));
                }
                _ => std::future::pending().await,
            }
            let mut counted = Stats::default();
            counted.disk_bytes = Some(calls.load(Ordering::Relaxed));
            Ok(counted)
        };
        let told = async {
            let within = async |seconds| sleep(Duration::from_secs(seconds)).await;
            within(12).await;
            assert_eq!(samples.stats().and_then(|it| it.disk_bytes), Some(3));
            for outage in [FAILS, HANGS] {
                state.store(outage, Ordering::Relaxed);
                within(20).await;
                assert_eq!(samples.stats(), None, "too old");
                within(600).await;
                state.store(ANSWERS, Ordering::Relaxed);
                // What was asked for last may have its whole time yet.
                within(PATIENCE.as_secs() + EVERY.as_secs() + 1).await;
                assert!(samples.stats().is_some(), "soon again");
            }
        };
        tokio::select! {
            () = samples.take_from(answer, 500) => {}
            () = told => {}
        }
    }
}
