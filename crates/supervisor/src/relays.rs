//! The relays of a worker: each publishes its stream until a stop is asked for.

use std::sync::Arc;

use semel_backends::outbox;
use semel_config::RelaySettings;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::RelayName;
use semel_core::{Error, ErrorKind, Result, TraceContext};
use semel_engine::surroundings::Surroundings;
use semel_outbox::{Event, Observer, PublicationSpan, Relay, Summary};
use semel_telemetry::RelayMetrics;
use semel_telemetry::traces::{RelayTraces, Traces};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::notice::{Notice, Reporter};
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
        worker: &OfWorker<'_>,
        beside: &mut JoinSet<()>,
    ) -> Result<Self> {
        let mut running = JoinSet::new();
        for settings in relays {
            let relay = relay(settings, worker)?;
            worker.reporter.report(&Notice::RelayBegins(settings));
            if worker.is_scraped {
                let (name, stream) = (settings.name.clone(), settings.stream.clone());
                let (status, outbox) = (Arc::clone(worker.status), relay.outbox.clone());
                beside.spawn(async move { status.relays().count(&name, &stream, outbox).await });
            }
            let (name, stop) = (settings.name.clone(), worker.stop.clone());
            running.spawn(async move {
                let mut unless_it_ends_well = Stop(Some(stop));
                let ended = relay.run().await;
                if ended.is_ok() {
                    unless_it_ends_well.0 = None;
                }
                (name, ended)
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
pub(crate) struct OfWorker<'a> {
    pub(crate) around: &'a Surroundings,
    pub(crate) reporter: &'a Arc<dyn Reporter>,
    pub(crate) stop: &'a watch::Sender<bool>,
    pub(crate) status: &'a Arc<Status>,
    pub(crate) traces: Option<&'a Traces>,
    /// True if anybody can ask for the metrics.
    pub(crate) is_scraped: bool,
}

fn relay(
    settings: &RelaySettings,
    worker: &OfWorker<'_>,
) -> Result<Relay<semel_core::port::outbox::AnyOutbox, semel_core::port::sink::AnySink>> {
    let around = worker.around;
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
            reporter: Arc::clone(worker.reporter),
            status: Arc::clone(worker.status),
            metrics: worker.status.metrics().relay(&settings.name),
            traces: worker
                .traces
                .map(|it| it.relay(&traces::relay(settings), Arc::clone(&around.entropy))),
        }),
        stop: worker.stop.subscribe(),
    })
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
