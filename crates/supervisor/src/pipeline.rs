//! One pipeline of a worker, from its layers to its result.

mod start;

use std::sync::Arc;

use semel_backends::layered::Layer;
use semel_backends::webhook::Listeners;
use semel_config::{
    Cache, Front, IngestSettings, PipelineSettings, SourceSettings, StoreUrl, WebhookSettings,
};
use semel_core::Result;
use semel_engine::layer::outage::Policy;
use semel_engine::layer::tiered::CacheHits;
use semel_engine::summary::Summary;
use semel_engine::surroundings::OnProgress;
use semel_worker::run::{Run, Stores};

use self::start::Start;
use crate::notice::{Notice, Reporter};
use crate::pause::{Keeper, OrderedRun, Runs};
use crate::results::PipelineSummary;
use crate::status::Status;
use crate::stopping::{stopped, unless_stopped};
use crate::store_wait::StoreWait;
use crate::window_guard::Guard;

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
    /// The wait for it, while a run starts.
    pub(crate) store_wait: Arc<StoreWait>,
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
        let filled = fill(&layer, &self.settings, &*self.reporter);
        unless_stopped(&self.run.stop, filled).await;
        let mut summary = Summary::default();
        let mut is_resumed = false;
        while let Some(ordered) = self.runs.next().await {
            is_resumed |= ordered.is_resumed();
            let ended = self.run_once(&ordered, summary, is_resumed).await?;
            is_resumed = true;
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
    /// before have counted. The start of the run waits for what is away, and a stop or an order ends that wait.
    async fn run_once(
        &mut self,
        ordered: &OrderedRun,
        before: Summary,
        is_resumed: bool,
    ) -> Result<Summary> {
        let wait = Arc::clone(&self.store_wait);
        let stopped = stopped(&self.run.stop);
        let called_off = async {
            tokio::select! {
                biased;
                () = stopped => {}
                () = ordered.is_called_off() => {}
            }
        };
        let mut start = Start::of(self, ordered, before, is_resumed);
        match wait.until_made(&mut start, called_off).await? {
            Some(made) => made.await,
            None => Ok(Summary::default()),
        }
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

#[cfg(test)]
mod tests;
