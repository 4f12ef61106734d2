//! The relays of a worker: each publishes its stream until a stop is asked for, but while an order pauses it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use semel_backends::outbox;
use semel_config::RelaySettings;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::{AnyOutbox, RelayName};
use semel_core::port::sink::AnySink;
use semel_core::{Error, ErrorKind, Result, TraceContext};
use semel_engine::surroundings::Surroundings;
use semel_operate::pipelines::PauseKind;
use semel_outbox::{Event, Observer, PublicationSpan, Recall, Relay, Summary};
use semel_telemetry::RelayMetrics;
use semel_telemetry::traces::{RelayTraces, Traces};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::notice::{Notice, Reporter};
use crate::pause::{OrderedRun, Pauses, RelayOrders, Runs};
use crate::results::Results;
use crate::status::Status;
use crate::traces;

/// The relays that run.
pub(crate) struct Relays {
    running: JoinSet<(Box<str>, Result<Summary>)>,
}

impl Relays {
    /// Begins all of them. One that fails asks for a stop.
    ///
    /// # Errors
    ///
    /// Settings that contradict each other; an outbox or a sink that is not part of this build
    pub(crate) fn begin(
        relays: &[RelaySettings],
        worker: &OfWorker,
        beside: &mut JoinSet<()>,
    ) -> Result<Self> {
        let told = (&worker.status, &worker.reporter, &worker.around.clock);
        worker.orders.watch(beside, told);
        let mut running = JoinSet::new();
        for settings in relays {
            // What is wrong with its settings is told at once.
            let relay = worker.relay(settings, watch::channel(Recall::Not).1)?;
            worker.reporter.report(&Notice::RelayBegins(settings));
            worker.status.awaits_order(&settings.name);
            if worker.is_scraped {
                let (name, stream) = (settings.name.clone(), settings.stream.clone());
                let (status, outbox) = (Arc::clone(&worker.status), relay.outbox.clone());
                beside.spawn(async move { status.relays().count(&name, &stream, outbox).await });
            }
            let (worker, settings) = (worker.clone(), settings.clone());
            running.spawn(async move {
                let mut unless_it_ends_well = Stop(Some(worker.stop.clone()));
                let ended = worker.runs(&settings).await;
                if ended.is_ok() {
                    unless_it_ends_well.0 = None;
                }
                (settings.name, ended)
            });
        }
        Ok(Self { running })
    }

    /// Waits until all have ended, which is once a stop is asked for, and adds what they did to the results.
    pub(crate) async fn ended(mut self, results: &mut Results) {
        while let Some(joined) = self.running.join_next().await {
            let failure = match joined {
                Ok((name, Ok(summary))) => {
                    results.relays.push((name, summary));
                    continue;
                }
                Ok((_, Err(error))) => error,
                Err(error) => {
                    Error::new(ErrorKind::Internal, "a relay panicked").with_source(error)
                }
            };
            results.failure.get_or_insert(failure);
        }
    }
}

/// Asks the worker to stop once it is dropped: when its relay fails or panics.
struct Stop(Option<watch::Sender<bool>>);

impl Drop for Stop {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.send_replace(true);
        }
    }
}

/// The parts of a worker that its relays share.
#[derive(Clone)]
pub(crate) struct OfWorker {
    pub(crate) around: Surroundings,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) status: Arc<Status>,
    pub(crate) traces: Option<Traces>,
    /// True if anybody can ask for the metrics.
    pub(crate) is_scraped: bool,
    /// The orders that the worker's own store has.
    pub(crate) pauses: Arc<Pauses>,
    /// The orders that other stores have.
    pub(crate) orders: Arc<RelayOrders>,
}

impl OfWorker {
    /// Runs a relay until a stop is asked for; an order ends a run, and another one follows once it is taken back.
    async fn runs(&self, settings: &RelaySettings) -> Result<Summary> {
        let name = &settings.name;
        let pauses = self.orders.about(name).unwrap_or(&self.pauses);
        let mut runs = Runs {
            pipeline: name.clone(),
            order: pauses.of(name),
            stop: self.stop.subscribe(),
            status: Arc::clone(&self.status),
            reporter: Arc::clone(&self.reporter),
        };
        let mut summary = Summary::default();
        while let Some(ordered) = runs.next().await {
            let (recall, recalled) = watch::channel(Recall::Not);
            let Some(relay) = self.resumed(settings, &ordered, recalled).await else {
                if *self.stop.borrow() {
                    break;
                }
                continue;
            };
            // The look at the order lasts for as long as the run.
            let ended = tokio::select! {
                biased;
                ended = relay.run() => ended?,
                never = recalling(&ordered, &recall) => match never {},
            };
            summary = summary.plus(ended);
            if *self.stop.borrow() {
                break;
            }
        }
        Ok(summary)
    }

    /// Makes the relay for a run, until the run is recalled. What was of use when the worker began may be missing for a
    /// while, as a file of a certificate that is replaced: that is told as a sink that is away.
    async fn resumed(
        &self,
        settings: &RelaySettings,
        ordered: &OrderedRun,
        recall: watch::Receiver<Recall>,
    ) -> Option<Relay<AnyOutbox, AnySink>> {
        let (mut recalled, mut stop) = (ordered.recalled(), self.stop.subscribe());
        let told = |event: &Event<'_>| {
            let relay = &*settings.name;
            self.status.relays().observe(relay, event);
            self.reporter.report(&Notice::Relay { relay, event });
        };
        let mut away_since = None;
        loop {
            let error = match self.relay(settings, recall.clone()) {
                Ok(relay) => {
                    if let Some(since) = away_since {
                        let lasted = Instant::now().saturating_duration_since(since);
                        told(&Event::SinkBack { lasted });
                    }
                    return Some(relay);
                }
                Err(error) => error,
            };
            if away_since.is_none() {
                away_since = Some(Instant::now());
                told(&Event::SinkAway { error: &error });
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|is_asked| *is_asked) => return None,
                _ = recalled.wait_for(|is_recalled| *is_recalled) => return None,
                () = sleep(AGAIN) => {}
            }
        }
    }

    fn relay(
        &self,
        settings: &RelaySettings,
        recall: watch::Receiver<Recall>,
    ) -> Result<Relay<AnyOutbox, AnySink>> {
        let around = &self.around;
        let traces = self.traces.as_ref();
        Ok(Relay {
            name: RelayName {
                name: settings.name.clone(),
                stream: settings.stream.clone(),
                sink: settings.sink.to_string().into(),
                // Two relays of one process at one stream, by two urls, are as far apart as two processes.
                process: format!("{} {}", around.claimant, settings.name).into(),
            },
            settings: settings.rules.clone(),
            outbox: outbox::open(&settings.store)?,
            sink: outbox::sink(settings)?,
            clock: Arc::clone(&around.clock),
            observer: Arc::new(Told {
                reporter: Arc::clone(&self.reporter),
                status: Arc::clone(&self.status),
                metrics: self.status.metrics().relay(&settings.name),
                traces: traces
                    .map(|it| it.relay(&traces::relay(settings), Arc::clone(&around.entropy))),
            }),
            stop: self.stop.subscribe(),
            recall,
        })
    }
}

/// Recalls a run as the order about its relay says.
async fn recalling(ordered: &OrderedRun, recall: &watch::Sender<Recall>) -> Infallible {
    let (mut order, mut recalled) = (ordered.order(), ordered.recalled());
    loop {
        let is_recalled = *recalled.borrow_and_update();
        let is_drained = order.borrow_and_update().is(PauseKind::Drain);
        recall.send_replace(match (is_recalled, is_drained) {
            (true, _) => Recall::Now,
            (false, true) => Recall::WhenIdle,
            (false, false) => Recall::Not,
        });
        let changed = tokio::select! {
            changed = order.changed() => changed,
            changed = recalled.changed() => changed,
        };
        if changed.is_err() {
            // Nobody asks the store any more: the worker ends.
            return std::future::pending().await;
        }
    }
}

/// Hands the events of a relay to the reporter, to the status and to its metrics, and its spans to the exporter, if there
/// is one.
struct Told {
    reporter: Arc<dyn Reporter>,
    status: Arc<Status>,
    metrics: RelayMetrics,
    traces: Option<RelayTraces>,
}

impl Observer for Told {
    fn observe(&self, relay: &str, event: &Event<'_>) {
        self.status.relays().observe(relay, event);
        self.metrics.observe(relay, event);
        self.reporter.report(&Notice::Relay { relay, event });
    }

    fn wants_spans(&self) -> bool {
        self.traces.is_some()
    }

    fn span_of(&self, id: OutboxId, parent: Option<TraceContext>) -> Option<TraceContext> {
        self.traces.as_ref()?.span_of(id, parent)
    }

    fn observe_span(&self, relay: &str, span: &PublicationSpan<'_>) {
        if let Some(traces) = &self.traces {
            traces.observe_span(relay, span);
        }
    }
}

/// The time between two tries to make a sink anew.
const AGAIN: Duration = Duration::from_secs(1);
