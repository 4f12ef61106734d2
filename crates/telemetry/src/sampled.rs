//! Families whose samples are taken at each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::families::Labels;

/// A family as it is now.
#[derive(Clone, Debug)]
pub struct SampledFamily {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<Sample>,
}

impl SampledFamily {
    /// A family whose values go up and down.
    pub fn gauge(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Self {
        Self {
            name,
            help,
            kind: MetricType::Gauge,
            samples,
        }
    }

    /// A family whose values only grow. `name` has no `_total`, which its text has.
    pub fn counter(name: &'static str, help: &'static str, samples: Vec<Sample>) -> Self {
        Self {
            kind: MetricType::Counter,
            ..Self::gauge(name, help, samples)
        }
    }
}

/// One series of a family, as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    labels: Labels,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Whole(u64),
    Real(f64),
}

impl Sample {
    /// A series with these labels, in the order in which they are written.
    pub fn new<const N: usize>(labels: [(&'static str, &str); N], value: u64) -> Self {
        Self {
            labels: crate::families::labels(labels),
            value: Value::Whole(value),
        }
    }

    /// A series whose value is not a whole number, or is infinite.
    pub fn real<const N: usize>(labels: [(&'static str, &str); N], value: f64) -> Self {
        Self {
            labels: crate::families::labels(labels),
            value: Value::Real(value),
        }
    }
}

/// Takes the samples of some families, all of them at once.
pub(crate) struct Sampler<F>(pub(crate) F);

impl<F> fmt::Debug for Sampler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sampler")
    }
}

impl<F: Fn() -> Vec<SampledFamily> + Send + Sync + 'static> Collector for Sampler<F> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in (self.0)() {
            let kind = family.kind;
            let mut series = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for Sample { labels, value } in family.samples {
                let one = series.encode_family(&labels)?;
                match (kind, value) {
                    (MetricType::Counter, Value::Whole(it)) => ConstCounter::new(it).encode(one)?,
                    (MetricType::Counter, Value::Real(it)) => ConstCounter::new(it).encode(one)?,
                    (_, Value::Whole(it)) => ConstGauge::new(it).encode(one)?,
                    (_, Value::Real(it)) => ConstGauge::new(it).encode(one)?,
                }
            }
        }
        Ok(())
    }
}
