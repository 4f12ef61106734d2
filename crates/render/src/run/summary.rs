//! The summary that a run prints at its end.

use std::borrow::Cow;
use std::fmt::Write;

use semel_backends::layered::LayerFigures;
use semel_config::{Accepted, Waived};
use semel_engine::effect::{Class, OnDoubt};
use semel_supervisor::event_log::EventLog;
use semel_supervisor::{PipelineResult, PipelineSummary, RelayResult};

/// One object on one line.
pub fn json(name: &str, ended: &PipelineSummary, accepted: Accepted) -> String {
    serde_json::to_string(&PipelineResult::of(name, ended, accepted)).unwrap_or_default()
}

/// The result of a relay, as one object on one line.
pub fn relay_json(name: &str, ended: &semel_outbox::Summary) -> String {
    serde_json::to_string(&RelayResult::of(name, ended)).unwrap_or_default()
}

/// Formats the result of a relay for people. Zeros are left out, except the first.
pub fn relay_table(name: &str, ended: &semel_outbox::Summary) -> String {
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
        (
            "unrecorded",
            ended.unrecorded,
            "published, and not recorded: they go out again, under the same ids",
        ),
    ] {
        if count > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {label:<12}{count:>9}  {meaning}");
        }
    }
    text
}

/// Formats it for people: what happened, and what each number means. Zeros are left out, except the first
/// three.
pub fn table(name: &str, ended: &PipelineSummary, accepted: Accepted, log: &EventLog) -> String {
    let result = PipelineResult::of(name, ended, accepted);
    result_table(&result, ended.summary.fenced, log.duplicates(name))
}

/// Formats a result for people, with the number of attempts that were fenced, and those of duplicates that were
/// redelivered and published again, as far as they are known.
pub fn result_table(
    result: &PipelineResult<'_>,
    fenced: u64,
    (redelivered, republished): (u64, u64),
) -> String {
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
            result.applied,
            true,
            "effects that happened in this run",
        ),
        ("replayed", result.replayed, true, replayed.as_str()),
        (
            "stale",
            result.stale,
            false,
            "an older version than the entity has",
        ),
        (
            "conflicts",
            result.conflicts,
            false,
            "a key used for another request; in quarantine",
        ),
        (
            "too old",
            result.too_old,
            false,
            "no record, and older than the window; in quarantine",
        ),
        (
            "released",
            result.released,
            false,
            "given back unfinished; the next run goes on",
        ),
        (
            "dead",
            result.dead,
            false,
            "failed for good or out of attempts; kept as dead letters",
        ),
        (
            "in doubt",
            result.in_doubt,
            false,
            "nobody knows whether it happened; on record",
        ),
        (
            "quarantined",
            result.quarantined,
            false,
            "no usable key; in quarantine",
        ),
        (
            "unprotected",
            result.unprotected.unwrap_or_default(),
            false,
            "happened without a claim while the store was away; not on record",
        ),
        (
            "takeovers",
            result.takeovers,
            false,
            "attempts that vanished and were taken over",
        ),
        (
            "fenced",
            fenced,
            false,
            "attempts that lost their claim; results discarded",
        ),
        (
            "sent again",
            result.sent_again.unwrap_or_default(),
            false,
            "of all these, deliveries with a replay id",
        ),
        (
            "suppressed",
            result.suppressed.unwrap_or_default(),
            false,
            "of these, kept from an effect for live messages alone; in quarantine",
        ),
    ];
    let mut text = format!(
        "{}: {} deliveries in {:.2} s",
        result.pipeline, result.deliveries, result.elapsed_seconds
    );
    for (label, count, always, meaning) in rows {
        if always || count > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  {label:<12}{count:>9}  {meaning}");
        }
    }
    text += &layers(result.layer);
    text + &overrides(&result.accepted)
}

/// The weaknesses that the operator accepts.
fn overrides(accepted: &[Cow<'static, str>]) -> String {
    let mut text = String::new();
    for name in accepted {
        let meaning = if Waived::NAMES.contains(&&**name) {
            "by `accept`: what comes again after the window happens again"
        } else {
            "by `store.accept`: the store may give less than the class needs"
        };
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
pub const fn class(class: Class) -> &'static str {
    match class {
        Class::Transactional => "transactional (exactly once)",
        Class::Streamed => "streamed (exactly once inside the cluster)",
        Class::Keyed { .. } => "keyed (exactly once inside the provider's window)",
        Class::Unkeyed(OnDoubt::Repeat) => "unkeyed, on doubt repeat (at least once)",
        Class::Unkeyed(OnDoubt::Park) => "unkeyed, on doubt park (at most once)",
    }
}
