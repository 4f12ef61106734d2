//! Metrics of Semel for Prometheus, and [`traces`] for OpenTelemetry.
//!
//! [`Metrics`] holds every family. A pipeline, or a [`Semel`] handle, is watched through
//! [`Metrics::pipeline`], an observer of the engine; a store through [`Metrics::store`], whose
//! [`Measured`] layer times every call. [`Metrics::text`] is what a scrape gets. Everything that a scrape reads is a
//! counter in memory: it calls no store and waits for nobody.
//!
//! A relay of an outbox is watched through [`Metrics::relay`].
//!
//! A handle has decisions, duplicates, effects, renewals and lost claims. Its calls are not messages: it has nothing that
//! is fetched, waits or is replayed.
//!
//! Names and labels are a promise: a dashboard outlives a release. No label ever has a key in it.
//!
//! ```
//! use semel_telemetry::{Build, Format, Metrics};
//!
//! let metrics = Metrics::new(Build { version: "1.0.0", commit: "unknown" });
//! let payments = metrics.pipeline("payments", "http");
//! // `payments` is an `Observer`: hand it to the engine.
//! let text = metrics.text(Format::Prometheus);
//! assert!(text.contains(r#"semel_decisions_total{pipeline="payments",decision="granted"} 0"#));
//! ```
//!
//! [`Semel`]: https://docs.rs/semel

mod churn;
mod completed;
mod decisions;
mod effects;
mod families;
pub mod history;
mod operation;
mod pipeline;
mod process;
mod relay;
mod sampled;
mod store;
mod storm;
mod tenants;
pub mod traces;
mod watched;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;
use semel_core::Clock;

pub use operation::{OperationMetrics, RouteMetrics};
pub use pipeline::PipelineMetrics;
pub use relay::RelayMetrics;
pub use sampled::{Sample, SampledFamily};
pub use store::{Measured, StoreMetrics};

use families::{Families, labels};
use traces::LostSpans;
use watched::Shared;

/// The build that the metrics are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Build {
    /// Its version.
    pub version: &'static str,
    /// Its commit, or `unknown`.
    pub commit: &'static str,
}

/// The text format of a scrape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's own, version 0.0.4.
    Prometheus,
    /// `OpenMetrics`, version 1.0.0.
    OpenMetrics,
}

impl Format {
    /// Returns the format that a scrape with this `Accept` header asks for. Without one, it is
    /// [`Prometheus`](Self::Prometheus).
    pub fn asked_for(accept: Option<&str>) -> Self {
        let ranges = accept.unwrap_or_default().split(',');
        let kinds = ranges.map(|it| it.split(';').next().unwrap_or_default().trim());
        // Whoever can read OpenMetrics names it first.
        if kinds
            .into_iter()
            .any(|it| it == "application/openmetrics-text")
        {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// Returns the `Content-Type` of its text.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Every family of metrics. Cheap to clone: the clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    families: Families,
    shared: Arc<Shared>,
}

impl Metrics {
    /// Makes the families, and those of this process. Nothing of a pipeline or a store is there before it is named.
    pub fn new(build: Build) -> Self {
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        let info = labels([("version", build.version), ("commit", build.commit)]);
        families.build_info.get_or_create(&info).set(1);
        process::register(&mut registry);
        let metrics = Self {
            registry: Arc::new(Mutex::new(registry)),
            families,
            shared: Arc::new(Shared::new()),
        };
        let shared = Arc::clone(&metrics.shared);
        metrics.sample(move || vec![shared.tenants.family()]);
        metrics
    }

    /// Returns the observer of a pipeline whose effect is of the kind `effect`. Its counters begin with zero, or
    /// where an earlier observer of that name left them.
    pub fn pipeline(&self, name: &str, effect: &str) -> PipelineMetrics {
        PipelineMetrics::new(&self.families, &self.shared, name, effect)
    }

    /// Returns the observer of an operation that clients of the claim API name. Names are to be bounded by the caller.
    pub fn operation(&self, name: &str) -> OperationMetrics {
        OperationMetrics::new(&self.families, &self.shared, name)
    }

    /// Returns the observer of the routes of one name. Its counters begin with zero.
    pub fn route(&self, name: &str) -> RouteMetrics {
        RouteMetrics::new(&self.families, &self.shared, name)
    }

    /// Returns the observer of a relay. Its counters begin with zero.
    pub fn relay(&self, name: &str) -> RelayMetrics {
        RelayMetrics::new(&self.families, name)
    }

    /// Judges what is judged over time: whether there is a storm of duplicates, and which share of messages comes under
    /// new keys. To be called about once a second with monotonic time; without it there is no `semel_storm` and no
    /// `semel_key_churn`.
    pub fn look(&self, now: Duration) {
        self.shared.look(&self.families, now);
    }

    /// Returns the metrics of a store, shown as `store`: a url without its password.
    pub fn store(&self, store: &str, clock: Arc<dyn Clock>) -> StoreMetrics {
        StoreMetrics::new(&self.families, store, clock)
    }

    /// Returns the counter of spans that were lost on their way to a collector.
    pub fn spans_lost(&self) -> LostSpans {
        LostSpans::new(self.families.spans_lost.clone())
    }

    /// Adds families whose samples are taken at each scrape, all of them at once. `families` must be quick, and wait
    /// for nobody.
    pub fn sample(&self, families: impl Fn() -> Vec<SampledFamily> + Send + Sync + 'static) {
        let sampler = sampled::Sampler(families);
        self.lock().register_collector(Box::new(sampler));
    }

    /// Returns what a scrape gets.
    pub fn text(&self, format: Format) -> String {
        let mut out = String::new();
        let registry = self.lock();
        // Writing to a string cannot fail, and no label or collector of ours does.
        let _ = match format {
            Format::Prometheus => prometheus_text::encode(&mut out, &registry),
            Format::OpenMetrics => text::encode(&mut out, &registry),
        };
        out
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
