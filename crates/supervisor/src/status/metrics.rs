//! The families of metrics whose samples are the status itself, taken at each scrape.

use std::sync::Arc;

use semel_engine::summary::Summary;
use semel_telemetry::{Metrics, Sample, SampledFamily};

use super::{Doing, PartitionRestoration, Readiness, Status, declared, gateway};

/// Adds the families of this status.
pub(super) fn register(metrics: &Metrics, status: &Arc<Status>) {
    let status = Arc::downgrade(status);
    metrics.sample(move || {
        let status = status.upgrade();
        status.map(|it| families(&it)).unwrap_or_default()
    });
}

fn families(status: &Status) -> Vec<SampledFamily> {
    let readiness = status.readiness();
    let restored =
        |name, help, value| SampledFamily::gauge(name, help, of_partitions(&readiness, value));
    let counted =
        |name, help, value| SampledFamily::counter(name, help, of_summaries(status, value));
    let sources = status.health().sources().into_iter();
    // Nobody looks whether the source of a paused pipeline is there.
    let sources = sources.filter(|(pipeline, _)| !status.is_paused(pipeline));
    let aside = status.aside().all().into_iter();
    let mut families = vec![
        declared::family(status),
        SampledFamily::gauge(
            "semel_ready",
            "Whether this worker is ready: 1 or 0.",
            vec![Sample::new([], readiness.is_ready().into())],
        ),
        SampledFamily::gauge(
            "semel_breaker_open",
            "Whether the store is left alone, but for one call at a time: 1 or 0.",
            vec![Sample::new(
                [("store", &status.store)],
                status.health().is_breaker_open().into(),
            )],
        ),
        SampledFamily::gauge(
            "semel_source_connected",
            "Whether the source is there: 1 or 0.",
            sources
                .map(|(pipeline, is_there)| {
                    Sample::new([("pipeline", &*pipeline)], is_there.into())
                })
                .collect(),
        ),
        SampledFamily::gauge(
            "semel_set_aside",
            "What waits for a person now, by why.",
            aside
                .map(|(pipeline, why, count)| {
                    Sample::new([("pipeline", &*pipeline), ("why", why)], count)
                })
                .collect(),
        ),
        SampledFamily::gauge(
            "semel_paused",
            "Whether an order keeps a pipeline from taking in messages: 1 or 0.",
            of_pauses(status),
        ),
        restored(
            "semel_restoring",
            "Whether a partition still waits for what was done before: 1 or 0.",
            |it| Some((it.state == Doing::Restoring).into()),
        ),
        restored(
            "semel_restore_records",
            "Records of the changelog that are to be read for a partition.",
            |it| it.records,
        ),
        restored(
            "semel_restore_read_records",
            "Records of the changelog that were read for a partition.",
            |it| Some(it.read),
        ),
        restored(
            "semel_restore_operations",
            "Operations that were found in the changelog of a partition.",
            |it| Some(it.operations),
        ),
        counted(
            "semel_deliveries_sent_again",
            "Deliveries with a replay id, whatever became of them; all others are live.",
            |it| it.sent_again,
        ),
        counted(
            "semel_deliveries_suppressed",
            "Deliveries with a replay id that an effect for live messages alone did not get.",
            |it| it.suppressed,
        ),
        SampledFamily::gauge(
            "semel_source_lag",
            "Messages that the broker has and has not handed over, where it tells.",
            of_lags(status),
        ),
        SampledFamily::gauge(
            "semel_source_lag_bytes",
            "Bytes that the file has and has not handed over.",
            of_files(status),
        ),
    ];
    families.extend(of_listeners(status));
    families.extend(status.store_samples().families(&status.store));
    families.extend(status.producers().families(&status.store));
    families.extend(status.windows().families());
    families.extend(status.layers().families(status.aside().distinct()));
    families.extend(status.relays().families());
    families.extend(status.gateway().map(gateway::families).unwrap_or_default());
    families
}

/// The families of sources that are sent requests.
fn of_listeners(status: &Status) -> [SampledFamily; 4] {
    [
        SampledFamily::counter(
            "semel_webhook_answers",
            "Requests of a webhook or an ingest source, by the status of their answers.",
            of_webhooks(status),
        ),
        SampledFamily::counter(
            "semel_ingest_refusals",
            "Requests whose messages an ingest source refused, by reason and by the client that its token names.",
            of_refusals(status),
        ),
        SampledFamily::gauge(
            "semel_ingest_waiting_messages",
            "Messages that an ingest source has taken and whose effects are not settled.",
            of_intakes(status, |(waiting, _)| waiting),
        ),
        SampledFamily::gauge(
            "semel_ingest_parked_messages",
            "Those of them that a frozen producer keeps.",
            of_intakes(status, |(_, parked)| parked),
        ),
    ]
}

fn of_lags(status: &Status) -> Vec<Sample> {
    let pipelines = status.lock();
    let lags = pipelines.iter().filter_map(|(pipeline, it)| {
        let lag = it.lag.as_ref()?.value()?;
        Some(Sample::new([("pipeline", &**pipeline)], *lag))
    });
    lags.collect()
}

fn of_pauses(status: &Status) -> Vec<Sample> {
    let pipelines = status.lock();
    let paused = pipelines.iter().map(|(pipeline, it)| {
        let is_paused = it.pause.is_some();
        Sample::new([("pipeline", &**pipeline)], is_paused.into())
    });
    paused.collect()
}

fn of_files(status: &Status) -> Vec<Sample> {
    let pipelines = status.lock();
    let left = pipelines.iter().filter_map(|(pipeline, it)| {
        Some(Sample::new([("pipeline", &**pipeline)], it.bytes_left?))
    });
    left.collect()
}

fn of_webhooks(status: &Status) -> Vec<Sample> {
    let pipelines = status.lock();
    let answers = pipelines
        .iter()
        .filter_map(|(pipeline, it)| Some((pipeline, it.webhook.as_ref()?)));
    let samples = answers.flat_map(|(pipeline, answers)| {
        answers.counts().map(|(status, count)| {
            let status = status.to_string();
            Sample::new([("pipeline", &**pipeline), ("status", &*status)], count)
        })
    });
    samples.collect()
}

fn of_refusals(status: &Status) -> Vec<Sample> {
    let pipelines = status.lock();
    let answers = pipelines
        .iter()
        .filter_map(|(pipeline, it)| Some((pipeline, it.webhook.as_ref()?)));
    let samples = answers.flat_map(|(pipeline, answers)| {
        let refusals = answers.refusals().into_iter();
        refusals.map(|(reason, client, count)| {
            let labels = [
                ("pipeline", &**pipeline),
                ("reason", reason),
                ("client", &*client),
            ];
            Sample::new(labels, count)
        })
    });
    samples.collect()
}

fn of_intakes(status: &Status, value: fn((u64, u64)) -> u64) -> Vec<Sample> {
    let pipelines = status.lock();
    let waiting = pipelines
        .iter()
        .filter_map(|(pipeline, it)| Some((pipeline, it.webhook.as_ref()?.waiting()?)));
    let samples =
        waiting.map(|(pipeline, both)| Sample::new([("pipeline", &**pipeline)], value(both)));
    samples.collect()
}

fn of_partitions(
    readiness: &Readiness,
    value: fn(&PartitionRestoration) -> Option<u64>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (pipeline, it) in &readiness.pipelines {
        for partition in it.restored.iter().flat_map(|it| &it.partitions) {
            if let Some(value) = value(partition) {
                let number = partition.partition.to_string();
                let labels = [("pipeline", &**pipeline), ("partition", &*number)];
                samples.push(Sample::new(labels, value));
            }
        }
    }
    samples
}

fn of_summaries(status: &Status, value: fn(&Summary) -> u64) -> Vec<Sample> {
    let pipelines = status.lock();
    let samples = pipelines
        .iter()
        .map(|(pipeline, it)| Sample::new([("pipeline", &**pipeline)], value(&it.summary)));
    samples.collect()
}
