//! The metrics of one pipeline.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use semel_core::{Certainty, Duplicate};
use semel_engine::effect::Verdict;
use semel_engine::event::{Event, Observer, Wait};

use crate::families::{Counters, Families, labels};

/// Counts what happens to the messages of one pipeline. Its series are looked up once, so that an event costs an
/// addition; those of an observation, the lock of its histogram.
///
/// It counts every event that it is told, whatever the name of the pipeline in it.
#[derive(Clone, Debug)]
pub struct PipelineMetrics(Arc<Series>);

#[derive(Debug)]
struct Series {
    name: String,
    deliveries: [Counter; FATES.len()],
    decisions: Decisions,
    /// Redeliveries, republished messages, and those of which that is not known.
    duplicates: [Counter; 3],
    effects: Effects,
    effect_seconds: Histogram,
    overhead_seconds: Histogram,
    waits: [Counter; Wait::ALL.len()],
    renewed: Counter,
    lost: Counter,
    takeovers: Counter,
    fenced: Counter,
    quarantined: Counters,
    expired_again: Counter,
    unprotected: Counter,
    in_flight: Gauge,
    held: Gauge,
}

#[derive(Debug)]
struct Decisions {
    granted: Counter,
    replay: Counter,
    busy: Counter,
    conflict: Counter,
    stale: Counter,
    parked: Counter,
    too_old: Counter,
}

#[derive(Debug)]
struct Effects {
    applied: Counter,
    not_applied: Counter,
    maybe_applied: Counter,
    failed: Counter,
}

impl PipelineMetrics {
    pub(crate) fn new(families: &Families, name: &str, effect: &str) -> Self {
        let pipeline = labels([("pipeline", name)]);
        let of = |family: &Counters, label, value: &str| {
            family.get_or_create_owned(&labels([("pipeline", name), (label, value)]))
        };
        let decision = |word| of(&families.decisions, "decision", word);
        let ended = |verdict| {
            let labels = labels([("pipeline", name), ("effect", effect), ("verdict", verdict)]);
            families.effects.get_or_create_owned(&labels)
        };
        let effect = labels([("pipeline", name), ("effect", effect)]);
        Self(Arc::new(Series {
            name: name.to_owned(),
            deliveries: FATES.map(|word| of(&families.deliveries, "fate", word)),
            decisions: Decisions {
                granted: decision("granted"),
                replay: decision("replay"),
                busy: decision("busy"),
                conflict: decision("conflict"),
                stale: decision("stale"),
                parked: decision("parked"),
                too_old: decision("too_old"),
            },
            duplicates: ["redelivery", "republish", "unknown"]
                .map(|kind| of(&families.duplicates, "kind", kind)),
            effects: Effects {
                applied: ended("applied"),
                not_applied: ended("not_applied"),
                maybe_applied: ended("maybe_applied"),
                failed: ended("failed"),
            },
            effect_seconds: families.effect_seconds.get_or_create_owned(&effect),
            overhead_seconds: families.overhead_seconds.get_or_create_owned(&pipeline),
            waits: WAITS.map(|why| of(&families.waits, "why", why)),
            renewed: of(&families.renewals, "result", "renewed"),
            lost: of(&families.renewals, "result", "lost"),
            takeovers: families.takeovers.get_or_create_owned(&pipeline),
            fenced: families.fenced.get_or_create_owned(&pipeline),
            quarantined: families.quarantined.clone(),
            expired_again: of(&families.expired_again, "certainty", "exact"),
            unprotected: families.unprotected.get_or_create_owned(&pipeline),
            in_flight: families.in_flight.get_or_create_owned(&pipeline),
            held: families.held.get_or_create_owned(&pipeline),
        }))
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

impl Effects {
    fn of(&self, verdict: &Verdict) -> &Counter {
        match verdict {
            Verdict::Done(_) | Verdict::DoneUnkept { .. } => &self.applied,
            Verdict::NotApplied { .. }
            | Verdict::Away { .. }
            | Verdict::Broken {
                certainty: Certainty::NotApplied,
                ..
            } => &self.not_applied,
            Verdict::MaybeApplied { .. }
            | Verdict::Broken {
                certainty: Certainty::MaybeApplied,
                ..
            } => &self.maybe_applied,
            Verdict::Dead { .. } => &self.failed,
        }
    }
}

impl Observer for PipelineMetrics {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        let it = &*self.0;
        match event {
            Event::Granted { grant, .. } => {
                it.decisions.granted.inc();
                if grant.takeover {
                    it.takeovers.inc();
                }
                if grant.formerly_expired {
                    it.expired_again.inc();
                }
            }
            Event::Completed { takeover: true, .. } => _ = it.takeovers.inc(),
            Event::Replayed { duplicate, .. } => {
                it.decisions.replay.inc();
                match duplicate {
                    Duplicate::Own => {}
                    Duplicate::Redelivery => _ = it.duplicates[0].inc(),
                    Duplicate::Republish => _ = it.duplicates[1].inc(),
                    Duplicate::Unknown => _ = it.duplicates[2].inc(),
                }
            }
            Event::Busy { .. } => _ = it.decisions.busy.inc(),
            Event::Conflicted { coordinates, .. } => {
                it.decisions.conflict.inc();
                it.quarantined(coordinates, "fingerprint-conflict");
            }
            Event::Stale { .. } => _ = it.decisions.stale.inc(),
            Event::Parked { .. } => _ = it.decisions.parked.inc(),
            Event::TooOld { coordinates, .. } => {
                it.decisions.too_old.inc();
                it.quarantined(coordinates, "too-old");
            }
            Event::LiveOnly { coordinates, .. } => {
                it.decisions.too_old.inc();
                it.quarantined(coordinates, "live-only");
            }
            Event::Unusable {
                unusable,
                coordinates,
            } => it.quarantined(coordinates, unusable.code()),
            Event::EffectEnded {
                verdict,
                took,
                with_claim,
                ..
            } => {
                if *with_claim {
                    it.decisions.granted.inc();
                }
                it.effects.of(verdict).inc();
                it.effect_seconds.observe(took.as_secs_f64());
            }
            Event::Settled { fate, overhead, .. } => {
                it.deliveries[*fate as usize].inc();
                if let Some(overhead) = overhead {
                    it.overhead_seconds.observe(overhead.as_secs_f64());
                }
            }
            Event::Waits { why } => _ = it.waits[*why as usize].inc(),
            Event::Renewed { count, lost } => {
                it.renewed.inc_by(*count as u64);
                it.lost.inc_by(*lost as u64);
            }
            Event::Fenced { .. } => _ = it.fenced.inc(),
            Event::Unprotected { .. } => _ = it.unprotected.inc(),
            Event::InHand { running, held } => {
                it.in_flight
                    .set(i64::try_from(*running).unwrap_or(i64::MAX));
                it.held.set(i64::try_from(*held).unwrap_or(i64::MAX));
            }
            _ => {}
        }
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
