//! Traces: an observer that turns the spans of attempts into those of OTLP, and an exporter that sends them.
//!
//! [`Exporter::begin`] starts a task and hands out [`Traces`], which make an observer for each pipeline, or for a program's
//! own handle. Whoever embeds this brings a [`Transport`], since nothing here knows HTTP.
//!
//! The engine decides when an attempt ends which spans [are recorded](semel_engine::trace::Spans::are_recorded), and hands
//! over those. Nothing waits for the exporter: a queue that is full loses spans, and [`LostSpans`] counts them.

mod convert;
mod exporter;
mod otlp;
mod publication;

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use semel_core::Entropy;
use semel_engine::effect::Class;
use semel_engine::event::{Event, Observer};
use semel_engine::layer::tiered::CacheHits;
use semel_engine::trace::{SampleShare, Spans};

pub use exporter::{Exporter, News, OnNews, Refused, Transport};
pub use publication::{RelayTraces, TracedRelay};

use convert::Subject;
use exporter::Queue;

/// The form in which spans have the keys of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// A hash, `semel.key_hash`.
    #[default]
    Hashed,
    /// The key itself, `semel.key`.
    Plain,
}

/// The rules for the traces of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The share of traces to record of those that begin here.
    pub share: SampleShare,
    /// The form of keys.
    pub keys: KeyForm,
    /// The attributes of the resource, such as `service.name`, each once.
    pub resource: Vec<(String, String)>,
    /// The version of the program.
    pub version: &'static str,
}

/// The place that a pipeline's messages come from, and what it does with them.
#[derive(Clone, Debug)]
pub struct TracedPipeline {
    /// The name of the pipeline.
    pub name: String,
    /// The kind of the source, as `messaging.system` has it.
    pub system: &'static str,
    /// The topic, queue, stream or file.
    pub destination: Option<String>,
    /// The consumer group.
    pub group: Option<String>,
    /// The kind of the effect.
    pub effect: &'static str,
    /// The place that the effect goes to.
    pub target: TracedTarget,
    /// The class of the effect.
    pub class: Class,
    /// The layer before the store.
    pub front: TracedFront,
}

/// The place that an effect goes to. Servers are a host and a port, and nothing where there are several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TracedTarget {
    /// This machine: a program, a file.
    #[default]
    Local,
    /// A place of a broker.
    Broker {
        /// The kind of the broker, as `messaging.system` has it.
        system: &'static str,
        /// The topic, the subject, or exchange and routing key.
        destination: String,
        /// The server.
        server: Option<(String, u16)>,
    },
    /// An HTTP server.
    Http {
        /// The method.
        method: String,
        /// The URL without user, password and query.
        url: String,
        /// The server.
        server: (String, u16),
    },
    /// A database.
    Database {
        /// The kind of the database, as `db.system.name` has it.
        system: &'static str,
        /// The server.
        server: Option<(String, u16)>,
    },
}

/// The layer that may answer in place of the store.
#[derive(Clone, Debug, Default)]
pub enum TracedFront {
    /// None.
    #[default]
    None,
    /// A cache, and the claims that it answered.
    Cache(Arc<CacheHits>),
    /// A filter.
    Filter,
}

impl TracedFront {
    /// Returns the name of what answered the claim of an attempt. Asks the cache once for each answer.
    fn hit(&self, spans: &Spans<'_>) -> Option<&'static str> {
        let is_replay = match spans.decision? {
            "unprotected" | "failed" => return None,
            decision => decision == "replay",
        };
        let is_hit = |hits: &CacheHits| spans.claim_id.is_some_and(|claim| hits.take(claim));
        Some(match self {
            Self::Cache(hits) if is_hit(hits) => "cache",
            Self::Filter if is_replay => "filter",
            Self::None | Self::Cache(_) | Self::Filter => "store",
        })
    }
}

/// Counts the spans that were lost.
#[derive(Clone, Debug, Default)]
pub struct LostSpans(Counter);

impl LostSpans {
    pub(crate) const fn new(counter: Counter) -> Self {
        Self(counter)
    }

    /// Returns the count.
    pub fn count(&self) -> u64 {
        self.0.get()
    }

    fn add(&self, count: usize) {
        self.0.inc_by(count as u64);
    }
}

/// Makes observers of pipelines. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces {
    settings: Arc<TraceSettings>,
    queue: Queue,
}

impl Traces {
    const fn new(settings: Arc<TraceSettings>, queue: Queue) -> Self {
        Self { settings, queue }
    }

    /// Returns the observer of a pipeline, which wants its spans.
    pub fn pipeline(&self, pipeline: &TracedPipeline) -> PipelineTraces {
        PipelineTraces {
            share: self.settings.share,
            subject: Subject::new(pipeline, self.settings.keys),
            front: pipeline.front.clone(),
            queue: self.queue.clone(),
        }
    }

    /// Returns the observer of a relay, which wants its spans. `entropy` is what their ids are drawn from.
    pub fn relay(&self, relay: &TracedRelay, entropy: Arc<dyn Entropy>) -> RelayTraces {
        RelayTraces::new(relay, &self.settings, self.queue.clone(), entropy)
    }

    /// Returns the observer of a program's own handle, which wants the spans of its calls and of its consumers.
    pub fn handle(&self) -> HandleTraces {
        HandleTraces {
            settings: Arc::clone(&self.settings),
            queue: self.queue.clone(),
        }
    }
}

/// Hands the spans of one handle to the exporter: of its calls, by the name of their operation, and of its consumers, of
/// whose sources and effects nothing is known here.
#[derive(Clone, Debug)]
pub struct HandleTraces {
    settings: Arc<TraceSettings>,
    queue: Queue,
}

impl Observer for HandleTraces {
    fn observe(&self, _name: &str, _event: &Event<'_>) {}

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(self.settings.share)
    }

    fn observe_spans(&self, name: &str, spans: &Spans<'_>) {
        self.queue.offer(spans, || {
            let subject = Subject::of_handle(name, spans, self.settings.keys);
            subject.spans(spans, None)
        });
    }
}

/// Hands the spans of one pipeline to the exporter.
#[derive(Clone, Debug)]
pub struct PipelineTraces {
    share: SampleShare,
    subject: Subject,
    front: TracedFront,
    queue: Queue,
}

impl Observer for PipelineTraces {
    fn observe(&self, _pipeline: &str, _event: &Event<'_>) {}

    fn wants_spans(&self) -> Option<SampleShare> {
        Some(self.share)
    }

    fn observe_spans(&self, _pipeline: &str, spans: &Spans<'_>) {
        let hit = self.front.hit(spans);
        self.queue.offer(spans, || self.subject.spans(spans, hit));
    }
}

#[cfg(test)]
mod tests;
