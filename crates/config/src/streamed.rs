//! The effect of kind `kafka` and class `streamed`: its output is committed together with the position in its
//! source.

use std::time::Duration;

use semel_worker::effect::ExecEffect;
use semel_worker::effect::exec::Settings as ExecSettings;
use semel_worker::effect::jsonl::Settings as JsonlSettings;
use semel_worker::settings::{EffectSettings, StreamedSettings};

use super::fields::Fields;
use super::sink::{self, SinkPlace};
use super::source::SourceSettings;

/// Reads the effect. Both ends are on one cluster, which is written once for each of them.
pub(super) fn read(
    effect: &mut Fields<'_>,
    pipeline: &str,
    source: Option<&SourceSettings>,
) -> Option<EffectSettings> {
    effect.choice_or("class", ("streamed", ()), &[]);
    for name in ["on_doubt", "provider_window"] {
        effect.reject(
            name,
            "does not apply: this effect commits together with its record",
        );
    }
    let has_id_header = effect.boolean_or("id_header", false);
    let place = sink::kafka(effect, has_id_header);
    let (is_same, group) = match (source, &place) {
        (Some(SourceSettings::Kafka(source)), Some(SinkPlace::Kafka { brokers, .. })) => {
            (source.brokers == *brokers, &*source.group)
        }
        (Some(SourceSettings::Kafka(source)), _) => (true, &*source.group),
        (Some(_), _) => (false, ""),
        // Another fault of it is reported elsewhere.
        (None, _) => (true, ""),
    };
    if !is_same && let Some(node) = effect.node("class") {
        let message = "a streamed effect commits together with how far its source was read: make the \
                       source of kind `kafka`, with the same `brokers`; or choose another class";
        effect.fault("class", node, message);
    }
    let usual = format!("semel.{group}.{pipeline}.changelog");
    let changelog = effect.text("changelog").map_or(usual, str::to_owned);
    effect.default("changelog", changelog.clone());
    let transactional_id = effect.text("transactional_id").map(str::to_owned);
    let transaction_timeout = effect.duration_or("transaction_timeout", TIMEOUT);
    if !(SHORTEST..=LONGEST).contains(&transaction_timeout)
        && let Some(node) = effect.node("transaction_timeout")
    {
        let message = "must be from `1s` to `15m`, which is as long as brokers take unless they are told \
                       otherwise (transaction.max.timeout.ms)";
        effect.fault("transaction_timeout", node, message);
    }
    let is_copartitioned = effect.boolean_or("copartitioned", false);
    let transform = match effect.sub("transform") {
        Some(table) => Some(transform(table)?),
        None if effect.is_written("transform") => return None,
        None => None,
    };
    let SinkPlace::Kafka {
        topic, properties, ..
    } = place?
    else {
        return None;
    };
    Some(EffectSettings::Streamed(Box::new(StreamedSettings {
        topic,
        changelog,
        transactional_id,
        transaction_timeout,
        properties,
        is_copartitioned,
        has_id_header,
        transform,
    })))
}

/// Reads a command that answers each message with its output, like effects of kind `exec` with `protocol =
/// "jsonl"`.
fn transform(mut table: Fields<'_>) -> Option<JsonlSettings> {
    let mut settings = JsonlSettings::new(Vec::new());
    settings.timeout = table.duration_or("timeout", settings.timeout);
    if !table.is_written("command") {
        table.missing("command");
    }
    settings.command = table.command()?;
    if let Err(error) = ExecEffect::new(ExecSettings::new(settings.command.clone())) {
        let text = error.to_string();
        let text = text.strip_prefix("command: ").unwrap_or(&text);
        if let Some(node) = table.node("command") {
            table.fault("command", node, text);
        }
    }
    table.finish();
    Some(settings)
}

/// The default for the longest time that a transaction may be open, which is how long a crash delays others.
const TIMEOUT: Duration = Duration::from_secs(10);
const SHORTEST: Duration = Duration::from_secs(1);
/// The longest time that brokers accept unless they are configured otherwise.
const LONGEST: Duration = Duration::from_secs(15 * 60);
