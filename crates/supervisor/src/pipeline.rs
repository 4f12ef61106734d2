//! One pipeline of a worker, from its layers to its result.

use std::sync::Arc;

use semel_backends::layered::Layer;
use semel_backends::webhook::Listeners;
use semel_backends::{source, streamed};
use semel_config::{Cache, Front, PipelineSettings, SourceSettings, WebhookSettings};
use semel_core::Result;
use semel_engine::layer::outage::Policy;
use semel_engine::layer::tiered::CacheHits;
use semel_worker::run::{Run, Stores, run_streamed, run_with};
use semel_worker::settings::EffectSettings;
use tokio::task::JoinSet;

use crate::notice::{Notice, Reporter};
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
    /// The addresses that webhooks come to.
    pub(crate) webhooks: Arc<Listeners>,
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

    async fn consume(self) -> Result<PipelineSummary> {
        let Self {
            settings,
            stores,
            run,
            outage,
            guard,
            reporter,
            status,
            hits,
            webhooks,
        } = self;
        let PipelineSettings {
            pipeline,
            source,
            effect,
            layers,
            waived,
            dead_letter: _,
            ownership: _,
        } = settings;
        let around = &run.surroundings;
        let (stores, layer) = Layer::over(
            &layers.front,
            stores,
            &around.clock,
            &*around.entropy,
            hits.as_ref(),
        )?;
        status.layers().knows(&pipeline.name, &layer);
        if let (Layer::Cache(cache), Front::Cache(Cache { warm, .. })) = (&layer, &layers.front)
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
        let summary = if let EffectSettings::Streamed(streamed) = effect {
            let (source, stream, seen) = streamed::open(&source, &streamed, &pipeline, around)?;
            status.restores(&pipeline.name, Arc::clone(&seen));
            let mut watches = JoinSet::new();
            let name = || pipeline.name.clone();
            watches.spawn(restoration::watch(
                name(),
                Arc::clone(&seen),
                Arc::clone(&reporter),
            ));
            watches.spawn(transaction_overlap::watch(name(), seen, reporter));
            let ends = (Guarded::new(source, guard), stream);
            let ended = run_streamed(pipeline, streamed.transform, ends, stores, run, outage).await;
            watches.shutdown().await;
            ended?
        } else {
            let (longest, lease) = (pipeline.max_message_bytes, pipeline.lease);
            let opened = source::open(&source, longest, lease, Some(&webhooks)).await?;
            report_webhook(&pipeline.name, &source, &webhooks, &*reporter);
            let source = Guarded::new(opened, guard);
            run_with(pipeline, effect, source, stores, run, outage).await?
        };
        Ok(PipelineSummary {
            summary,
            fail: layers.fail,
            layer: layer.figures(),
            waived,
        })
    }
}

/// Reports where the requests of a provider come to, if the source is a webhook, and whether others can sign them.
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
}
