//! The supervisor: opens the store, begins the pipelines and what runs beside them, and waits for all of them.

use std::sync::Arc;
use std::time::Duration;

use semel_backends::store;
use semel_config::{Accepted, PipelineSettings, Settings, StoreUrl};
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::store::AnyStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::{Claimant, Clock, Entropy, Error, ErrorKind, Result};
use semel_engine::event::{FanOut, Observer};
use semel_engine::layer::outage::{self, Breaker, Policy};
use semel_engine::surroundings::{Shutdown, Surroundings};
use semel_engine::sweep::{self, sweep_until};
use semel_telemetry::traces::Exporter;
use semel_worker::run::{Run, Stores};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::notice::{Notice, Reporter};
use crate::pipeline::Pipeline;
use crate::preflight::{self, preflight};
use crate::results::{PipelineSummary, Results};
use crate::status::{self, Status};
use crate::store_opening;
use crate::store_watch::StoreWatch;
use crate::window_guard::{Guard, Known, Outlook, outlooks};
use crate::{key_count, probes, source_lag, traces, window_watch};

/// The parts of a worker that its program hands in.
pub struct Options {
    /// The store, the pipelines and the listener.
    pub settings: Settings,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The entropy.
    pub entropy: Arc<dyn Entropy>,
    /// Receives the events of the engine.
    pub observer: Arc<dyn Observer>,
    /// Receives the notices of the supervisor.
    pub reporter: Arc<dyn Reporter>,
    /// Turned `true` to stop, by the program, or by the worker itself: when one of its pipelines fails, when the files
    /// of its store are gone, and when nobody reads its output any more. One channel for each worker.
    pub stop: watch::Sender<bool>,
}

/// A worker without a store, whose status is reported already.
pub struct Supervisor {
    options: Options,
    status: Arc<Status>,
    beside: JoinSet<()>,
}

/// A worker whose store has been opened.
pub struct Worker {
    supervisor: Supervisor,
    stores: Stores,
    store_watch: StoreWatch,
    claimant: Claimant,
}

/// The end of opening.
pub enum Opened {
    /// The worker can run.
    Worker(Box<Worker>),
    /// A stop was asked for before the store was there; the results say that nothing was done.
    Stopped(Results),
}

impl Supervisor {
    /// Begins to report the status, if the settings name an address for it.
    ///
    /// # Errors
    ///
    /// `Unavailable`: the address cannot be listened at.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn new(options: Options) -> Result<Self> {
        let settings = &options.settings;
        let status = probes::status(
            settings,
            Arc::clone(&options.clock),
            options.stop.subscribe(),
        );
        let mut beside = JoinSet::new();
        if let Some(address) = settings.admin.listen {
            beside.spawn(status::serve(address, Arc::clone(&status)).await?);
        }
        Ok(Self {
            options,
            status,
            beside,
        })
    }

    /// Opens the store, and checks what it promises. A server that is away is waited for, until a stop is asked
    /// for.
    ///
    /// # Errors
    ///
    /// Those of opening the store, with its url, and of reading it; `Unsupported`: it is too weak for a pipeline.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the store, if that is open; no message has begun.
    pub async fn open(mut self) -> Result<Opened> {
        let Options {
            settings,
            clock,
            entropy,
            reporter,
            stop,
            observer: _,
        } = &self.options;
        let (url, accepted, reporter) = (&settings.store, settings.accepted, &**reporter);
        let before = store::older_format(url).await;
        let health = self.status.health();
        let clock = Arc::clone(clock);
        let opened =
            store_opening::wait(url, accepted, clock, reporter, health, stop.subscribe()).await?;
        let Some(store_opening::Opened { stores, is_new }) = opened else {
            return Ok(Opened::Stopped(Results::of_none(&settings.pipelines)));
        };
        if let Some((from, to)) = store::brought_forward(url, before).await? {
            reporter.report(&Notice::StoreBroughtForward { url, from, to });
        }
        key_count::report(url, &stores.store, is_new, reporter).await;
        self.beside.spawn(orders(url, &stores, reporter));
        let store_watch = StoreWatch::of(url);
        let effects = preflight::effects(&settings.pipelines);
        preflight(url, accepted, &stores, effects, |it| reporter.report(it)).await?;
        let claimant = Claimant::random(&**entropy);
        reporter.report(&Notice::Claimant(claimant));
        Ok(Opened::Worker(Box::new(Worker {
            supervisor: self,
            stores,
            store_watch,
            claimant,
        })))
    }
}

impl Worker {
    /// Runs the pipelines until their sources end or a stop is asked for. One that fails ends the others.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: a window that a broker can outlive; those of a source that cannot be used; `Internal`:
    /// a pipeline panicked. The failure of a pipeline is part of the results.
    ///
    /// # Cancel safety
    ///
    /// Dropping it aborts the pipelines in the middle of their messages, as a kill would: nothing is lost, and what was
    /// in hand waits for its leases. Ask for a stop by [`Options::stop`] instead. The store is closed when this returns,
    /// which waits for its last write.
    pub async fn run(self) -> Result<Results> {
        let Self {
            supervisor,
            stores,
            store_watch,
            claimant,
        } = self;
        let Supervisor {
            options,
            status,
            mut beside,
        } = supervisor;
        let Options {
            settings,
            clock,
            entropy,
            observer,
            reporter,
            stop,
        } = options;
        let health: Arc<dyn Observer> = status.health().clone();
        let around = Surroundings {
            clock,
            entropy,
            claimant,
            observer: Arc::new(FanOut::new([health, Arc::clone(&observer)])),
        };
        let is_scraped = settings.admin.listen.is_some();
        let stores = if is_scraped {
            measured(stores, &status, &around.clock)
        } else {
            stores
        };
        let pipelines = &settings.pipelines;
        let outlooks = outlooks(pipelines, &*around.clock, &*reporter, stop.subscribe()).await?;
        beside.spawn(store_watch.clone().watch(stop.clone()));
        let shutdown = Shutdown {
            requested: stop.subscribe(),
            patience: settings.shutdown,
        };
        let every = sweep_every(pipelines);
        beside.spawn(sweep_until(stores.store.clone(), every, shutdown, observer));
        let breaker = Arc::new(Breaker::new(
            outage::Settings::default(),
            around.clock.clone(),
            around.entropy.clone(),
        ));
        probes::begin(&mut beside, &settings, &stores, &status, &breaker, &around);
        let lost = status.metrics().spans_lost();
        let exporter = traces::begin(&settings.telemetry, claimant, lost.clone(), &reporter);
        let shared = Shared {
            around,
            store: settings.store,
            stores,
            breaker,
            exporter,
            status,
            reporter,
            stop,
            is_scraped,
            patience: settings.shutdown,
            accepted: settings.accepted,
        };
        let mut running = JoinSet::new();
        for (pipeline, known) in settings.pipelines.into_iter().zip(outlooks) {
            running.spawn(shared.pipeline(pipeline, known, &mut beside).run());
        }
        let Shared {
            exporter,
            status,
            reporter,
            stop,
            ..
        } = shared;
        status.begin();
        let ended = all(running, &stop).await;
        traces::end(exporter, &lost, &*reporter).await;
        let mut results = ended?;
        beside.shutdown().await;
        results.failure = results.failure.or_else(|| store_watch.check().err());
        Ok(results)
    }
}

/// The parts that all pipelines of a worker share.
struct Shared {
    around: Surroundings,
    store: StoreUrl,
    stores: Stores,
    breaker: Arc<Breaker>,
    exporter: Option<Exporter>,
    status: Arc<Status>,
    reporter: Arc<dyn Reporter>,
    stop: watch::Sender<bool>,
    /// True if anybody can ask for the metrics.
    is_scraped: bool,
    patience: Duration,
    accepted: Accepted,
}

impl Shared {
    /// Makes a pipeline ready to run, and begins to look at its source.
    fn pipeline(
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
        let exporter = self.exporter.as_ref();
        let hits =
            exporter.and_then(|it| traces::watch(it, &settings, &self.store, &mut surroundings));
        let name = &settings.pipeline.name;
        let run = Run {
            surroundings,
            stop: self.stop.clone(),
            patience: self.patience,
            on_progress: Some(status.counting(name, reporter.progress(&settings))),
            dead_letters: settings.dead_letter.clone(),
        };
        let guard = (outlook == Outlook::Away).then(|| {
            let (clock, reporter) = (self.around.clock.clone(), Arc::clone(reporter));
            let health = Arc::clone(status.health());
            Guard::new(settings.clone(), clock, reporter, health, away)
        });
        Pipeline {
            stores: self.stores.clone(),
            run,
            outage: Policy::sharing(&self.breaker, settings.layers.fail),
            guard,
            reporter: Arc::clone(reporter),
            status: Arc::clone(status),
            hits,
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

/// Returns the same stores, whose calls are timed. Orders of other processes and the moving of a store are not.
fn measured(stores: Stores, status: &Status, clock: &Arc<dyn Clock>) -> Stores {
    let metrics = status.metrics().store(status.store(), Arc::clone(clock));
    Stores {
        store: AnyStore::new(metrics.measure(stores.store)),
        checkpoints: stores
            .checkpoints
            .map(|it| AnyCheckpointStore::new(metrics.measure(it))),
        transactions: stores
            .transactions
            .map(|it| AnyTransactionalStore::new(metrics.measure(it))),
        ..stores
    }
}

/// Takes the orders of verbs, if this process alone has the store open.
fn orders(
    url: &StoreUrl,
    stores: &Stores,
    reporter: &dyn Reporter,
) -> impl Future<Output = ()> + Send + 'static {
    let served = match (url, &stores.lent, &stores.transfer) {
        (StoreUrl::Embedded(path), Some(lent), Some(trail)) => {
            match semel_worker::control::serve(path, lent.clone(), trail.clone()) {
                Ok(served) => Some(served),
                Err(error) => {
                    reporter.report(&Notice::NoOrders(&error));
                    None
                }
            }
        }
        (
            StoreUrl::Embedded(_) | StoreUrl::Memory | StoreUrl::Sqlite(_) | StoreUrl::Server(_),
            ..,
        ) => None,
    };
    async move {
        if let Some(served) = served {
            served.await;
        }
    }
}

/// Waits for all pipelines; one that fails ends the others.
async fn all(
    mut running: JoinSet<(Box<str>, Result<PipelineSummary>)>,
    stop: &watch::Sender<bool>,
) -> Result<Results> {
    let mut results = Results {
        pipelines: Vec::new(),
        failure: None,
    };
    while let Some(joined) = running.join_next().await {
        let (name, result) = joined.map_err(|error| {
            Error::new(ErrorKind::Internal, "a pipeline panicked").with_source(error)
        })?;
        match result {
            Ok(ended) => results.pipelines.push((name, ended)),
            Err(error) => {
                results.failure.get_or_insert(error);
                stop.send_replace(true);
            }
        }
    }
    Ok(results)
}

/// The interval of sweeps over the store of these pipelines: that of the shortest window.
fn sweep_every(pipelines: &[PipelineSettings]) -> Duration {
    let shortest = pipelines
        .iter()
        .map(|settings| settings.pipeline.window.duration())
        .min();
    sweep::interval(shortest.unwrap_or_default())
}
