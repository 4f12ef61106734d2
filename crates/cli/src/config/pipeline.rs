//! One `[pipelines.NAME]` table.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_broker_file::Format;
use semel_core::claim::AttemptLimits;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::key::KeySelector;
use semel_core::port::transactional::Backoff;
use semel_core::select::Selector;
use semel_core::{Code, Outcome, Scope, Window, units};
use semel_engine::pipeline::Pipeline;
use semel_worker::settings::EffectSettings;

use super::effect;
use super::fields::{Faults, Fields};
use super::settings::{PipelineSettings, SourceSettings, StoreUrl};
use super::tree::{Node, Value};

/// Reads one pipeline; faults are reported and whatever can be read is read.
pub(super) fn read(
    name: &str,
    node: &Node,
    window: Window,
    store: Option<&StoreUrl>,
    faults: &Faults,
) -> Option<PipelineSettings> {
    let mut fields = Fields::of(node, format!("pipelines.{name}"), faults)?;
    let scope = Scope::new("", name)
        .map_err(|error| {
            faults.push(
                &node.origin,
                &fields.path,
                Code::InvalidConfig,
                error.to_string(),
            );
        })
        .ok();
    let source = source(&mut fields);
    let effect = effect::read(&mut fields, store);
    let key = key_selector(&mut fields, "key");
    if fields.node("key").is_none() {
        fields.missing("key");
    }
    let fingerprint = fingerprint(&mut fields);
    let transport: Option<Selector> = fields.parsed("transport");
    let birth: Option<Selector> = fields.parsed("birth");
    let order = key_selector(&mut fields, "order");
    let gate = gate(&mut fields);
    let window = pipeline_window(&mut fields, window);
    let lease = lease(&mut fields, window);
    let (limits, backoff) = retry(&mut fields);
    let effect_kind = effect.as_ref();
    let batch = fields
        .count("batch", 100_000)
        .unwrap_or(default_batch(effect_kind));
    let concurrency = fields
        .count("concurrency", 100_000)
        .unwrap_or(default_concurrency(effect_kind));
    let max_message_bytes = fields
        .size_bytes("max_message")
        .unwrap_or(DEFAULT_MAX_MESSAGE_BYTES);
    for not_yet in ["dead_letter", "transport_unique", "apply_if", "guard"] {
        fields.not_yet(not_yet);
    }
    fields.finish();
    let pipeline = Pipeline {
        name: name.into(),
        scope: scope?,
        key: key?,
        fingerprint,
        transport,
        birth,
        order,
        gate,
        window,
        lease,
        limits,
        backoff,
        outcome_limit_bytes: Outcome::DEFAULT_LIMIT_BYTES,
        batch,
        concurrency,
        max_message_bytes,
        bind: None,
    };
    Some(PipelineSettings {
        pipeline,
        source: source?,
        effect: effect?,
    })
}

/// Checks what no pipeline can see alone: two of them must not write one file or read standard
/// input.
pub(super) fn check_together(fields: &Fields<'_>, pipelines: &[PipelineSettings]) {
    let mut writers: BTreeMap<PathBuf, &str> = BTreeMap::new();
    let mut reader_of_stdin = None;
    for settings in pipelines {
        let name = &*settings.pipeline.name;
        if let EffectSettings::File { path } = &settings.effect
            && let Some(other) = writers.insert(plain(path), name)
        {
            let message = format!("writes the same file as `{other}`; an output has one writer");
            fields.fault_at(&[name, "effect", "path"], message);
        }
        if matches!(settings.source, SourceSettings::Stdin { .. })
            && let Some(other) = reader_of_stdin.replace(name)
        {
            let message = format!("reads standard input, and so does `{other}`; only one can");
            fields.fault_at(&[name, "source", "kind"], message);
        }
    }
}

/// `path` with its links resolved as far as it exists, so that one file has one name.
fn plain(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(resolved) = absolute.canonicalize() {
        return resolved;
    }
    match (
        absolute.parent().map(Path::canonicalize),
        absolute.file_name(),
    ) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => absolute,
    }
}

fn source(fields: &mut Fields<'_>) -> Option<SourceSettings> {
    let Some(mut source) = fields.sub("source") else {
        if fields.node("source").is_none() {
            fields.missing("source");
        }
        return None;
    };
    let kind = source.required_text("kind");
    let format = source.choice(
        "format",
        &[("ndjson", Format::Ndjson), ("lines", Format::Lines)],
    );
    let format = format.unwrap_or(Format::Ndjson);
    let read = match kind {
        Some("file") => source
            .required_text("path")
            .map(|path| SourceSettings::File {
                path: path.into(),
                format,
            }),
        Some("stdin") => Some(SourceSettings::Stdin { format }),
        Some(
            kind @ ("kafka" | "nats" | "amqp" | "sqs" | "redis-streams" | "mqtt" | "postgres"
            | "webhook"),
        ) => {
            if let Some(node) = source.node("kind") {
                let message = format!("`{kind}` sources are not supported by this release");
                source.unsupported("kind", node, message);
            }
            return None;
        }
        Some(kind) => {
            let hint = super::fields::suggestion(kind, &["file", "stdin"]);
            unknown(
                &mut source,
                format!("`{kind}` is no kind of source; {hint}"),
            );
            return None;
        }
        None => None,
    };
    source.finish();
    read
}

fn unknown(source: &mut Fields<'_>, message: String) {
    if let Some(node) = source.node("kind") {
        source.fault("kind", node, message);
    }
}

fn key_selector(fields: &mut Fields<'_>, name: &'static str) -> Option<KeySelector> {
    let selectors: Vec<Selector> = fields.one_or_many(name)?;
    KeySelector::try_from(selectors)
        .map_err(|error| {
            if let Some(node) = fields.node(name) {
                fields.fault(name, node, error.to_string());
            }
        })
        .ok()
}

fn fingerprint(fields: &mut Fields<'_>) -> FingerprintSelector {
    match fields.node("fingerprint").map(|node| &node.value) {
        None => return FingerprintSelector::Payload,
        Some(Value::Text(text)) if text == "none" => return FingerprintSelector::None,
        Some(Value::Text(text)) if text == "payload" => return FingerprintSelector::Payload,
        Some(_) => {}
    }
    let Some(selectors) = fields.one_or_many("fingerprint") else {
        return FingerprintSelector::Payload;
    };
    FingerprintSelector::fields(selectors).unwrap_or_default()
}

fn gate(fields: &mut Fields<'_>) -> Option<(KeySelector, Selector)> {
    let entity = key_selector(fields, "entity");
    let version = fields.parsed("version");
    for (one, other) in [("entity", "version"), ("version", "entity")] {
        if let (Some(node), None) = (fields.node(one), fields.node(other)) {
            fields.fault(one, node, format!("needs `{other}` beside it"));
        }
    }
    entity.zip(version)
}

fn pipeline_window(fields: &mut Fields<'_>, window: Window) -> Window {
    let Some(duration) = fields.duration("window") else {
        return window;
    };
    let window = window.resized(duration);
    if let Some(node) = fields.node("window") {
        if duration.is_zero() {
            let message = "a window of zero remembers nothing; the least is `1ms`";
            fields.fault("window", node, message);
        } else if window.margin() >= duration {
            fields.fault("window", node, "must be longer than `window.margin`");
        }
    }
    window
}

fn lease(fields: &mut Fields<'_>, window: Window) -> Duration {
    let usual = Duration::from_secs(30)
        .min(window.duration())
        .max(Duration::from_millis(100));
    let lease = fields.duration("lease").unwrap_or(usual);
    let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(12 * 3_600));
    if let Some(node) = fields.node("lease") {
        if lease < shortest || lease > longest {
            fields.fault("lease", node, "must be from `100ms` to `12h`");
        } else if lease > window.duration() {
            fields.fault("lease", node, "must not be longer than the window");
        }
    }
    lease
}

fn retry(fields: &mut Fields<'_>) -> (AttemptLimits, Backoff) {
    let mut limits = AttemptLimits::default();
    let mut backoff = Backoff {
        first: Duration::from_millis(200),
        most: Duration::from_secs(30),
    };
    let Some(mut retry) = fields.sub("retry") else {
        return (limits, backoff);
    };
    if let Some(attempts) = retry.count("attempts", 1_000_000) {
        limits.failed = at_least_one(attempts);
    }
    if let Some(crashes) = retry.count("crashes", 1_000_000) {
        limits.vanished = at_least_one(crashes);
    }
    let range = retry.parsed_with("backoff", |text| {
        let (first, most) = text.split_once("..").unwrap_or((text, text));
        let (first, most) = (units::duration(first)?, units::duration(most)?);
        if first > most {
            return Err(format!("`{text}` begins after its end"));
        }
        Ok(Backoff { first, most })
    });
    backoff = range.unwrap_or(backoff);
    retry.finish();
    (limits, backoff)
}

fn at_least_one(count: usize) -> NonZeroU32 {
    u32::try_from(count)
        .ok()
        .and_then(NonZeroU32::new)
        .unwrap_or(NonZeroU32::MIN)
}

const fn default_batch(effect: Option<&EffectSettings>) -> usize {
    match effect {
        // One transaction costs the same whatever it carries; see decision 0020.
        Some(EffectSettings::Sql(_)) => 10_000,
        Some(
            EffectSettings::File { .. }
            | EffectSettings::Http(..)
            | EffectSettings::Exec(..)
            | EffectSettings::Jsonl(..)
            | EffectSettings::Stdout(_),
        )
        | None => 1_000,
    }
}

const fn default_concurrency(effect: Option<&EffectSettings>) -> usize {
    match effect {
        Some(EffectSettings::Exec(..)) => 4,
        // As many as a crash may leave in doubt.
        Some(EffectSettings::Http(..) | EffectSettings::Jsonl(..)) => 32,
        Some(EffectSettings::Sql(_) | EffectSettings::File { .. } | EffectSettings::Stdout(_))
        | None => 1,
    }
}

/// 8 MiB.
const DEFAULT_MAX_MESSAGE_BYTES: u64 = 8 << 20;
