//! The metrics of one pipeline.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use semel_core::Operation;
use semel_engine::effect::Verdict;
use semel_engine::event::{Event, Observer, Origin, Wait};
use semel_engine::summary::Fate;

use crate::churn::Churn;
use crate::decisions::Decisions;
use crate::effects::Effects;
use crate::families::{Counters, Families, labels};
use crate::watched::{Shared, Watched};

/// Counts what happens to the messages of one pipeline. Its series are looked up once, so that an event costs an
/// addition; those of an observation, the lock of its histogram.
///
/// It counts every event that it is told, whatever the name of the pipeline in it.
#[derive(Clone, Debug)]
pub struct PipelineMetrics(Arc<Series>);

#[derive(Debug)]
struct Series {
    name: String,
    watched: Arc<Watched>,
    deliveries: [Counter; FATES.len()],
    decisions: Decisions,
    effects: Effects,
    effect_seconds: Histogram,
    overhead_seconds: Histogram,
    waits: [Counter; Wait::ALL.len()],
    renewed: Counter,
    lost: Counter,
    quarantined: Counters,
    unprotected: Counter,
    in_flight: Gauge,
    held: Gauge,
}

impl PipelineMetrics {
    pub(crate) fn new(families: &Families, shared: &Arc<Shared>, name: &str, effect: &str) -> Self {
        let pipeline = labels([("pipeline", name)]);
        let of = |family: &Counters, label, value: &str| {
            family.get_or_create_owned(&labels([("pipeline", name), (label, value)]))
        };
        let effects = Effects::new(families, name, effect);
        let effect = labels([("pipeline", name), ("effect", effect)]);
        Self(Arc::new(Series {
            name: name.to_owned(),
            watched: shared.watched(families, name),
            deliveries: FATES.map(|word| of(&families.deliveries, "fate", word)),
            decisions: Decisions::new(families, shared, name),
            effects,
            effect_seconds: families.effect_seconds.get_or_create_owned(&effect),
            overhead_seconds: families.overhead_seconds.get_or_create_owned(&pipeline),
            waits: WAITS.map(|why| of(&families.waits, "why", why)),
            renewed: of(&families.renewals, "result", "renewed"),
            lost: of(&families.renewals, "result", "lost"),
            quarantined: families.quarantined.clone(),
            unprotected: families.unprotected.get_or_create_owned(&pipeline),
            in_flight: families.in_flight.get_or_create_owned(&pipeline),
            held: families.held.get_or_create_owned(&pipeline),
        }))
    }

    /// Watches for equal payloads under different keys, too: for pipelines whose key is not part of the payload. It is
    /// so from then on for all observers of that name.
    #[must_use]
    pub fn watching_keys(self) -> Self {
        self.0.watched.churn.get_or_init(Churn::new);
        self
    }
}

impl Series {
    /// Counts a message that was read somewhere, and so is kept: a call of the library is refused and kept nowhere.
    /// Reasons are few, and messages with one are rare: looked up each time.
    fn quarantined(&self, coordinates: &str, reason: &str) {
        if coordinates.is_empty() {
            return;
        }
        let labels = labels([("pipeline", &self.name), ("reason", reason)]);
        self.quarantined.get_or_create(&labels).inc();
    }
}

impl Observer for PipelineMetrics {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        let it = &*self.0;
        it.decisions.observe(event);
        match event {
            Event::Conflicted { coordinates, .. } => {
                it.quarantined(coordinates, "fingerprint-conflict");
            }
            Event::TooOld { coordinates, .. } => it.quarantined(coordinates, "too-old"),
            Event::LiveOnly { coordinates, .. } => it.quarantined(coordinates, "live-only"),
            Event::Unusable {
                unusable,
                coordinates,
            } => it.quarantined(coordinates, unusable.code()),
            Event::EffectEnded { verdict, took, .. } => {
                it.effects.of(verdict).inc();
                it.effect_seconds.observe(took.as_secs_f64());
            }
            Event::Settled {
                fate,
                overhead,
                sent_again,
                ..
            } => {
                it.deliveries[*fate as usize].inc();
                if *sent_again {
                    it.watched.replays.inc();
                } else if *fate == Fate::Replayed {
                    it.watched.unmarked.inc();
                }
                if let Some(overhead) = overhead {
                    it.overhead_seconds.observe(overhead.as_secs_f64());
                }
            }
            Event::Waits { why } => _ = it.waits[*why as usize].inc(),
            Event::Renewed { count, lost } => {
                it.renewed.inc_by(*count as u64);
                it.lost.inc_by(*lost as u64);
            }
            Event::Unprotected { .. } => _ = it.unprotected.inc(),
            Event::InHand { running, held } => {
                it.in_flight
                    .set(i64::try_from(*running).unwrap_or(i64::MAX));
                it.held.set(i64::try_from(*held).unwrap_or(i64::MAX));
            }
            _ => {}
        }
    }

    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        if let Some(churn) = self.0.watched.churn.get()
            && let Some(operation) = begins_first(event)
        {
            churn.begins(origin.payload, operation);
        }
        self.observe(pipeline, event);
    }
}

/// Returns the operation of a message that counts from here on: with its first attempt, or where the attempts of a claim
/// are not told, because it is part of the effect's transaction, with the one that succeeds.
fn begins_first<'a>(event: &Event<'a>) -> Option<&'a Operation> {
    match event {
        Event::Granted { operation, grant } => {
            let is_first = grant.attempt == 1 && !grant.takeover && !grant.resumed;
            is_first.then_some(*operation)
        }
        Event::EffectEnded {
            operation,
            verdict: Verdict::Done(_) | Verdict::DoneUnkept { .. },
            with_claim: true,
            ..
        } => Some(*operation),
        _ => None,
    }
}

/// In the order of [`Fate`](semel_engine::summary::Fate), by the names that the summary of a run gives them.
pub(crate) const FATES: [&str; 10] = [
    "applied",
    "replayed",
    "stale",
    "conflicts",
    "too_old",
    "released",
    "dead",
    "in_doubt",
    "quarantined",
    "unprotected",
];
/// In the order of [`Wait::ALL`].
const WAITS: [&str; Wait::ALL.len()] = ["busy", "backoff", "order", "store", "dead_letter"];
