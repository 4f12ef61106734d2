//! The families of metrics whose samples are the status itself, taken at each scrape.

use std::sync::{Arc, Weak};

use semel_engine::summary::Summary;
use semel_telemetry::{Kind, Metrics, Sample};

use super::{Doing, PartitionRestoration, Status};

/// Adds the families of this status.
pub(super) fn register(metrics: &Metrics, status: &Arc<Status>) {
    let add = |name, help, kind, samples: fn(&Status) -> Vec<Sample>| {
        let status = Arc::downgrade(status);
        let samples = move || {
            let status = Weak::upgrade(&status);
            status.map(|it| samples(&it)).unwrap_or_default()
        };
        metrics.sample(name, help, kind, samples);
    };
    let help = "Whether this worker is ready: 1 or 0.";
    add("semel_ready", help, Kind::Gauge, |status| {
        vec![Sample::new([], flag(status.readiness().is_ready()))]
    });
    let help = "Whether the store is left alone, but for one call at a time: 1 or 0.";
    add("semel_breaker_open", help, Kind::Gauge, |status| {
        let is_open = status.health().is_breaker_open();
        vec![Sample::new([("store", &status.store)], flag(is_open))]
    });
    let help = "Whether the source is there: 1 or 0.";
    add("semel_source_connected", help, Kind::Gauge, |status| {
        let sources = status.health().sources().into_iter();
        let sources = sources
            .map(|(pipeline, is_there)| Sample::new([("pipeline", &*pipeline)], flag(is_there)));
        sources.collect()
    });
    let help = "What waits for a person now, by why.";
    add("semel_set_aside", help, Kind::Gauge, |status| {
        let aside = status.aside().all().into_iter();
        let aside = aside.map(|(pipeline, why, count)| {
            Sample::new([("pipeline", &*pipeline), ("why", why)], count)
        });
        aside.collect()
    });
    let help = "Whether a partition still waits for what was done before: 1 or 0.";
    add("semel_restoring", help, Kind::Gauge, |status| {
        restored(status, |it| Some(u64::from(it.state == Doing::Restoring)))
    });
    let help = "Records of the changelog that are to be read for a partition.";
    add("semel_restore_records", help, Kind::Gauge, |status| {
        restored(status, |it| it.records)
    });
    let help = "Records of the changelog that were read for a partition.";
    add("semel_restore_read_records", help, Kind::Gauge, |status| {
        restored(status, |it| Some(it.read))
    });
    let help = "Operations that were found in the changelog of a partition.";
    add("semel_restore_operations", help, Kind::Gauge, |status| {
        restored(status, |it| Some(it.operations))
    });
    let help = "Deliveries with a replay id, whatever became of them; all others are live.";
    add(
        "semel_deliveries_sent_again",
        help,
        Kind::Counter,
        |status| counted(status, |it| it.sent_again),
    );
    let help = "Deliveries with a replay id that an effect for live messages alone did not get.";
    add(
        "semel_deliveries_suppressed",
        help,
        Kind::Counter,
        |status| counted(status, |it| it.suppressed),
    );
}

fn restored(status: &Status, value: fn(&PartitionRestoration) -> Option<u64>) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (pipeline, it) in status.readiness().pipelines {
        for partition in it.restored.iter().flat_map(|it| &it.partitions) {
            if let Some(value) = value(partition) {
                let number = partition.partition.to_string();
                let labels = [("pipeline", &*pipeline), ("partition", &*number)];
                samples.push(Sample::new(labels, value));
            }
        }
    }
    samples
}

fn counted(status: &Status, value: fn(&Summary) -> u64) -> Vec<Sample> {
    let pipelines = status.lock();
    let samples = pipelines
        .iter()
        .map(|(pipeline, it)| Sample::new([("pipeline", &**pipeline)], value(&it.summary)));
    samples.collect()
}

const fn flag(is: bool) -> u64 {
    is as u64
}
