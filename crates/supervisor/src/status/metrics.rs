//! Formats the status for Prometheus.

use std::fmt::Write;

use semel_engine::summary::{Fate, Summary};

use super::{Doing, PartitionRestoration, Status};

/// Returns Prometheus's text format, version 0.0.4.
pub(super) fn text(status: &Status) -> String {
    let readiness = status.readiness();
    let mut text = Text(String::new());
    text.family(
        "semel_ready",
        "gauge",
        "Whether this worker is ready: 1 or 0.",
    );
    text.sample("semel_ready", &[], u64::from(readiness.is_ready()));
    let restored = readiness.pipelines.iter();
    let partitions: Vec<_> = restored
        .filter_map(|(name, it)| Some((&**name, it.restored.as_ref()?)))
        .flat_map(|(name, reach)| reach.partitions.iter().map(move |it| (name, it)))
        .collect();
    for (name, help, value) in RESTORED {
        text.family(name, "gauge", help);
        for (pipeline, it) in &partitions {
            let partition = it.partition.to_string();
            let labels = [("pipeline", *pipeline), ("partition", &*partition)];
            if let Some(value) = value(it) {
                text.sample(name, &labels, value);
            }
        }
    }
    let name = "semel_breaker_open";
    let help = "Whether the store is left alone, but for one call at a time: 1 or 0.";
    text.family(name, "gauge", help);
    let is_open = status.health().is_breaker_open();
    text.sample(name, &[("store", &*status.store)], u64::from(is_open));
    let name = "semel_source_connected";
    text.family(name, "gauge", "Whether the source is there: 1 or 0.");
    for (pipeline, is_connected) in status.health().sources() {
        let labels = [("pipeline", &*pipeline)];
        text.sample(name, &labels, u64::from(is_connected));
    }
    let name = "semel_set_aside";
    text.family(name, "gauge", "What waits for a person now, by why.");
    for (pipeline, why, count) in status.aside().all() {
        let labels = [("pipeline", &*pipeline), ("why", why)];
        text.sample(name, &labels, count);
    }
    let counts = status.lock();
    let name = "semel_deliveries_total";
    text.family(name, "counter", "Deliveries by what became of them.");
    for (pipeline, it) in &*counts {
        for (fate, word) in FATES {
            let labels = [("pipeline", &**pipeline), ("fate", word)];
            text.sample(name, &labels, it.settled.of(fate));
        }
    }
    for (name, help, value) in COUNTS {
        text.family(name, "counter", help);
        for (pipeline, it) in &*counts {
            text.sample(name, &[("pipeline", &**pipeline)], value(&it.summary));
        }
    }
    text.0
}

struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.0.push_str(name);
        for (place, (label, value)) in labels.iter().enumerate() {
            let before = if place == 0 { '{' } else { ',' };
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.0, "{before}{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

type Restored = (
    &'static str,
    &'static str,
    fn(&PartitionRestoration) -> Option<u64>,
);

const RESTORED: [Restored; 4] = [
    (
        "semel_restoring",
        "Whether a partition still waits for what was done before: 1 or 0.",
        |it| Some(u64::from(it.state == Doing::Restoring)),
    ),
    (
        "semel_restore_records",
        "Records of the changelog that are to be read for a partition.",
        |it| it.records,
    ),
    (
        "semel_restore_read_records",
        "Records of the changelog that were read for a partition.",
        |it| Some(it.read),
    ),
    (
        "semel_restore_operations",
        "Operations that were found in the changelog of a partition.",
        |it| Some(it.operations),
    ),
];

type Count = (&'static str, &'static str, fn(&Summary) -> u64);

const COUNTS: [Count; 4] = [
    (
        "semel_deliveries_sent_again_total",
        "Deliveries with a replay id, whatever became of them; all others are live.",
        |it| it.sent_again,
    ),
    (
        "semel_deliveries_suppressed_total",
        "Deliveries with a replay id that an effect for live messages alone did not get.",
        |it| it.suppressed,
    ),
    (
        "semel_takeovers_total",
        "Claims that took the place of one whose lease ran out.",
        |it| it.takeovers,
    ),
    (
        "semel_fenced_total",
        "Claims that were lost while their effect ran.",
        |it| it.fenced,
    ),
];

/// Fates by the names that the summary of a run gives them.
const FATES: [(Fate, &str); 10] = [
    (Fate::Applied, "applied"),
    (Fate::Replayed, "replayed"),
    (Fate::Stale, "stale"),
    (Fate::Conflict, "conflicts"),
    (Fate::TooOld, "too_old"),
    (Fate::Released, "released"),
    (Fate::Dead, "dead"),
    (Fate::InDoubt, "in_doubt"),
    (Fate::Quarantined, "quarantined"),
    (Fate::Unprotected, "unprotected"),
];
