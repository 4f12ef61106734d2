//! One pipeline of a worker, from its layers to its result.

use std::sync::Arc;

use semel_backends::layered::Layer;
use semel_backends::webhook::{Inlet, Listeners};
use semel_backends::{source, streamed};
use semel_config::{
    Cache, Front, IngestSettings, PipelineSettings, SourceSettings, StoreUrl, WebhookSettings,
};
use semel_core::Result;
use semel_core::port::source::AnySource;
use semel_engine::layer::outage::Policy;
use semel_engine::layer::tiered::CacheHits;
use semel_engine::summary::Summary;
use semel_engine::surroundings::OnProgress;
use semel_worker::run::{Run, Stores, run_streamed, run_with};
use semel_worker::settings::EffectSettings;
use tokio::task::JoinSet;

use crate::notice::{Notice, Reporter};
use crate::pause::{Keeper, OrderedRun, Runs};
use crate::results::PipelineSummary;
use crate::status::Status;
use crate::window_guard::{Guard, Guarded};
use crate::{restoration, transaction_overlap};

/// A pipeline that is about to run.
pub(crate) struct Pipeline {
    pub(crate) settings: PipelineSettings,
    pub(crate) stores: Stores,
    pub(crate) run: Run,
    pub(crate) outage: Policy,
    /// The look at its broker that is still to be done.
    pub(crate) guard: Option<Guard>,
    pub(crate) reporter: Arc<dyn Reporter>,
    pub(crate) status: Arc<Status>,
    /// The place where its cache notes the claims that it answers, if anybody asks.
    pub(crate) hits: Option<Arc<CacheHits>>,
    /// The addresses that webhooks and the messages of producers come to.
    pub(crate) webhooks: Arc<Listeners>,
    /// The store in which the latter are kept.
    pub(crate) store: StoreUrl,
    /// Its runs, between which it is paused.
    pub(crate) runs: Runs,
    /// Keeps a source that cannot be opened again where it was, from one run to the next.
    pub(crate) keeper: Keeper,
}

impl Pipeline {
    /// Runs it to its end; returns its name, too.
    pub(crate) async fn run(self) -> (Box<str>, Result<PipelineSummary>) {
        let name = self.settings.pipeline.name.clone();
        let reporter = Arc::clone(&self.reporter);
        let ended = self.consume().await;
        reporter.report(&Notice::Ended {
            pipeline: &name,
            is_failed: ended.is_err(),
        });
        (name, ended)
    }

    async fn consume(mut self) -> Result<PipelineSummary> {
        let layers = &self.settings.layers;
        let around = &self.run.surroundings;
        let (stores, layer) = Layer::over(
            &layers.front,
            self.stores,
            &around.clock,
            &*around.entropy,
            self.hits.as_ref(),
        )?;
        self.stores = stores;
        let name = &self.settings.pipeline.name;
        self.status.layers().knows(name, &layer);
        let mut stop = self.run.stop.subscribe();
        tokio::select! {
            biased;
            () = fill(&layer, &self.settings, &*self.reporter) => {}
            _ = stop.wait_for(|is_asked| *is_asked) => {}
        }
        let mut summary = Summary::default();
        while let Some(ordered) = self.runs.next().await {
            let ended = self.run_once(&ordered, summary).await?;
            summary = summary.plus(&ended);
            if !ordered.has_ended_by_order() {
                break;
            }
        }
        Ok(PipelineSummary {
            summary,
            fail: self.settings.layers.fail,
            layer: layer.figures(),
            waived: self.settings.waived,
        })
    }

    /// Runs the pipeline until its source ends, a stop is asked for, or an order ends the run; `before` is what the runs
    /// before have counted.
    async fn run_once(&mut self, ordered: &OrderedRun, before: Summary) -> Result<Summary> {
        let run = Run {
            recalled: Some(ordered.recalled()),
            on_progress: self.run.on_progress.clone().map(|it| beyond(before, it)),
            ..self.run.clone()
        };
        let (pipeline, stores) = (self.settings.pipeline.clone(), self.stores.clone());
        let (effect, outage) = (self.settings.effect.clone(), self.outage.clone());
        let guard = self.guard.as_mut().and_then(Guard::of_run);
        let source = &self.settings.source;
        let (reporter, name) = (&self.reporter, &pipeline.name);
        if let EffectSettings::Streamed(streamed) = effect {
            let (source, stream, seen) =
                streamed::open(source, &streamed, &pipeline, &run.surroundings)?;
            self.status.restores(name, Arc::clone(&seen));
            let mut watches = JoinSet::new();
            watches.spawn(restoration::watch(
                name.clone(),
                Arc::clone(&seen),
                Arc::clone(reporter),
            ));
            watches.spawn(transaction_overlap::watch(
                name.clone(),
                seen,
                Arc::clone(reporter),
            ));
            let source = ordered.until_drained(Guarded::new(source, guard));
            let ends = (source, stream);
            let ended = run_streamed(pipeline, streamed.transform, ends, stores, run, outage).await;
            watches.shutdown().await;
            return ended;
        }
        let is_kept = matches!(
            source,
            SourceSettings::File { .. } | SourceSettings::Stdin { .. }
        );
        let opened = if let Some(kept) = self.keeper.take() {
            kept
        } else {
            let (longest, lease) = (pipeline.max_message_bytes, pipeline.lease);
            let inlet = Inlet {
                listeners: &self.webhooks,
                store: &self.store,
                pipeline: name,
            };
            source::open(source, longest, lease, Some(inlet)).await?
        };
        self.status.takes_requests(name);
        report_webhook(name, source, &self.webhooks, &**reporter);
        let opened = if is_kept {
            AnySource::new(self.keeper.lend(opened))
        } else {
            opened
        };
        let source = ordered.until_drained(Guarded::new(opened, guard));
        run_with(pipeline, effect, source, stores, run, outage).await
    }
}

/// Fills the cache of a pipeline, if it has one that is to be filled.
async fn fill(layer: &Layer, settings: &PipelineSettings, reporter: &dyn Reporter) {
    let pipeline = &settings.pipeline;
    if let (Layer::Cache(cache), Front::Cache(Cache { warm, .. })) = (layer, &settings.layers.front)
        && *warm > 0
    {
        let name = &*pipeline.name;
        match cache.warm(pipeline.selection(), *warm).await {
            Ok(records) => reporter.report(&Notice::CacheFilled {
                pipeline: name,
                records,
            }),
            Err(error) => reporter.report(&Notice::CacheEmpty {
                pipeline: name,
                error: &error,
            }),
        }
    }
}

/// Returns a function that takes the progress of a run, and hands on that of all runs so far.
fn beyond(before: Summary, progress: OnProgress) -> OnProgress {
    Arc::new(move |read, summary| progress(read, &before.plus(summary)))
}

/// Reports where the requests of a source come to, if it is one that they come to, and whether others can make them.
fn report_webhook(
    pipeline: &str,
    source: &SourceSettings,
    webhooks: &Listeners,
    reporter: &dyn Reporter,
) {
    if let SourceSettings::Webhook(webhook) = source
        && let Some(listen) = webhooks.address(webhook.listen)
    {
        let webhook = &WebhookSettings {
            listen,
            ..webhook.clone()
        };
        reporter.report(&Notice::WebhooksTaken { pipeline, webhook });
        if let Some(file) = webhook.exposed_secret() {
            reporter.report(&Notice::SecretExposed { pipeline, file });
        }
    }
    if let SourceSettings::Ingest(ingest) = source
        && let Some(address) = webhooks.address(ingest.entrance)
    {
        let ingest = &IngestSettings {
            entrance: address.into(),
            ..ingest.clone()
        };
        reporter.report(&Notice::MessagesTaken { pipeline, ingest });
        if let Some(file) = ingest.exposed_tokens() {
            reporter.report(&Notice::SecretExposed { pipeline, file });
        }
    }
}
