//! The metrics of one relay of an outbox. What waits in the outbox is sampled by whoever can ask it.

use prometheus_client::metrics::counter::Counter;
use semel_outbox::{Event, Observer};

use crate::families::{Families, labels};

/// Counts what a relay publishes, what it cannot publish, and how often it lost leases.
///
/// It counts every event that it is told, whatever the name in it.
#[derive(Clone, Debug)]
pub struct RelayMetrics {
    published: Counter,
    failures: Counter,
    fenced: Counter,
}

impl RelayMetrics {
    pub(crate) fn new(families: &Families, name: &str) -> Self {
        let labels = labels([("relay", name)]);
        Self {
            published: families.relay_published.get_or_create_owned(&labels),
            failures: families.relay_failures.get_or_create_owned(&labels),
            fenced: families.relay_fenced.get_or_create_owned(&labels),
        }
    }
}

impl Observer for RelayMetrics {
    fn observe(&self, _relay: &str, event: &Event<'_>) {
        match event {
            Event::Published { count } => _ = self.published.inc_by(*count),
            Event::PutOff { .. } | Event::Dead { .. } => _ = self.failures.inc(),
            Event::Fenced { .. } => _ = self.fenced.inc(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use semel_core::outbox::OutboxId;

    use super::*;
    use crate::{Build, Format, Metrics};

    #[test]
    fn a_relay_counts_what_leaves_what_does_not_and_what_it_lost() {
        let metrics = Metrics::new(Build {
            version: "1.0.0",
            commit: "unknown",
        });
        let shows = |line: &str| {
            metrics
                .text(Format::Prometheus)
                .lines()
                .any(|it| it == line)
        };
        let relay = metrics.relay("out");
        assert!(shows("semel_relay_published_total{relay=\"out\"} 0"));
        let (id, error, wait) = (OutboxId::from_u128(1), "too large", Duration::ZERO);
        for event in [
            Event::Published { count: 3 },
            Event::Published { count: 4 },
            Event::PutOff {
                id,
                error,
                wait,
                span: None,
            },
            Event::Dead {
                id,
                error,
                span: None,
            },
            Event::Fenced { partitions: 16 },
            Event::Leased { partitions: 16 },
        ] {
            relay.observe("out", &event);
        }
        for line in [
            "semel_relay_published_total{relay=\"out\"} 7",
            "semel_relay_failures_total{relay=\"out\"} 2",
            "semel_relay_fenced_total{relay=\"out\"} 1",
        ] {
            assert!(shows(line), "{line}");
        }
    }
}
