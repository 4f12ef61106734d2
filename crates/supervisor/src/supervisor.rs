//! The supervisor: opens the store, begins the pipelines and what runs beside them, and waits for all of them.

use std::sync::Arc;
use std::time::Duration;

use semel_admin::{Lent, Orders};
use semel_backends::webhook::{self, Listeners};
use semel_config::{Settings, StoreUrl};
use semel_core::port::checkpoint::AnyCheckpointStore;
use semel_core::port::store::AnyStore;
use semel_core::port::transactional::AnyTransactionalStore;
use semel_core::{Claimant, Clock, Entropy, Result};
use semel_engine::event::{FanOut, Observer};
use semel_engine::layer::outage::{self, Breaker};
use semel_engine::surroundings::{Shutdown, Surroundings};
use semel_engine::sweep::{self, sweep_until};
use semel_http::Sockets;
use semel_telemetry::traces::{Exporter, Traces};
use semel_worker::run::Stores;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin;
use crate::claim_watch;
use crate::claims::Claims;
use crate::gateway::{Gateway, OfWorker};
use crate::notice::{Notice, Reporter};
use crate::pause::{Pauses, RelayOrders};
use crate::preflight;
use crate::relays::Relays;
use crate::results::Results;
use crate::runner::WorkerRunner;
use crate::shared::Shared;
use crate::source_paths::{self, SourcesAt};
use crate::status::{self, Status};
use crate::stopping::{stopped, unless_stopped};
use crate::store_opening;
use crate::store_wait::StoreWait;
use crate::store_watch::StoreWatch;
use crate::window_guard::outlooks;
use crate::worker_end::{all_ended, stop_orders, time_for_orders};
use crate::{key_count, probes, route_watch, tokens, traces};

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
    claimant: Claimant,
    exporter: Option<Exporter>,
    claims: Option<Claims>,
    webhooks: Arc<Listeners>,
    gateway: Option<Gateway>,
    /// The store for the admin API.
    store: watch::Sender<Option<Lent>>,
    /// The orders that the admin API carries out.
    orders: Arc<Orders>,
    relay_orders: Arc<RelayOrders>,
    /// The wait for the store, while something starts.
    store_wait: Arc<StoreWait>,
    beside: JoinSet<()>,
}

/// A worker whose store has been opened.
pub struct Worker {
    supervisor: Supervisor,
    stores: Stores,
    store_watch: StoreWatch,
}

/// The end of opening.
pub enum Opened {
    /// The worker can run.
    Worker(Box<Worker>),
    /// A stop was asked for before the store was there; the results say that nothing was done.
    Stopped(Results),
}

impl Supervisor {
    /// Begins to report the status, to listen for claims and webhooks, and to serve an API, if the settings name addresses
    /// for them.
    ///
    /// # Errors
    ///
    /// `Unavailable`: an address cannot be listened at; `InvalidConfig`: the file of tokens is damaged, or an address of
    /// claims or of the admin API needs tokens and there are none; a certificate is of no use.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn new(options: Options) -> Result<Self> {
        Self::with_sockets(options, Sockets::default()).await
    }

    /// The same with sockets that were handed over, named `gateway` and `claims` or known by their addresses.
    ///
    /// # Errors
    ///
    /// Those of [`Supervisor::new`]; `InvalidConfig`: a socket has another address than the listener of its name, or is
    /// for none. `Unavailable`: one does not listen
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn with_sockets(mut options: Options, mut sockets: Sockets) -> Result<Self> {
        let written = options.settings.clone();
        if options.settings.has_relays_alone() {
            // They keep nothing, and the store that is there or not is none of theirs.
            options.settings.store = StoreUrl::Memory;
        }
        let settings = &options.settings;
        let status = probes::status(
            settings,
            Arc::clone(&options.clock),
            options.stop.subscribe(),
        );
        let mut beside = JoinSet::new();
        let Options {
            clock,
            entropy,
            reporter,
            ..
        } = &options;
        let tokens = tokens::begin(settings, reporter, &mut beside)?;
        source_paths::check(settings)?;
        let stopping = options.stop.subscribe();
        let webhooks = webhook::listeners(&settings.pipelines, Arc::clone(clock), stopping).await?;
        let sources = SourcesAt {
            pipelines: &settings.pipelines,
            listeners: &webhooks,
        };
        let (store, opened) = watch::channel(None);
        let orders: Arc<Orders> = Arc::default();
        let relay_orders = Arc::new(RelayOrders::of(settings));
        if let Some(address) = settings.admin.listen {
            let api = |address| {
                let tokens = tokens.clone().filter(|_| settings.admin.api)?;
                let callers = (tokens.clone(), clock, entropy);
                let given = (opened, Arc::clone(&orders), &*relay_orders);
                let of_api = (settings, &written);
                let router = admin::router(address, of_api, &status, callers, given);
                Some(sources.at_admin(router, address, settings, (tokens, clock)))
            };
            let at = (address, admin::encryption(settings)?);
            beside.spawn(status::serve(at, Arc::clone(&status), api).await?);
        }
        let stopping = options.stop.subscribe();
        let mut claims = Claims::begin(settings, clock, tokens, stopping, &mut sockets).await?;
        for pipeline in &settings.pipelines {
            if let Some(door) = pipeline.source.door()
                && let Some(answers) = webhooks.answers(door.entrance, door.path)
            {
                status.takes_webhooks(&pipeline.pipeline.name, answers);
            }
        }
        let claimant = Claimant::random(&*options.entropy);
        let lost = status.metrics().spans_lost();
        let exporter = traces::begin(&settings.telemetry, claimant, lost, reporter);
        let gateway = match &settings.gateway {
            Some(gateway) => {
                let around = around(&options, &status, claimant);
                let is_scraped = settings.admin.listen.is_some();
                let around = route_watch::watching(
                    &around,
                    &gateway.routes,
                    is_scraped.then(|| status.metrics()),
                    exporter.as_ref(),
                );
                let worker = OfWorker {
                    drain: settings.shutdown,
                    status: &status,
                    observer: &options.observer,
                    stop: &options.stop,
                };
                let claims = claims.as_mut().and_then(Claims::for_gateway);
                let inside = (claims, sources);
                Some(Gateway::begin(gateway, around, worker, &mut sockets, inside).await?)
            }
            None => None,
        };
        sockets.check_taken(&["gateway", "claims"])?;
        let store_wait = StoreWait::new(&settings.store, status.health(), reporter);
        Ok(Self {
            store_wait: Arc::new(store_wait),
            options,
            status,
            claimant,
            exporter,
            claims,
            webhooks: Arc::new(webhooks),
            gateway,
            store,
            orders,
            relay_orders,
            beside,
        })
    }

    /// Opens the store, and checks what it promises. A server that is away is waited for, until a stop is asked
    /// for. Where no worker comes of it, the spans in hand are sent before this returns, for two seconds at most.
    ///
    /// # Errors
    ///
    /// Those of opening the store, with its url, and of reading it; `Unsupported`: it is too weak for a pipeline.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the store, if that is open; no message has begun.
    pub async fn open(mut self) -> Result<Opened> {
        match self.open_store().await {
            Ok(Some((stores, store_watch))) => Ok(Opened::Worker(Box::new(Worker {
                supervisor: self,
                stores,
                store_watch,
            }))),
            Ok(None) => {
                if let Some(gateway) = self.gateway.take() {
                    gateway.ended().await;
                }
                self.end_traces().await;
                let none = Results::of_none(&self.options.settings.pipelines);
                Ok(Opened::Stopped(none))
            }
            Err(error) => {
                self.end_traces().await;
                Err(error)
            }
        }
    }

    /// Opens the store; returns none if a stop was asked for before it was there.
    async fn open_store(&mut self) -> Result<Option<(Stores, StoreWatch)>> {
        let Options {
            settings,
            clock,
            reporter,
            stop,
            entropy: _,
            observer: _,
        } = &self.options;
        let (url, accepted, reporter) = (&settings.store, settings.accepted, &**reporter);
        let (clock, wait) = (Arc::clone(clock), &self.store_wait);
        let opened = store_opening::wait(url, accepted, clock, wait, stopped(stop)).await?;
        let Some(opened) = opened else {
            return Ok(None);
        };
        let store_opening::Opened {
            stores,
            is_new,
            brought_forward,
            capabilities,
        } = opened;
        if let Some((from, to)) = brought_forward {
            reporter.report(&Notice::StoreBroughtForward { url, from, to });
        }
        let needs_store = !settings.has_relays_alone();
        if needs_store {
            let counted = key_count::report(url, &stores.store, is_new, reporter);
            unless_stopped(stop, counted).await;
        }
        self.beside.spawn(orders(url, &stores, reporter));
        let store_watch = StoreWatch::of(url);
        if needs_store {
            let effects = preflight::of_worker(settings);
            preflight::judge(url, accepted, &capabilities, effects, |it| {
                reporter.report(it);
            })?;
            unless_stopped(stop, preflight::left_over(settings, reporter)).await;
        }
        reporter.report(&Notice::Claimant(self.claimant));
        Ok(Some((stores, store_watch)))
    }

    /// Sends the spans in hand.
    async fn end_traces(&mut self) {
        let lost = self.status.metrics().spans_lost();
        traces::end(self.exporter.take(), &lost, &*self.options.reporter).await;
    }
}

impl Worker {
    /// Runs the pipelines until their sources end or a stop is asked for, and serves clients until a stop is asked for. A
    /// pipeline that fails ends everything.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: a window that a broker can outlive; those of a source that cannot be used; `Internal`:
    /// a pipeline panicked. The failure of a pipeline is part of the results. However it ends, the spans in hand are sent
    /// first, for two seconds at most.
    ///
    /// # Cancel safety
    ///
    /// Dropping it aborts the pipelines in the middle of their messages, as a kill would: nothing is lost, and what was
    /// in hand waits for its leases. Ask for a stop by [`Options::stop`] instead. The store is closed when this returns,
    /// which waits for its last write.
    pub async fn run(mut self) -> Result<Results> {
        let exporter = self.supervisor.exporter.take();
        let lost = self.supervisor.status.metrics().spans_lost();
        let reporter = Arc::clone(&self.supervisor.options.reporter);
        let traces = exporter.as_ref().map(|it| it.traces().clone());
        let ended = Box::pin(self.run_traced(traces)).await;
        traces::end(exporter, &lost, &*reporter).await;
        ended
    }

    /// Does what [`run`](Self::run) does, and hands over spans.
    async fn run_traced(self, traces: Option<Traces>) -> Result<Results> {
        let Self {
            supervisor,
            stores,
            store_watch,
        } = self;
        let Supervisor {
            options,
            status,
            claimant,
            exporter: _,
            claims,
            webhooks,
            mut gateway,
            store,
            orders,
            relay_orders,
            store_wait,
            mut beside,
        } = supervisor;
        let around = around(&options, &status, claimant);
        let Options {
            settings,
            observer,
            reporter,
            stop,
            ..
        } = options;
        let is_scraped = settings.admin.listen.is_some();
        let lent = stores.for_other_processes();
        let pauses = watched_pauses(&settings, &lent, (&status, &reporter), &mut beside).await?;
        let (stores, lent) = if is_scraped {
            measured(stores, lent, &status, &around.clock)
        } else {
            (stores, lent)
        };
        let of_worker = (&settings, &stores, &status, traces.as_ref());
        let runner = WorkerRunner::of(of_worker, &around, &observer, (&stop, &pauses));
        runner.lend(&store, &lent);
        let pipelines = &settings.pipelines;
        let outlooks = outlooks(
            pipelines,
            &status,
            (&*around.clock, &*reporter),
            stop.subscribe(),
        );
        let outlooks = outlooks.await?;
        beside.spawn(store_watch.clone().watch(stop.clone()));
        let shutdown = Shutdown::new(stop.subscribe(), settings.shutdown);
        beside.spawn(stop_orders(Arc::clone(&orders), stop.subscribe()));
        let every = sweep_every(&settings);
        beside.spawn(sweep_until(stores.store.clone(), every, shutdown, observer));
        let breaker = breaker(&around);
        let told = (&around, &reporter);
        probes::begin(&mut beside, &settings, &stores, &status, &breaker, told);
        if let Some(gateway) = &mut gateway {
            gateway.open(lent.clone(), &breaker, &around, &*reporter)?;
        }
        if let Some(claims) = &claims {
            let metrics = is_scraped.then(|| status.metrics());
            let watch = claim_watch::watching(&around, metrics, traces.as_ref());
            let at = gateway.as_ref().map(Gateway::address);
            claims.open(&settings, at, lent, &breaker, &watch, &*reporter);
        }
        let shared = Shared {
            around,
            store: settings.store,
            store_wait,
            stores,
            breaker,
            traces,
            status,
            reporter,
            stop,
            is_scraped,
            patience: settings.shutdown,
            accepted: settings.accepted,
            webhooks: Arc::clone(&webhooks),
            pauses,
        };
        let of_worker = shared.for_relays(relay_orders);
        let relays = Relays::begin(&settings.relays, &of_worker, &mut beside)?;
        let mut running = JoinSet::new();
        for (pipeline, known) in settings.pipelines.into_iter().zip(outlooks) {
            running.spawn(shared.pipeline(pipeline, known, &mut beside).run());
        }
        let Shared { status, stop, .. } = shared;
        status.begin();
        let listening = (&*webhooks, claims, gateway);
        let (ended, since_stop) = all_ended(running, relays, &stop, listening).await;
        let remaining = time_for_orders(settings.shutdown, since_stop);
        orders.ended(remaining).await;
        let mut results = ended?;
        beside.shutdown().await;
        results.failure = results.failure.or_else(|| store_watch.check().err());
        Ok(results)
    }
}

/// Asks for the orders about the pipelines, and about those relays whose orders this store has, from now on.
///
/// # Errors
///
/// Those of [`Pauses::ask_first`]
async fn watched_pauses(
    settings: &Settings,
    store: &AnyStore,
    (status, reporter): (&Arc<Status>, &Arc<dyn Reporter>),
    beside: &mut JoinSet<()>,
) -> Result<Arc<Pauses>> {
    let pipelines = settings.pipelines.iter();
    let pipelines = pipelines.map(|it| it.pipeline.name.clone());
    let pauses = Pauses::about(pipelines.chain(RelayOrders::here(settings)));
    pauses.ask_first(store).await?;
    let (health, reporter) = (Arc::clone(status.health()), Arc::clone(reporter));
    beside.spawn(Arc::clone(&pauses).watch(store.clone(), health, reporter));
    Ok(pauses)
}

/// Returns what tells that a store is away, and when to try it again.
fn breaker(around: &Surroundings) -> Arc<Breaker> {
    let (clock, entropy) = (around.clock.clone(), around.entropy.clone());
    Arc::new(Breaker::new(outage::Settings::default(), clock, entropy))
}

/// Returns the surroundings of everything that runs, whose observers are those of the program and of the status.
fn around(options: &Options, status: &Status, claimant: Claimant) -> Surroundings {
    let health: Arc<dyn Observer> = status.health().clone();
    Surroundings {
        clock: Arc::clone(&options.clock),
        entropy: Arc::clone(&options.entropy),
        claimant,
        observer: Arc::new(FanOut::new([health, Arc::clone(&options.observer)])),
    }
}

/// Returns the same stores, whose calls are timed, and the one of claims. Orders of other processes and the moving of a
/// store are not.
fn measured(
    stores: Stores,
    lent: AnyStore,
    status: &Status,
    clock: &Arc<dyn Clock>,
) -> (Stores, AnyStore) {
    let metrics = status.metrics().store(status.store(), Arc::clone(clock));
    let lent = AnyStore::new(metrics.measure(lent));
    let stores = Stores {
        store: AnyStore::new(metrics.measure(stores.store)),
        checkpoints: stores
            .checkpoints
            .map(|it| AnyCheckpointStore::new(metrics.measure(it))),
        transactions: stores
            .transactions
            .map(|it| AnyTransactionalStore::new(metrics.measure(it))),
        ..stores
    };
    (stores, lent)
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

/// The interval of sweeps over the store: that of the shortest window of a pipeline, of a route, or of a claim that names
/// none.
fn sweep_every(settings: &Settings) -> Duration {
    let pipelines = settings.pipelines.iter();
    let windows = pipelines.map(|settings| settings.pipeline.window.duration());
    let of_claims = settings
        .serves_claims()
        .then(|| settings.claims.window.duration());
    let routes = settings.gateway.iter().flat_map(|it| &it.routes);
    let of_routes = routes.map(|it| it.route.window);
    let windows = windows.chain(of_claims).chain(of_routes);
    sweep::interval(windows.min().unwrap_or_default())
}

#[cfg(test)]
mod tests;
