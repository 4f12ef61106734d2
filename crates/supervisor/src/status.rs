//! The status of a worker: whether it is ready, what it still does before, and its counts.

mod counts;
mod declared;
mod gateway;
mod health;
mod lookups;
mod metrics;
mod overview;
mod pace;
mod probe;
mod producers;
mod relays;
mod restoration;
mod samples;
mod server;
mod watchdog;

pub(crate) use counts::Counts;
pub(crate) use declared::Declared;
pub(crate) use health::Health;
pub(crate) use lookups::Layers;
pub(crate) use pace::{Pace, Reading};
pub(crate) use probe::{Target, probe_store, probe_target};
pub(crate) use producers::{MOST as MOST_PRODUCERS, ProducerSamples};
pub(crate) use relays::Relays;
pub use restoration::{PartitionRestoration, Restoration};
pub(crate) use samples::{StoreSamples, Windows};
pub(crate) use server::serve;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use semel_backends::streamed::Monitor;
use semel_backends::webhook::Answers;
use semel_config::Ownership;
use semel_core::Clock;
use semel_core::port::source::Progress;
use semel_engine::summary::Summary;
use semel_engine::surroundings::OnProgress;
use semel_operate::pipelines::{OrderedPause, PauseKind};
use semel_proxy::Proxy;
use semel_telemetry::history::{self, History};
use semel_telemetry::{Build, Format, Metrics};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::sleep;

use self::health::{Because, Reason};

/// The status of a worker; see the module.
pub(crate) struct Status {
    has_begun: AtomicBool,
    is_stopped: watch::Receiver<bool>,
    serves_claims: AtomicBool,
    gateway: OnceLock<Proxy>,
    pipelines: Mutex<BTreeMap<Box<str>, Pipeline>>,
    health: Arc<Health>,
    /// The url of the store as it may be shown.
    store: Box<str>,
    aside: Counts,
    store_samples: StoreSamples,
    producers: ProducerSamples,
    windows: Windows,
    layers: Layers,
    relays: Relays,
    metrics: Metrics,
    history: History,
}

#[derive(Clone, Default)]
struct Pipeline {
    declared: Option<Arc<Declared>>,
    streamed: Option<Arc<dyn Monitor>>,
    /// The summary that the run reports now and then.
    summary: Summary,
    /// The count of messages that the broker has not handed over.
    lag: Option<Reading<u64>>,
    /// The bytes that a file has and has not handed over, if they are known.
    bytes_left: Option<u64>,
    /// The counts of what a provider was answered.
    webhook: Option<Arc<Answers>>,
    /// The order by which it is paused, and whether that is done.
    pause: Option<(OrderedPause, bool)>,
    /// The store has not told yet whether it is to run.
    awaits_order: bool,
    /// Its source is not open yet: requests come to it, which are told to come again, or the run cannot be made now.
    awaits_source: bool,
    /// Its source was open once, or it was paused: its start keeps the worker from being ready no more.
    is_settled: bool,
}

/// The current activity of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Doing {
    /// The worker has no store yet, looks at its brokers, does not know yet which pipelines are paused, opens the source
    /// that requests come to, or cannot make a run now. A pipeline does the latter two after a pause too, while the
    /// worker stays ready.
    Starting,
    /// The worker reads what was done before; work that depends on it waits.
    Restoring,
    /// The worker works.
    Running,
    /// The pipeline is to be paused, and finishes what runs.
    Pausing,
    /// The pipeline is to be paused, and finishes everything in hand.
    Draining,
    /// The pipeline is paused by an order.
    Paused,
    /// The worker was asked to stop.
    Stopping,
    /// The worker waits for something that does not answer.
    #[serde(untagged)]
    Waiting(Reason),
}

/// The answer at `/readyz`.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Readiness {
    state: Doing,
    pipelines: BTreeMap<Box<str>, PipelineReadiness>,
    /// The relays, if there are any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    relays: BTreeMap<Box<str>, ServiceReadiness>,
    /// The claim API, if it is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    claims: Option<ServiceReadiness>,
    /// The gateway, if an API is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<ServiceReadiness>,
}

#[derive(Debug, PartialEq, Serialize)]
struct ServiceReadiness {
    state: Doing,
    /// The dependencies that have not answered for too long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<Because>,
    /// The order by which it is paused, while there is one. Relays alone can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<OrderedPause>,
}

#[derive(Debug, PartialEq, Serialize)]
struct PipelineReadiness {
    state: Doing,
    /// The team or the person that an alert goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Box<str>>,
    /// The page that says what to do then.
    #[serde(skip_serializing_if = "Option::is_none")]
    runbook: Option<Box<str>>,
    /// The dependencies that have not answered for too long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<Because>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restored: Option<Restoration>,
    /// The order by which it is paused, while there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<OrderedPause>,
}

impl Status {
    /// The status of a worker that has yet to begin; `Stopping` once a stop was asked for. `store` is the url
    /// of its store as it may be shown.
    pub(crate) fn new(
        is_stopped: watch::Receiver<bool>,
        health: Arc<Health>,
        store: impl Into<Box<str>>,
    ) -> Arc<Self> {
        let status = Arc::new(Self {
            has_begun: AtomicBool::new(false),
            is_stopped,
            serves_claims: AtomicBool::new(false),
            gateway: OnceLock::new(),
            pipelines: Mutex::default(),
            relays: Relays::new(Arc::clone(&health)),
            health,
            store: store.into(),
            aside: Counts::default(),
            store_samples: StoreSamples::default(),
            producers: ProducerSamples::default(),
            windows: Windows::default(),
            layers: Layers::default(),
            metrics: Metrics::new(BUILD),
            history: History::default(),
        });
        metrics::register(&status.metrics, &status);
        status
    }

    /// Returns the metrics of the worker.
    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Keeps the last hour of the metrics, for as long as the future is polled.
    pub(crate) async fn remember(&self, clock: &dyn Clock) {
        loop {
            let text = self.metrics.text(Format::Prometheus);
            self.history.take(&text, clock.monotonic(), clock.now());
            sleep(history::STEP).await;
        }
    }

    /// Returns the url of the store as it may be shown.
    pub(crate) const fn store(&self) -> &str {
        &self.store
    }

    /// Adds a pipeline that is declared like this. It may not run yet; its metrics are zero until it does.
    pub(crate) fn expects(&self, pipeline: &str, declared: Declared) {
        let _ = self.metrics.pipeline(pipeline, declared.effect);
        self.health.knows(pipeline);
        self.change(pipeline, |it| it.declared = Some(Arc::new(declared)));
    }

    /// Adds a relay. It may not run yet; its metrics are zero until it does.
    pub(crate) fn expects_relay(&self, relay: &str) {
        let _ = self.metrics.relay(relay);
        self.relays.knows(relay);
    }

    /// The relays.
    pub(crate) const fn relays(&self) -> &Relays {
        &self.relays
    }

    /// Notes that the claim API is served.
    pub(crate) fn expects_claims(&self) {
        self.serves_claims.store(true, Ordering::Relaxed);
    }

    /// Notes that an API is served by this proxy. There is one in a worker.
    pub(crate) fn serves_api(&self, proxy: Proxy) {
        let _ = self.gateway.set(proxy);
    }

    /// The proxy that serves an API, if one does.
    pub(crate) fn gateway(&self) -> Option<&Proxy> {
        self.gateway.get()
    }

    /// The health of what its pipelines depend on.
    pub(crate) const fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// The counts of what is set aside.
    pub(crate) const fn aside(&self) -> &Counts {
        &self.aside
    }

    /// The counts of what the store holds.
    pub(crate) const fn store_samples(&self) -> &StoreSamples {
        &self.store_samples
    }

    /// The counts of what waits in the store for its producers.
    pub(crate) const fn producers(&self) -> &ProducerSamples {
        &self.producers
    }

    /// The windows of the pipelines, and how long they have to be.
    pub(crate) const fn windows(&self) -> &Windows {
        &self.windows
    }

    /// The layers of the pipelines.
    pub(crate) const fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Notes that its pipelines run.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Relaxed);
    }

    /// Notes that a pipeline restores what was done before it works on a partition.
    pub(crate) fn restores(&self, pipeline: &str, streamed: Arc<dyn Monitor>) {
        self.change(pipeline, |it| it.streamed = Some(streamed));
    }

    /// Notes what the broker of a pipeline has and has not handed over; none if that is not known.
    pub(crate) fn lags(&self, pipeline: &str, lag: Option<Reading<u64>>) {
        self.change(pipeline, |it| it.lag = lag);
    }

    /// Notes that a pipeline or a relay begins nothing before the store has told whether it is to run. No relay has the
    /// name of a pipeline.
    pub(crate) fn awaits_order(&self, name: &str) {
        if !self.relays.awaits_order(name) {
            self.change(name, |it| it.awaits_order = true);
        }
    }

    /// Notes that a pipeline or a relay is to be paused, or to be drained, and finishes its run first.
    pub(crate) fn is_to_pause(&self, name: &str, pause: OrderedPause) {
        if !self.relays.is_to_pause(name, &pause) {
            self.change(name, |it| it.pause = Some((pause, false)));
        }
    }

    /// Notes, between two runs of a pipeline or a relay, the order by which it is paused, or that it runs now.
    pub(crate) fn paused(&self, pipeline: &str, pause: Option<OrderedPause>) {
        if self.relays.paused(pipeline, pause.as_ref()) {
            return;
        }
        self.health.is_between_runs(pipeline);
        self.change(pipeline, |it| {
            it.is_settled |= pause.is_some();
            it.pause = pause.map(|pause| (pause, true));
            it.awaits_order = false;
            it.awaits_source = it.webhook.is_some();
        });
    }

    /// Notes that a run of a pipeline cannot be made now, so that no source of it is open.
    pub(crate) fn awaits_source(&self, pipeline: &str) {
        self.change(pipeline, |it| it.awaits_source = true);
    }

    /// Notes that the source of a pipeline is open.
    pub(crate) fn takes_requests(&self, pipeline: &str) {
        self.change(pipeline, |it| {
            it.awaits_source = false;
            it.is_settled = true;
        });
    }

    /// Tells whether a pipeline is paused, and has no source open.
    pub(super) fn is_paused(&self, pipeline: &str) -> bool {
        let pipelines = self.lock();
        let pause = pipelines.get(pipeline).and_then(|it| it.pause.as_ref());
        pause.is_some_and(|(_, is_done)| *is_done)
    }

    /// Notes where the answers to those who send to a pipeline are counted. Until its source is open, it is not ready.
    pub(crate) fn takes_webhooks(&self, pipeline: &str, answers: Arc<Answers>) {
        self.change(pipeline, |it| {
            it.webhook = Some(answers);
            it.awaits_source = true;
        });
    }

    /// Returns a function that takes note of a pipeline's counts, beside `progress`.
    pub(crate) fn counting(self: &Arc<Self>, pipeline: &str, progress: OnProgress) -> OnProgress {
        let status = Arc::clone(self);
        let pipeline: Box<str> = pipeline.into();
        self.change(&pipeline, |_| {});
        Arc::new(move |read, summary| {
            status.change(&pipeline, |it| {
                it.summary = *summary;
                let left = |read: Progress| Some(read.total_bytes?.saturating_sub(read.read_bytes));
                it.bytes_left = read.and_then(left).or(it.bytes_left);
            });
            progress(read, summary);
        })
    }

    pub(crate) fn readiness(&self) -> Readiness {
        let has_begun = self.has_begun.load(Ordering::Relaxed);
        let pipelines = self.lock().clone();
        let mut is_starting = false;
        let pipelines = pipelines.into_iter().map(|(name, pipeline)| {
            let restored = pipeline.streamed.map(|it| Restoration::of(&it.restored()));
            let is_open = restored.as_ref().is_some_and(|it| !it.is_done());
            let reasons = self.health.reasons(&name);
            let ownership = pipeline.declared.map(|it| it.ownership.clone());
            let Ownership { owner, runbook } = ownership.unwrap_or_default();
            let state = match (&pipeline.pause, reasons.first()) {
                (_, Some(because)) if because.reason == Reason::StoreAway => {
                    Doing::Waiting(because.reason)
                }
                // An order is no trouble, whatever its source or its target does meanwhile.
                (Some((_, true)), _) => Doing::Paused,
                (_, Some(because)) => Doing::Waiting(because.reason),
                (Some((pause, false)), None) => Doing::by(pause.kind),
                (None, None) if !has_begun || pipeline.awaits_order || pipeline.awaits_source => {
                    Doing::Starting
                }
                (None, None) if is_open => Doing::Restoring,
                (None, None) => Doing::Running,
            };
            is_starting |= state == Doing::Starting && !pipeline.is_settled;
            let paused = pipeline.pause.map(|(pause, _)| pause);
            let readiness = PipelineReadiness {
                state,
                owner,
                runbook,
                reasons,
                restored,
                paused,
            };
            (name, readiness)
        });
        let pipelines: BTreeMap<_, _> = pipelines.collect();
        let claims = self.claims(has_begun);
        let gateway = self.gateway.get().map(|_| {
            let reasons = self.health.reasons_of_gateway();
            ServiceReadiness::of(reasons, has_begun)
        });
        let relays = self.relays.readiness(has_begun);
        let states = pipelines.values().map(|it| it.state);
        let services = claims.iter().chain(&gateway).chain(relays.values());
        let mut states = states.chain(services.map(|it| it.state));
        let waiting = states.find(|state| matches!(state, Doing::Waiting(_)));
        let mut relayed = relays.values().map(|it| it.state);
        let state = if *self.is_stopped.borrow() {
            Doing::Stopping
        } else if !has_begun {
            Doing::Starting
        } else if let Some(waiting) = waiting {
            waiting
        } else if is_starting || relayed.any(|it| it == Doing::Starting) {
            Doing::Starting
        } else if pipelines.values().any(|it| it.state == Doing::Restoring) {
            Doing::Restoring
        } else {
            Doing::Running
        };
        Readiness {
            state,
            pipelines,
            relays,
            claims,
            gateway,
        }
    }

    /// The readiness of the claim API, which depends on the store alone.
    fn claims(&self, has_begun: bool) -> Option<ServiceReadiness> {
        if !self.serves_claims.load(Ordering::Relaxed) {
            return None;
        }
        let reasons = self.health.reason_of_store().into_iter().collect();
        Some(ServiceReadiness::of(reasons, has_begun))
    }

    fn change(&self, pipeline: &str, change: impl FnOnce(&mut Pipeline)) {
        let mut all = self.lock();
        if let Some(known) = all.get_mut(pipeline) {
            change(known);
            return;
        }
        change(all.entry(pipeline.into()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Pipeline>> {
        self.pipelines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Doing {
    /// The activity of a pipeline that is to be paused in this way.
    const fn by(kind: PauseKind) -> Self {
        match kind {
            PauseKind::Pause => Self::Pausing,
            PauseKind::Drain => Self::Draining,
        }
    }
}

impl ServiceReadiness {
    fn of(reasons: Vec<Because>, has_begun: bool) -> Self {
        let state = match reasons.first() {
            Some(because) => Doing::Waiting(because.reason),
            None if !has_begun => Doing::Starting,
            None => Doing::Running,
        };
        Self {
            state,
            reasons,
            paused: None,
        }
    }
}

impl Readiness {
    pub(crate) fn is_ready(&self) -> bool {
        self.state == Doing::Running
    }
}

/// The build of this worker.
const BUILD: Build = Build {
    version: env!("CARGO_PKG_VERSION"),
    commit: match option_env!("SEMEL_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
};

#[cfg(test)]
mod tests;
