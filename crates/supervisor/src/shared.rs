//! The parts that all pipelines of a worker share, and how one of them is made ready to run.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::webhook::Listeners;
use semel_config::{Accepted, PipelineSettings, StoreUrl};
use semel_engine::event::{FanOut, Observer};
use semel_engine::layer::outage::{Breaker, Policy};
use semel_engine::surroundings::Surroundings;
use semel_telemetry::traces::Traces;
use semel_worker::run::{Run, Stores};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::notice::{Notice, Reporter};
use crate::pause::{Keeper, Pauses, RelayOrders, Runs};
use crate::pipeline::Pipeline;
use crate::status::Status;
use crate::store_wait::StoreWait;
use crate::window_guard::{Guard, Known, Outlook};
use crate::{probes, relays, source_lag, traces, window_watch};

/// The parts that all pipelines of a worker share.
pub(crate) struct Shared {
    pub(crate) around: Surroundings,
    pub(crate) store: StoreUrl,
    pub(crate) store_wait: Arc<StoreWait>,
    pub(crate) stores: Stores,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) traces: Option<Traces>,
    pub(crate) status: Arc<Status>,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) stop: watch::Sender<bool>,
    /// True if anybody can ask for the metrics.
    pub(crate) is_scraped: bool,
    pub(crate) patience: Duration,
    pub(crate) accepted: Accepted,
    pub(crate) webhooks: Arc<Listeners>,
    pub(crate) pauses: Arc<Pauses>,
}

impl Shared {
    pub(crate) fn for_relays(&self, orders: Arc<RelayOrders>) -> relays::OfWorker {
        relays::OfWorker {
            around: self.around.clone(),
            reporter: Arc::clone(&self.reporter),
            stop: self.stop.clone(),
            status: Arc::clone(&self.status),
            traces: self.traces.clone(),
            is_scraped: self.is_scraped,
            pauses: Arc::clone(&self.pauses),
            orders,
        }
    }

    /// Makes a pipeline ready to run, and begins to look at its source.
    pub(crate) fn pipeline(
        &self,
        settings: PipelineSettings,
        (outlook, away): Known,
        beside: &mut JoinSet<()>,
    ) -> Pipeline {
        let (status, reporter) = (&self.status, &self.reporter);
        tell_outlook(status, &settings, outlook);
        let mut surroundings = self.around.clone();
        if self.is_scraped {
            let told = (status, reporter);
            watch_source(beside, &settings, outlook, &self.around, told);
            let counts = counts(status, &settings);
            surroundings.observer = Arc::new(FanOut::new([counts, surroundings.observer]));
        }
        reporter.report(&Notice::Begins {
            settings: &settings,
            accepted: self.accepted,
            gate: outlook.gate(&settings),
        });
        let traced = self.traces.as_ref();
        let hits =
            traced.and_then(|it| traces::watch(it, &settings, &self.store, &mut surroundings));
        let name = &settings.pipeline.name;
        let run = Run {
            surroundings,
            stop: self.stop.clone(),
            patience: self.patience,
            recalled: None,
            on_progress: Some(status.counting(name, reporter.progress(&settings))),
            dead_letters: settings.dead_letter.clone(),
        };
        let guard = (outlook == Outlook::Away).then(|| {
            let (clock, reporter) = (self.around.clock.clone(), Arc::clone(reporter));
            let health = Arc::clone(status.health());
            Guard::new(settings.clone(), clock, reporter, health, away)
        });
        status.awaits_order(name);
        Pipeline {
            stores: self.stores.clone(),
            run,
            outage: Policy::sharing(&self.breaker, settings.layers.fail),
            guard,
            reporter: Arc::clone(reporter),
            status: Arc::clone(status),
            hits,
            webhooks: Arc::clone(&self.webhooks),
            store: self.store.clone(),
            store_wait: Arc::clone(&self.store_wait),
            runs: Runs {
                pipeline: settings.pipeline.name.clone(),
                order: self.pauses.of(&settings.pipeline.name),
                stop: self.stop.subscribe(),
                status: Arc::clone(status),
                reporter: Arc::clone(reporter),
            },
            keeper: Keeper::default(),
            settings,
        }
    }
}

/// Notes what is known about the source of a pipeline.
fn tell_outlook(status: &Status, settings: &PipelineSettings, outlook: Outlook) {
    let pipeline = &settings.pipeline.name;
    match outlook {
        Outlook::NoBroker => status.health().source_reached(pipeline),
        Outlook::Judged(judgement) => {
            status.health().source_reached(pipeline);
            status.windows().needs(pipeline, judgement.needed);
        }
        Outlook::Away => {}
    }
}

/// Begins to look at the source of a pipeline, for its window and its lag.
fn watch_source(
    beside: &mut JoinSet<()>,
    settings: &PipelineSettings,
    outlook: Outlook,
    around: &Surroundings,
    (status, reporter): (&Arc<Status>, &Arc<dyn Reporter>),
) {
    beside.spawn(window_watch::watch(
        settings.clone(),
        outlook,
        Arc::clone(&around.clock),
        Arc::clone(status),
        Arc::clone(reporter),
    ));
    let (source, name) = (settings.source.clone(), settings.pipeline.name.clone());
    beside.spawn(source_lag::watch(source, name, Arc::clone(status)));
}

/// Returns the observer that counts what happens to the messages of a pipeline.
fn counts(status: &Status, settings: &PipelineSettings) -> Arc<dyn Observer> {
    let (name, effect) = (&settings.pipeline.name, settings.effect.kind());
    let counts = status.metrics().pipeline(name, effect);
    if probes::has_key_apart(settings) {
        Arc::new(counts.watching_keys())
    } else {
        Arc::new(counts)
    }
}
