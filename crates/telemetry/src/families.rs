//! The families: names, help and labels, in one place.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The labels of a series, in the order in which they are written.
pub(crate) type Labels = Vec<(&'static str, String)>;

pub(crate) fn labels<const N: usize>(each: [(&'static str, &str); N]) -> Labels {
    let owned = each.map(|(name, value)| (name, value.to_owned()));
    owned.into()
}

pub(crate) type Counters = Family<Labels, Counter>;
pub(crate) type Gauges = Family<Labels, Gauge>;
/// Gauges that are no whole numbers.
pub(crate) type Shares = Family<Labels, Gauge<f64, AtomicU64>>;
pub(crate) type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Every family that is counted as things happen.
#[derive(Clone, Debug)]
pub(crate) struct Families {
    pub(crate) build_info: Gauges,
    pub(crate) deliveries: Counters,
    pub(crate) decisions: Counters,
    pub(crate) duplicates: Counters,
    pub(crate) effects: Counters,
    pub(crate) effect_seconds: Histograms,
    pub(crate) overhead_seconds: Histograms,
    pub(crate) waits: Counters,
    pub(crate) renewals: Counters,
    pub(crate) takeovers: Counters,
    pub(crate) fenced: Counters,
    pub(crate) quarantined: Counters,
    pub(crate) expired_again: Counters,
    pub(crate) unprotected: Counters,
    pub(crate) in_flight: Gauges,
    pub(crate) held: Gauges,
    pub(crate) store_call_seconds: Histograms,
    pub(crate) store_errors: Counters,
    pub(crate) swept: Counters,
    pub(crate) replays: Counters,
    pub(crate) storm: Gauges,
    pub(crate) key_churn: Shares,
    pub(crate) outcome_differs: Counters,
    pub(crate) spans_lost: Counter,
    pub(crate) relay_published: Counters,
    pub(crate) relay_failures: Counters,
    pub(crate) relay_fenced: Counters,
}

impl Families {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        // The registry ends each help with a full stop.
        let mut into = Registration(registry);
        Self {
            build_info: into.gauges("semel_build_info", "The build, always 1"),
            deliveries: into.counters("semel_deliveries", "Deliveries by what became of them"),
            decisions: into.counters("semel_decisions", "Answers to claims"),
            duplicates: into.counters(
                "semel_duplicates",
                "Duplicates of something finished, by the way in which they came about",
            ),
            effects: into.counters("semel_effects", "Calls of an effect that ended, by their end"),
            effect_seconds: into.histograms(
                "semel_effect_seconds",
                "The time that a call of an effect took, in seconds",
            ),
            overhead_seconds: into.histograms(
                "semel_overhead_seconds",
                "The time from fetching a message to acknowledging it, less its effect and less its waits, in seconds",
            ),
            waits: into.counters(
                "semel_waits",
                "Messages that began to wait, once for each kind of wait",
            ),
            renewals: into.counters("semel_renewals", "Leases that were to be extended"),
            takeovers: into.counters(
                "semel_takeovers",
                "Claims that took the place of one whose lease ran out",
            ),
            fenced: into.counters("semel_fenced", "Claims that were lost while their effect ran"),
            quarantined: into.counters("semel_quarantined", "Messages that were quarantined, by the reason"),
            expired_again: into.counters(
                "semel_expired_again",
                "Operations that began once more because their record had passed its window",
            ),
            unprotected: into.counters(
                "semel_unprotected",
                "Calls of an effect that began without a claim while the store was away",
            ),
            in_flight: into.gauges("semel_in_flight", "Messages, and requests of a route, that are worked on"),
            held: into.gauges(
                "semel_held",
                "Messages that wait for an earlier one of their order key, or for a time",
            ),
            store_call_seconds: into.histograms(
                "semel_store_call_seconds",
                "The time that a call of the store took, in seconds",
            ),
            store_errors: into.counters("semel_store_errors", "Calls of the store that failed, by the error's code"),
            swept: into.counters("semel_swept", "Records that sweeps removed, or found in doubt or abandoned"),
            replays: into.counters(
                "semel_replays",
                "Deliveries that were part of a replay: with a replay id, or duplicates in a storm of them",
            ),
            storm: into.gauges(
                "semel_storm",
                "Whether the share of duplicates is far above the pipeline's own past: 1 or 0",
            ),
            key_churn: into.shares(
                "semel_key_churn",
                "The share of messages of the last five minutes whose payload had come under another key",
            ),
            outcome_differs: into.counters(
                "semel_outcome_differs",
                "Effects that ended with another outcome than the one that is recorded",
            ),
            spans_lost: into.counter("semel_spans_lost", "Spans that did not reach the collector"),
            relay_published: into.counters(
                "semel_relay_published",
                "Messages of an outbox that this process published and recorded",
            ),
            relay_failures: into.counters(
                "semel_relay_failures",
                "Messages of an outbox that could not be published, put off or given up; of those of a batch that met an \
                 outage, the first",
            ),
            relay_fenced: into.counters(
                "semel_relay_fenced",
                "How often this process lost leases of partitions while it counted on them",
            ),
        }
    }
}

struct Registration<'a>(&'a mut Registry);

impl Registration<'_> {
    fn counter(&mut self, name: &str, help: &str) -> Counter {
        let counter = Counter::default();
        self.0.register(name, help, counter.clone());
        counter
    }

    fn counters(&mut self, name: &str, help: &str) -> Counters {
        let family = Counters::default();
        self.0.register(name, help, family.clone());
        family
    }

    fn gauges(&mut self, name: &str, help: &str) -> Gauges {
        let family = Gauges::default();
        self.0.register(name, help, family.clone());
        family
    }

    fn shares(&mut self, name: &str, help: &str) -> Shares {
        let family = Shares::default();
        self.0.register(name, help, family.clone());
        family
    }

    fn histograms(&mut self, name: &str, help: &str) -> Histograms {
        let family = Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
        self.0.register(name, help, family.clone());
        family
    }
}

/// From a tenth of a millisecond to a minute: contract, "histogram buckets".
const BUCKETS: [f64; 18] = [
    0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

/// The words of decisions.
pub(crate) const DECISIONS: [&str; 7] = [
    "granted", "replay", "busy", "conflict", "stale", "parked", "too_old",
];
