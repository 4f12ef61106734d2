//! The traces of a worker: its exporter, and what each pipeline is called in them.

use std::sync::Arc;

use semel_config::{Front, PipelineSettings, SourceSettings, TelemetrySettings};
use semel_core::{Claimant, Result};
use semel_engine::event::{FanOut, Observer};
use semel_engine::layer::tiered::CacheHits;
use semel_engine::surroundings::Surroundings;
use semel_telemetry::traces::{
    Exporter, KeyForm, LostSpans, News, Refused, TraceSettings, TracedFront, TracedPipeline,
    Transport,
};
use semel_worker::effect::http::Post;

use crate::notice::{Notice, Reporter};

/// Begins to export traces, if the settings name a collector.
///
/// # Errors
///
/// `Unavailable`: the system has no certificates to trust a collector with.
pub(crate) fn begin(
    settings: &TelemetrySettings,
    claimant: Claimant,
    lost: LostSpans,
    reporter: &Arc<dyn Reporter>,
) -> Result<Option<Exporter>> {
    for why in &settings.notes {
        reporter.report(&Notice::TelemetryVariable { why });
    }
    let Some(collector) = &settings.collector else {
        return Ok(None);
    };
    let mut resource = settings.resource.clone();
    let ours = [
        ("service.version", VERSION.to_owned()),
        ("service.instance.id", claimant.to_string()),
    ];
    for (name, value) in ours {
        if resource.iter().all(|(known, _)| known != name) {
            resource.push((name.to_owned(), value));
        }
    }
    let settings = TraceSettings {
        share: settings.sample,
        keys: if settings.has_plain_keys {
            KeyForm::Plain
        } else {
            KeyForm::Hashed
        },
        resource,
        version: VERSION,
    };
    let transport = Collector(Post::new(collector)?);
    let reporter = Arc::clone(reporter);
    let on_news = Arc::new(move |news| match news {
        News::Away(why) => reporter.report(&Notice::CollectorAway { why: &why }),
        News::Overflows => reporter.report(&Notice::SpansOverflow),
        News::TookPart(why) => reporter.report(&Notice::CollectorTookPart { why: &why }),
        News::Back { lost } => reporter.report(&Notice::CollectorBack { lost }),
    });
    Ok(Some(Exporter::begin(settings, transport, lost, on_news)))
}

/// Sends what waits, and reports how much did not arrive.
pub(crate) async fn end(exporter: Option<Exporter>, lost: &LostSpans, reporter: &dyn Reporter) {
    let Some(exporter) = exporter else {
        return;
    };
    exporter.close().await;
    let lost = lost.count();
    if lost > 0 {
        reporter.report(&Notice::SpansLost { lost });
    }
}

/// Has the exporter watch a pipeline beside whoever watches it; returns the place where its cache is to note the claims
/// that it answers, if it has one.
pub(crate) fn watch(
    exporter: &Exporter,
    settings: &PipelineSettings,
    surroundings: &mut Surroundings,
) -> Option<Arc<CacheHits>> {
    let pipeline = pipeline(settings);
    let traced: Arc<dyn Observer> = Arc::new(exporter.traces().pipeline(&pipeline));
    surroundings.observer = Arc::new(FanOut::new([Arc::clone(&surroundings.observer), traced]));
    match pipeline.front {
        TracedFront::Cache(hits) => Some(hits),
        TracedFront::None | TracedFront::Filter => None,
    }
}

/// Returns the name of a pipeline in its spans, with its source and its effect.
fn pipeline(settings: &PipelineSettings) -> TracedPipeline {
    let (system, destination, group) = match &settings.source {
        SourceSettings::File { path, .. } => ("file", Some(path.display().to_string()), None),
        SourceSettings::Stdin { .. } => ("stdin", None, None),
        SourceSettings::Kafka(it) => ("kafka", Some(it.topic.clone()), Some(it.group.clone())),
        SourceSettings::Nats(it) => {
            // A filter for many subjects is the name of none.
            let is_name = |subject: &&String| !subject.contains(['*', '>']);
            let subject = it.subject.as_ref().filter(is_name);
            let destination = subject.unwrap_or(&it.stream);
            ("nats", Some(destination.clone()), Some(it.consumer.clone()))
        }
        SourceSettings::Amqp(it) => ("rabbitmq", Some(it.queue.clone()), None),
    };
    TracedPipeline {
        name: settings.pipeline.name.to_string(),
        system,
        destination,
        group,
        effect: settings.effect.kind(),
        class: settings.effect.class(),
        front: match &settings.layers.front {
            Front::None => TracedFront::None,
            Front::Cache(_) => TracedFront::Cache(Arc::default()),
            Front::Approximate(_) => TracedFront::Filter,
        },
    }
}

/// The way to the collector: the client of the effect `http`.
struct Collector(Post);

impl Transport for Collector {
    async fn post(&self, body: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let answer = self.0.send(body).await;
        answer.map(|body| body.to_vec()).map_err(Refused)
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
