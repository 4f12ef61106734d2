//! Families whose samples are taken at each scrape.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::families::Labels;

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// One series of a family, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    labels: Labels,
    value: u64,
}

impl Sample {
    /// A series with these labels, in the order in which they are written.
    pub fn new<const N: usize>(labels: [(&'static str, &str); N], value: u64) -> Self {
        Self {
            labels: crate::families::labels(labels),
            value,
        }
    }
}

type Samples = Box<dyn Fn() -> Vec<Sample> + Send + Sync>;

pub(crate) struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    samples: Samples,
}

impl Family {
    pub(crate) fn new(
        name: &'static str,
        help: &'static str,
        kind: Kind,
        samples: impl Fn() -> Vec<Sample> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            help,
            kind,
            samples: Box::new(samples),
        }
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Collector for Family {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
        };
        let mut encoder = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        for Sample { labels, value } in (self.samples)() {
            let series = encoder.encode_family(&labels)?;
            match self.kind {
                Kind::Counter => ConstCounter::new(value).encode(series)?,
                Kind::Gauge => ConstGauge::new(value).encode(series)?,
            }
        }
        Ok(())
    }
}
