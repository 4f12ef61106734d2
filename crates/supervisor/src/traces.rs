//! The traces of a worker: its exporter, and what each pipeline is called in them.

use std::sync::Arc;

use semel_config::{
    Front, PipelineSettings, RelaySettings, RelaySink, SourceSettings, StoreUrl, TelemetrySettings,
};
use semel_core::Claimant;
use semel_engine::event::{FanOut, Observer};
use semel_engine::layer::tiered::CacheHits;
use semel_engine::surroundings::Surroundings;
use semel_telemetry::traces::{
    Exporter, KeyForm, LostSpans, News, Refused, TraceSettings, TracedFront, TracedPipeline,
    TracedRelay, TracedTarget, Traces, Transport,
};
use semel_worker::effect::http::{Post, Settings as HttpSettings};
use semel_worker::effect::publish::{Destination, Target};
use semel_worker::settings::EffectSettings;

use crate::notice::{Notice, Reporter};

/// Begins to export traces, if the settings name a collector that can be reached. Work is never refused for its traces:
/// if the system has no certificates to trust a collector with, that is reported, and nothing is exported.
pub(crate) fn begin(
    settings: &TelemetrySettings,
    claimant: Claimant,
    lost: LostSpans,
    reporter: &Arc<dyn Reporter>,
) -> Option<Exporter> {
    for why in &settings.notes {
        reporter.report(&Notice::TelemetryVariable { why });
    }
    let collector = settings.collector.as_ref()?;
    let transport = match Post::new(collector) {
        Ok(post) => Collector(post),
        Err(error) => {
            let why = error.to_string();
            reporter.report(&Notice::CollectorAway { why: &why });
            return None;
        }
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
    let reporter = Arc::clone(reporter);
    let on_news = Arc::new(move |news| match news {
        News::Away(why) => reporter.report(&Notice::CollectorAway { why: &why }),
        News::Overflows => reporter.report(&Notice::SpansOverflow),
        News::TookPart(why) => reporter.report(&Notice::CollectorTookPart { why: &why }),
        News::Back { lost } => reporter.report(&Notice::CollectorBack { lost }),
    });
    Some(Exporter::begin(settings, transport, lost, on_news))
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

/// Has these traces watch a pipeline over this store beside whoever watches it; returns the place where its cache is to
/// note the claims that it answers, if it has one.
pub(crate) fn watch(
    traces: &Traces,
    settings: &PipelineSettings,
    store: &StoreUrl,
    surroundings: &mut Surroundings,
) -> Option<Arc<CacheHits>> {
    let pipeline = pipeline(settings, store);
    let watching: Arc<dyn Observer> = Arc::new(traces.pipeline(&pipeline));
    surroundings.observer = Arc::new(FanOut::new([Arc::clone(&surroundings.observer), watching]));
    match pipeline.front {
        TracedFront::Cache(hits) => Some(hits),
        TracedFront::None | TracedFront::Filter => None,
    }
}

/// Returns the name of a pipeline in its spans, with its source and its effect.
fn pipeline(settings: &PipelineSettings, store: &StoreUrl) -> TracedPipeline {
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
        SourceSettings::Webhook(it) => ("webhook", Some(it.path.to_string()), None),
        SourceSettings::Ingest(it) => ("ingest", Some(it.path.to_string()), None),
    };
    TracedPipeline {
        name: settings.pipeline.name.to_string(),
        system,
        destination,
        group,
        effect: settings.effect.kind(),
        target: target(settings, store),
        class: settings.effect.class(),
        front: match &settings.layers.front {
            Front::None => TracedFront::None,
            Front::Cache(_) => TracedFront::Cache(Arc::default()),
            Front::Approximate(_) => TracedFront::Filter,
        },
    }
}

/// Returns the place that the effect of a pipeline goes to.
fn target(settings: &PipelineSettings, store: &StoreUrl) -> TracedTarget {
    match &settings.effect {
        EffectSettings::Publish(effect) => broker(&*effect.target),
        // The output goes to the cluster of the source.
        EffectSettings::Streamed(effect) => TracedTarget::Broker {
            system: "kafka",
            destination: effect.topic.clone(),
            server: match &settings.source {
                SourceSettings::Kafka(source) => source.server(),
                SourceSettings::File { .. }
                | SourceSettings::Stdin { .. }
                | SourceSettings::Nats(_)
                | SourceSettings::Amqp(_)
                | SourceSettings::Webhook(_)
                | SourceSettings::Ingest(_) => None,
            },
        },
        EffectSettings::Http(effect, _) => server(effect),
        EffectSettings::Sql(_) => match store.database() {
            Some((system, server)) => TracedTarget::Database { system, server },
            None => TracedTarget::Local,
        },
        EffectSettings::File { .. }
        | EffectSettings::Exec(..)
        | EffectSettings::Jsonl(..)
        | EffectSettings::Stdout(_) => TracedTarget::Local,
    }
}

/// Returns the name of a relay in its spans, with the place that it publishes to.
pub(crate) fn relay(settings: &RelaySettings) -> TracedRelay {
    TracedRelay {
        name: settings.name.to_string(),
        stream: settings.stream.to_string(),
        target: match &settings.sink {
            RelaySink::Broker(target) => broker(&**target),
            RelaySink::Http(http) => server(http),
            RelaySink::File(_) => TracedTarget::Local,
        },
    }
}

fn broker(target: &dyn Target) -> TracedTarget {
    let Destination {
        system,
        name,
        server,
    } = target.destination();
    TracedTarget::Broker {
        system,
        destination: name,
        server,
    }
}

fn server(http: &HttpSettings) -> TracedTarget {
    match http.place() {
        Some(place) => TracedTarget::Http {
            method: place.method,
            url: place.url,
            server: place.server,
        },
        None => TracedTarget::Local,
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

#[cfg(test)]
mod tests {
    use semel_backends::sink;
    use semel_config::{Backends, Overrides, Servers, Settings};

    use super::*;

    /// Returns the target of a pipeline with this store and effect, whose source is on Kafka.
    fn target_of(store: &str, effect: &str) -> TracedTarget {
        let text = format!(
            "[store]\nurl = \"{store}\"\n[pipelines.pay]\nkey = \"json:/id\"\n\
             source = {{ kind = \"kafka\", brokers = \"one:9093\", topic = \"in\", group = \"pay\" }}\n\
             [pipelines.pay.effect]\n{effect}\n"
        );
        let backends = Backends {
            servers: Servers {
                is_built_in: |_| true,
                check: |_| Ok(()),
            },
            target: sink::target,
        };
        let none = std::iter::empty();
        let read = Settings::of("semel.toml", &text, none, &Overrides::default(), backends);
        let settings = read.unwrap_or_else(|faults| panic!("{faults:?}"));
        pipeline(&settings.pipelines[0], &settings.store).target
    }

    #[test]
    fn each_effect_names_its_target_and_no_secret() {
        let server = |host: &str, port| Some((host.to_owned(), port));
        let broker = |system, destination: &str, server| TracedTarget::Broker {
            system,
            destination: destination.to_owned(),
            server,
        };
        let file = "sqlite:s.db";
        for (store, effect, target) in [
            (
                file,
                "kind = \"kafka\"\nbrokers = \"one,two\"\ntopic = \"out\"",
                broker("kafka", "out", None),
            ),
            (
                file,
                "kind = \"nats\"\nurl = \"nats://me:geheim@hub\"\nsubject = \"out\"",
                broker("nats", "out", server("hub", 4_222)),
            ),
            (
                file,
                "kind = \"amqp\"\nurl = \"amqp://me:geheim@mq\"\nexchange = \"shop\"\nrouting_key = \"out\"",
                broker("rabbitmq", "shop:out", server("mq", 5_672)),
            ),
            (
                file,
                "kind = \"kafka\"\nclass = \"streamed\"\nbrokers = \"one:9093\"\ntopic = \"out\"",
                broker("kafka", "out", server("one", 9_093)),
            ),
            (
                file,
                "kind = \"http\"\nmethod = \"PUT\"\nurl = \"https://me:geheim@pay/charge?token=geheim\"",
                TracedTarget::Http {
                    method: "PUT".to_owned(),
                    url: "https://pay/charge".to_owned(),
                    server: ("pay".to_owned(), 443),
                },
            ),
            (
                "postgres://me:geheim@db/shop",
                "kind = \"sql\"\nstatement = \"insert into t values (:id)\"",
                TracedTarget::Database {
                    system: "postgresql",
                    server: server("db", 5_432),
                },
            ),
            (
                file,
                "kind = \"exec\"\ncommand = [\"true\"]",
                TracedTarget::Local,
            ),
        ] {
            assert_eq!(target_of(store, effect), target, "{effect}");
        }
    }
}
