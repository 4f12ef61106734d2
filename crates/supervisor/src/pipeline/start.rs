//! The start of one run of a pipeline: its statements, its source, its effect. Asks the store where one of them needs it.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_backends::webhook::{self, Inlet};
use semel_backends::{source, streamed};
use semel_config::SourceSettings;
use semel_core::port::source::AnySource;
use semel_core::{Backoff, Error, ErrorKind, Result};
use semel_engine::event::{Event, Observer};
use semel_engine::summary::Summary;
use semel_worker::run::{Ready, Run, prepare, ready};
use semel_worker::settings::{EffectSettings, StreamedSettings};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Pipeline, beyond, report_webhook};
use crate::notice::Notice;
use crate::pause::OrderedRun;
use crate::store_wait;
use crate::window_guard::{Guard, Guarded};
use crate::{restoration, transaction_overlap};

/// A run that is made, and begins when it is awaited.
pub(super) type Made = Pin<Box<dyn Future<Output = Result<Summary>> + Send>>;

/// The start of a run.
pub(super) struct Start<'p> {
    pipeline: &'p mut Pipeline,
    ordered: &'p OrderedRun,
    /// The counts of the runs before.
    before: Summary,
    /// True if it follows a pause: other pipelines run by now, and nobody who waits for a worker sees an error.
    is_resumed: bool,
    /// The tries that failed for another reason than the store.
    failed: u32,
    /// The time since which it cannot be made, once that was told.
    failing_since: Option<Instant>,
    is_open_told: bool,
}

/// The reason why a run cannot be made.
pub(super) struct Failure {
    part: Part,
    error: Error,
}

/// The part of a run that fails.
#[derive(Clone, Copy)]
enum Part {
    /// The store is away.
    Store,
    Source,
    Effect,
}

impl<'p> Start<'p> {
    pub(super) const fn of(
        pipeline: &'p mut Pipeline,
        ordered: &'p OrderedRun,
        before: Summary,
        is_resumed: bool,
    ) -> Self {
        Self {
            pipeline,
            ordered,
            before,
            is_resumed,
            failed: 0,
            failing_since: None,
            is_open_told: false,
        }
    }
}

impl store_wait::Start for Start<'_> {
    type Made = Made;
    type Failure = Failure;

    async fn attempt(&mut self) -> Result<Made, Failure> {
        self.prepare().await?;
        let settings = &self.pipeline.settings;
        if let EffectSettings::Streamed(streamed) = &settings.effect {
            let streamed = streamed.clone();
            return self.streamed(&streamed).await;
        }
        let source = self.source().await?;
        self.store_has_answered();
        let ready = self.ready().await?;
        let guard = self.made();
        let source = self.ordered.until_drained(Guarded::new(source, guard));
        let made: Made = match ready {
            Some(ready) => Box::pin(ready.run(source)),
            None => nothing(),
        };
        Ok(made)
    }

    fn fails(&mut self, Failure { part, error }: Failure) -> Result<Duration> {
        let Pipeline {
            status,
            reporter,
            settings,
            store_wait,
            ..
        } = &*self.pipeline;
        let (name, health) = (&settings.pipeline.name, status.health());
        if let Part::Store = part {
            status.awaits_source(name);
            return Ok(store_wait.fails(&error));
        }
        let is_lying = matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Poisoned);
        if !self.is_resumed || is_lying {
            return Err(error);
        }
        status.awaits_source(name);
        self.failed = self.failed.saturating_add(1);
        let wait = BETWEEN_TRIES.after(self.failed);
        let error = &error;
        if let Part::Source = part {
            health.observe(name, &Event::SourceAway { error });
        } else {
            // The source was open.
            health.is_between_runs(name);
            health.observe(name, &Event::TargetAway { error, wait });
        }
        if self.failing_since.is_none() {
            self.failing_since = Some(Instant::now());
            reporter.report(&Notice::CannotGoOn {
                pipeline: name,
                error,
            });
        }
        Ok(wait)
    }
}

impl Start<'_> {
    /// Has the database prepare the statements of an effect that has any.
    async fn prepare(&mut self) -> Result<(), Failure> {
        let Pipeline {
            settings,
            stores,
            store_wait,
            ..
        } = &*self.pipeline;
        let EffectSettings::Sql(_) = &settings.effect else {
            return Ok(());
        };
        let asked = store_wait.asks(prepare(&settings.effect, stores)).await;
        asked.map_err(|error| self.of_store(error, Part::Effect))
    }

    /// Opens the source; one that was kept is open.
    async fn source(&mut self) -> Result<AnySource, Failure> {
        let Pipeline {
            settings,
            webhooks,
            store,
            store_wait,
            keeper,
            run,
            ..
        } = &*self.pipeline;
        let (source, pipeline) = (&settings.source, &settings.pipeline);
        let is_kept = matches!(
            source,
            SourceSettings::File { .. } | SourceSettings::Stdin { .. }
        );
        let opened = if let Some(kept) = keeper.take() {
            kept
        } else {
            let (longest, lease) = (pipeline.max_message_bytes, pipeline.lease);
            let inlet = Inlet {
                listeners: webhooks,
                store,
                pipeline: &pipeline.name,
            };
            let opening = source::open(source, longest, lease, Some(inlet));
            // Its messages are in the store.
            let is_in_store = matches!(source, SourceSettings::Ingest(_));
            let opened = if is_in_store {
                let asked = store_wait.asks(opening).await;
                asked.map_err(|error| self.of_store(error, Part::Source))
            } else {
                let part = Part::Source;
                opening.await.map_err(|error| Failure { part, error })
            };
            opened?
        };
        let opened = if is_kept {
            AnySource::new(keeper.lend(opened))
        } else {
            opened
        };
        let opened = match &settings.sequence_gate {
            Some(gate) => {
                let clock = Arc::clone(&run.surroundings.clock);
                let gated = webhook::gated(opened, gate, store, &pipeline.name, clock);
                let asked = store_wait.asks(gated).await;
                asked.map_err(|error| self.of_store(error, Part::Source))?
            }
            None => opened,
        };
        self.source_is_open();
        Ok(opened)
    }

    /// Makes the effect.
    async fn ready(&mut self) -> Result<Option<Ready>, Failure> {
        let Pipeline {
            settings,
            stores,
            outage,
            run,
            ..
        } = &*self.pipeline;
        let before = self.before;
        let run = Run {
            recalled: Some(self.ordered.recalled()),
            on_progress: run.on_progress.clone().map(|it| beyond(before, it)),
            ..run.clone()
        };
        let (pipeline, effect) = (settings.pipeline.clone(), settings.effect.clone());
        let made = ready(pipeline, effect, stores.clone(), run, outage.clone()).await;
        let part = Part::Effect;
        made.map_err(|error| Failure { part, error })
    }

    /// The same for a pipeline whose source and effect are one.
    async fn streamed(&mut self, effect: &StreamedSettings) -> Result<Made, Failure> {
        let Pipeline {
            settings,
            run,
            status,
            reporter,
            ..
        } = &*self.pipeline;
        let name = settings.pipeline.name.clone();
        let (around, reporter) = (&run.surroundings, Arc::clone(reporter));
        let opened = streamed::open(&settings.source, effect, &settings.pipeline, around);
        let part = Part::Source;
        let (source, stream, seen) = opened.map_err(|error| Failure { part, error })?;
        status.restores(&name, Arc::clone(&seen));
        let ready = self.ready().await?;
        let guard = self.made();
        let Some(ready) = ready else {
            return Ok(nothing());
        };
        let source = self.ordered.until_drained(Guarded::new(source, guard));
        Ok(Box::pin(async move {
            let mut watches = JoinSet::new();
            watches.spawn(restoration::watch(
                name.clone(),
                Arc::clone(&seen),
                Arc::clone(&reporter),
            ));
            watches.spawn(transaction_overlap::watch(name, seen, reporter));
            let ended = ready.run_streamed(source, stream).await;
            watches.shutdown().await;
            ended
        }))
    }

    /// The failure of a call of the store, which is either away or says what is wrong with this part.
    fn of_store(&self, error: Error, part: Part) -> Failure {
        let is_away = self.pipeline.store_wait.is_for(&error);
        let part = if is_away { Part::Store } else { part };
        Failure { part, error }
    }

    /// Takes note that the store has answered, if it was asked.
    fn store_has_answered(&self) {
        let settings = &self.pipeline.settings;
        let is_asked = matches!(settings.effect, EffectSettings::Sql(_))
            || matches!(settings.source, SourceSettings::Ingest(_))
            || settings.sequence_gate.is_some();
        if is_asked {
            self.pipeline.store_wait.answers();
        }
    }

    /// Takes note that the source is open, and tells so once.
    fn source_is_open(&mut self) {
        let Pipeline {
            settings,
            status,
            reporter,
            webhooks,
            ..
        } = &*self.pipeline;
        let name = &settings.pipeline.name;
        status.takes_requests(name);
        if !self.is_open_told {
            self.is_open_told = true;
            report_webhook(name, &settings.source, webhooks, &**reporter);
        }
    }

    /// Takes note that the run is made; returns the look at its broker that is still to be done.
    fn made(&mut self) -> Option<Guard> {
        let Pipeline {
            settings,
            status,
            reporter,
            guard,
            ..
        } = &mut *self.pipeline;
        let name = &settings.pipeline.name;
        status.takes_requests(name);
        if let Some(since) = self.failing_since.take() {
            status.health().is_between_runs(name);
            status.health().target_answers(name);
            reporter.report(&Notice::GoesOn {
                pipeline: name,
                lasted: since.elapsed(),
            });
        }
        guard.as_mut().and_then(Guard::of_run)
    }
}

/// A run that a stop or an order ends before it begins.
fn nothing() -> Made {
    Box::pin(std::future::ready(Ok(Summary::default())))
}

/// The pauses between two tries of a run that cannot be made for another reason than the store: each may make a member of a
/// group anew.
const BETWEEN_TRIES: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
};
