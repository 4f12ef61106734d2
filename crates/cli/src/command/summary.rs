//! The summary that a run prints at its end.

use std::fmt::Write;

use semel_backends::layered::LayerFigures;
use semel_config::{Accepted, Waived};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::summary::{Fate, Summary};
use semel_supervisor::event_log::EventLog;
use semel_supervisor::{PipelineResult, PipelineSummary, RelayResult};

/// One object on one line.
pub(crate) fn json(name: &str, ended: &PipelineSummary, accepted: Accepted) -> String {
    serde_json::to_string(&PipelineResult::of(name, ended, accepted)).unwrap_or_default()
}

/// The result of a relay, as one object on one line.
pub(crate) fn relay_json(name: &str, ended: &semel_outbox::Summary) -> String {
    serde_json::to_string(&RelayResult::of(name, ended)).unwrap_or_default()
}

/// Formats the result of a relay for people. Zeros are left out, except the first.
pub(crate) fn relay_table(name: &str, ended: &semel_outbox::Summary) -> String {
    let seconds = ended.elapsed.as_secs_f64();
    let mut text = format!(
        "relay {name}: {} published in {seconds:.2} s",
        ended.published
    );
    for (label, count, meaning) in [
        (
            "put off",
            ended.put_off,
            "tries that failed; tried again later",
        ),
        (
            "dead",
            ended.dead,
            "will not be published as they are; what has their order keys waits",
        ),
    ] {
        if count > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {label:<12}{count:>9}  {meaning}");
        }
    }
    text
}

/// The number of deliveries with a replay id, and their fates.
fn sent_again(summary: &Summary) -> [(&'static str, u64, bool, &'static str); 2] {
    [
        (
            "sent again",
            summary.sent_again,
            false,
            "of all these, deliveries with a replay id",
        ),
        (
            "suppressed",
            summary.suppressed,
            false,
            "of these, kept from an effect for live messages alone; in quarantine",
        ),
    ]
}

/// Formats it for people: what happened, and what each number means. Zeros are left out, except the first
/// three.
pub(crate) fn table(
    name: &str,
    ended: &PipelineSummary,
    accepted: Accepted,
    log: &EventLog,
) -> String {
    let summary = &ended.summary;
    let (redelivered, republished) = log.duplicates(name);
    let replayed = match (redelivered, republished) {
        (0, 0) => "duplicates of something finished".to_owned(),
        (redelivered, republished) => format!(
            "duplicates of something finished: {redelivered} redelivered, \
             {republished} published again"
        ),
    };
    let rows = [
        (
            "applied",
            summary.of(Fate::Applied),
            true,
            "effects that happened in this run",
        ),
        (
            "replayed",
            summary.of(Fate::Replayed),
            true,
            replayed.as_str(),
        ),
        (
            "stale",
            summary.of(Fate::Stale),
            false,
            "an older version than the entity has",
        ),
        (
            "conflicts",
            summary.of(Fate::Conflict),
            false,
            "a key used for another request; in quarantine",
        ),
        (
            "too old",
            summary.of(Fate::TooOld),
            false,
            "no record, and older than the window; in quarantine",
        ),
        (
            "released",
            summary.of(Fate::Released),
            false,
            "given back unfinished; the next run goes on",
        ),
        (
            "dead",
            summary.of(Fate::Dead),
            false,
            "failed for good or out of attempts; kept as dead letters",
        ),
        (
            "in doubt",
            summary.of(Fate::InDoubt),
            false,
            "nobody knows whether it happened; on record",
        ),
        (
            "quarantined",
            summary.of(Fate::Quarantined),
            false,
            "no usable key; in quarantine",
        ),
        (
            "unprotected",
            summary.of(Fate::Unprotected),
            false,
            "happened without a claim while the store was away; not on record",
        ),
        (
            "takeovers",
            summary.takeovers,
            false,
            "attempts that vanished and were taken over",
        ),
        (
            "fenced",
            summary.fenced,
            false,
            "attempts that lost their claim; results discarded",
        ),
    ];
    let seconds = summary.elapsed.as_secs_f64();
    let mut text = format!(
        "{name}: {} deliveries in {seconds:.2} s",
        summary.deliveries()
    );
    for (label, count, always, meaning) in rows.into_iter().chain(sent_again(summary)) {
        if always || count > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {label:<12}{count:>9}  {meaning}");
        }
    }
    text += &layers(ended.layer);
    text + &overrides(accepted, ended.waived)
}

/// The weaknesses that the operator accepts.
fn overrides(accepted: Accepted, waived: Waived) -> String {
    let of_store = "by `store.accept`: the store may give less than the class needs";
    let of_pipeline = "by `accept`: what comes again after the window happens again";
    let names = accepted.names().into_iter().map(|name| (name, of_store));
    let waived = waived.names().into_iter().map(|name| (name, of_pipeline));
    let mut text = String::new();
    for (name, meaning) in names.chain(waived) {
        let _ = write!(text, "\n  {:<11}{name:>10}  {meaning}", "accepted");
    }
    text
}

/// The figures of the layers before the store.
fn layers(figures: LayerFigures) -> String {
    let mut text = String::new();
    if let Some(cache) = figures.cache {
        let claims = cache.answered + cache.read + cache.asked;
        let meaning = format!("of {claims} claims were answered by the cache");
        let _ = write!(text, "\n  {:<12}{:>9}  {meaning}", "cached", cache.answered);
    }
    if let Some(filter) = figures.approximate {
        let percent = |rate: f64| format!("{:.4}%", rate * 100.0);
        let measured = filter.measured_error_rate.map_or("not".to_owned(), percent);
        let declared = percent(filter.declared_error_rate);
        let meaning = format!(
            "skipped by a filter that is wrong at most {declared} of the time; measured: {measured}"
        );
        let _ = write!(
            text,
            "\n  {:<12}{:>9}  {meaning}",
            "approximate", filter.skipped
        );
    }
    text
}

/// The class of an effect and what it guarantees, in a few words.
pub(crate) const fn class(class: Class) -> &'static str {
    match class {
        Class::Transactional => "transactional (exactly once)",
        Class::Streamed => "streamed (exactly once inside the cluster)",
        Class::Keyed { .. } => "keyed (exactly once inside the provider's window)",
        Class::Unkeyed(OnDoubt::Repeat) => "unkeyed, on doubt repeat (at least once)",
        Class::Unkeyed(OnDoubt::Park) => "unkeyed, on doubt park (at most once)",
    }
}
