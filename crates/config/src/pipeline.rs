//! One `[pipelines.NAME]` table.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use semel_broker_file::Options;
use semel_broker_webhook::GateOptions;
use semel_core::claim::AttemptLimits;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::key::KeySelector;
use semel_core::select::Selector;
use semel_core::units::{self, duration_text};
use semel_core::{Backoff, Code, Outcome, Scope, Window, tenant};
use semel_engine::pipeline::Pipeline;
use semel_worker::effect::Target;
use semel_worker::settings::EffectSettings;

use super::diagnostics::Diagnostics;
use super::effect;
use super::fields::Fields;
use super::layers::{self, Known, Layers};
use super::node::Node;
use super::ownership::{self, Ownership};
use super::refusal::{Refusal, selector};
use super::same_file::{self, plain};
use super::show::join;
use super::sink::{self, TargetOf};
use super::source::{self, SourceSettings};
use super::store::StoreUrl;
use super::suggestion::nearest;
use super::waiver::{self, Waived};
use super::webhook::{self, WebhookSettings};

/// One pipeline.
#[derive(Clone)]
pub struct PipelineSettings {
    /// The rules that make an operation of a message.
    pub pipeline: Pipeline,
    /// The source of messages.
    pub source: SourceSettings,
    /// The sequence gate before its messages, if there is one.
    pub sequence_gate: Option<GateOptions>,
    /// The effect, which happens once per key.
    pub effect: EffectSettings,
    /// The target for a copy of each dead letter.
    pub dead_letter: Option<Arc<dyn Target>>,
    /// The layers between the pipeline and the store.
    pub layers: Layers,
    /// The weaknesses that are accepted by name.
    pub waived: Waived,
    /// The people behind it.
    pub ownership: Ownership,
}

/// Settings that all pipelines of a configuration share.
#[derive(Clone, Copy)]
pub(super) struct Shared<'s> {
    pub(super) window: Window,
    /// The store; none if it could not be read.
    pub(super) store: Option<&'s StoreUrl>,
    pub(super) target: TargetOf,
}

/// Returns the scope of what is recorded under this name without a tenant.
///
/// # Errors   why nothing may have the name
pub(super) fn scope_of(name: &str) -> Result<Scope, String> {
    if Scope::is_reserved(name) {
        return Err(format!(
            "`{name}` is the name that orders about pipelines are recorded under; set another"
        ));
    }
    Scope::new("", name).map_err(|error| error.to_string())
}

/// Reads one pipeline; reports faults, and reads everything that can be read.
pub(super) fn read(
    name: &str,
    node: &Node,
    Shared {
        window,
        store,
        target,
    }: Shared<'_>,
    found: &Diagnostics,
) -> Option<PipelineSettings> {
    let path = vec!["pipelines".to_owned(), name.to_owned()];
    let mut fields = Fields::of(node, path, found)?;
    let scope = scope_of(name)
        .map_err(|why| {
            let path = join(&fields.path);
            found.fault(&node.origin, &path, Code::InvalidConfig, why);
        })
        .ok();
    let (mut source, sequence_gate) = match source::read(&mut fields) {
        Some((source, gate)) => (Some(source), gate),
        None => (None, None),
    };
    let effect = effect::read(&mut fields, name, store, source.as_ref(), target);
    let dead_letter = fields.sub("dead_letter");
    let dead_letter = dead_letter.map(|table| sink::dead_letter(table, target));
    let key = key_selector(&mut fields, "key");
    if !fields.is_written("key") {
        missing_key(&fields, source.as_ref());
    }
    if let Some(SourceSettings::Ingest(source)) = &mut source {
        let written = fields.node("key").and_then(|it| it.value.as_text());
        source.is_key_whole =
            written.is_some_and(|it| it.eq_ignore_ascii_case("header:idempotency-key"));
    }
    let tenant = tenant_selector(&mut fields);
    let fingerprint = fingerprint(&mut fields);
    let transport = fields
        .selector("transport")
        .unwrap_or(Selector::Coordinates);
    fields.default("transport", transport.to_string());
    let birth = fields.selector("birth");
    let order = order(&mut fields);
    let gate = gate(&mut fields, store);
    if let Some(EffectSettings::Streamed(_)) = &effect {
        check_streamed(&mut fields, sequence_gate.is_some());
    }
    let window = pipeline_window(&mut fields, window);
    check_memory(&fields, source.as_ref(), window);
    let lease = lease(&mut fields, window);
    let (limits, backoff) = retry(&mut fields);
    let batch = fields.count_or("batch", 100_000, default_batch(effect.as_ref()));
    let concurrency = default_concurrency(effect.as_ref());
    let concurrency = fields.count_or("concurrency", 100_000, concurrency);
    let max_message_bytes = Options::default().max_message_bytes as u64;
    let max_message_bytes = fields.size_bytes_or("max_message", max_message_bytes);
    let layers = layers::read(
        &mut fields,
        &Known {
            name,
            class: effect.as_ref().map(EffectSettings::class),
            has_gate: gate.is_some(),
            window: window.duration(),
        },
    );
    let pause_after = fields.count_or_none_or("pause_after", 1_000_000, 20);
    let live_only = fields.boolean_or("live_only", false);
    let waived = waiver::read(&mut fields);
    if let Some(SourceSettings::Webhook(source)) = &source {
        webhook::check_open(&fields, source, waived.unverified);
    }
    let ownership = ownership::read(&mut fields);
    for not_yet in ["transport_unique", "apply_if", "guard"] {
        fields.not_yet(not_yet);
    }
    fields.finish();
    let pipeline = Pipeline {
        name: name.into(),
        scope: scope?,
        tenant,
        key: key?,
        fingerprint,
        transport: Some(transport),
        birth,
        order,
        gate,
        window,
        lease,
        limits,
        backoff,
        outcome_limit_bytes: Outcome::DEFAULT_LIMIT_BYTES,
        batch: batch as usize,
        concurrency: concurrency as usize,
        max_message_bytes,
        pause_after: pause_after as usize,
        bind: None,
        live_only,
    };
    Some(PipelineSettings {
        pipeline,
        source: source?,
        sequence_gate,
        effect: effect?,
        dead_letter: match dead_letter {
            Some(read) => Some(read?),
            None => None,
        },
        layers,
        waived,
        ownership,
    })
}

/// Refuses the gates that a streamed effect has no store for.
fn check_streamed(fields: &mut Fields<'_>, has_sequence_gate: bool) {
    if has_sequence_gate {
        let message = "a streamed effect keeps its place in the topic that it reads, and a sequence gate keeps the messages \
                       in the store; leave one of them out";
        fields.refuse_at(&["source", "producer"], Refusal::unsupported(message));
    }
    if let Some(node) = fields.node("entity") {
        let message =
            "a version gate needs a store that keeps versions, which a changelog does not";
        fields.unsupported("entity", node, message);
    }
}

/// Checks what no table of a pipeline shows alone: two pipelines must not write one file or read standard
/// input, and none must write the file that it reads.
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
        if let (SourceSettings::File { path: read, .. }, EffectSettings::File { path }) =
            (&settings.source, &settings.effect)
            && same_file::are_one(read, path)
        {
            let refusal = Refusal::same_file("is the file that the source reads; name another");
            fields.refuse_at(&[name, "effect", "path"], refusal);
        }
        if matches!(settings.source, SourceSettings::Stdin { .. })
            && let Some(other) = reader_of_stdin.replace(name)
        {
            let message = format!("reads standard input, and so does `{other}`; only one can");
            fields.fault_at(&[name, "source", "kind"], message);
        }
    }
}

/// Reports that there is no key, with the one that the source itself suggests.
fn missing_key(fields: &Fields<'_>, source: Option<&SourceSettings>) {
    let (key, what) = match source {
        Some(SourceSettings::Webhook(webhook)) => {
            let key = WebhookSettings::suggested_key(webhook.verification.scheme());
            (key, "webhooks")
        }
        Some(SourceSettings::Ingest(_)) => (
            Some("\"header:semel-id\""),
            "messages, if their producers number them",
        ),
        _ => (None, ""),
    };
    match key {
        Some(key) => {
            let message = format!("is missing; for these {what}, `key = {key}`");
            fields.fault_at(&["key"], message);
        }
        None => fields.missing("key"),
    }
}

fn key_selector(fields: &mut Fields<'_>, name: &'static str) -> Option<KeySelector> {
    let selectors: Vec<Selector> = fields.one_or_many(name, selector)?;
    KeySelector::try_from(selectors)
        .map_err(|error| {
            if let Some(node) = fields.node(name) {
                fields.fault(name, node, error.to_string());
            }
        })
        .ok()
}

fn tenant_selector(fields: &mut Fields<'_>) -> Option<Selector> {
    let selector = fields.selector("tenant")?;
    if tenant::can_select(&selector) {
        return Some(selector);
    }
    if let Some(node) = fields.node("tenant") {
        let message = format!(
            "`{selector}` tells messages apart, not tenants; name a place: `json:/…`, `header:…` or `field:…`"
        );
        fields.fault("tenant", node, message);
    }
    None
}

fn order(fields: &mut Fields<'_>) -> Option<KeySelector> {
    if let Some(node) = fields.node("order")
        && node.value.as_text() == Some("strict")
    {
        let message = "`strict` order is not supported by this release; name what to order by";
        fields.unsupported("order", node, message);
        return None;
    }
    key_selector(fields, "order")
}

fn fingerprint(fields: &mut Fields<'_>) -> FingerprintSelector {
    let default = FingerprintSelector::default();
    fields.default("fingerprint", default.to_string());
    let words = [FingerprintSelector::None, default.clone()];
    let written = fields.node("fingerprint").map(|node| &node.value);
    let Some(value) = written else {
        return default;
    };
    let text = value.as_text().unwrap_or_default();
    if let Some(word) = words.iter().find(|word| word.to_string() == text) {
        return word.clone();
    }
    let parse = |text: &str| {
        selector(text).map_err(|refusal| {
            let words = words.each_ref().map(ToString::to_string);
            match nearest(text, &words.each_ref().map(String::as_str)) {
                Some(word) => Refusal::from(format!("`{text}` is unknown; did you mean `{word}`?")),
                None => refusal,
            }
        })
    };
    let Some(selectors) = fields.one_or_many("fingerprint", parse) else {
        return default;
    };
    FingerprintSelector::fields(selectors).unwrap_or_default()
}

fn gate(fields: &mut Fields<'_>, store: Option<&StoreUrl>) -> Option<(KeySelector, Selector)> {
    let entity = key_selector(fields, "entity");
    let version = fields.selector("version");
    for (one, other) in [("entity", "version"), ("version", "entity")] {
        if let (Some(node), None) = (fields.node(one), fields.node(other)) {
            fields.fault(one, node, format!("needs `{other}` beside it"));
        }
    }
    if let (Some(StoreUrl::Server(url)), Some(node)) = (store, fields.node("entity"))
        && url.is_cluster()
    {
        let message = "a version gate changes two keys together, which a Redis cluster cannot";
        fields.unsupported("entity", node, message);
    }
    entity.zip(version)
}

/// Refuses a source that forgets producers before the pipeline has forgotten their messages.
fn check_memory(fields: &Fields<'_>, source: Option<&SourceSettings>, window: Window) {
    let Some(SourceSettings::Ingest(source)) = source else {
        return;
    };
    let memory = source.forget_producers;
    if memory.is_some_and(|it| it < window.duration()) {
        let message = "must be at least the `window` of the pipeline: a producer that was forgotten begins with sequence 1 \
                       again, and the ids that are made of it are those of messages that the pipeline remembers";
        fields.fault_at(&["source", "forget_producers"], message);
    }
}

fn pipeline_window(fields: &mut Fields<'_>, window: Window) -> Window {
    let inherited = duration_text(window.duration());
    fields.default_from("window", inherited, "window.duration");
    let Some(duration) = fields.window("window") else {
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

pub(super) fn lease(fields: &mut Fields<'_>, window: Window) -> Duration {
    let usual = Duration::from_secs(30)
        .min(window.duration())
        .max(Duration::from_millis(100));
    let lease = fields.duration_or("lease", usual);
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
    let default = AttemptLimits::default();
    let backoff = BACKOFF;
    let Some(mut retry) = fields.optional_sub("retry") else {
        return (default, backoff);
    };
    let limits = AttemptLimits {
        failed: limit(&mut retry, "attempts", default.failed),
        vanished: limit(&mut retry, "crashes", default.vanished),
    };
    let backoff = waits(&mut retry, backoff);
    retry.finish();
    (limits, backoff)
}

/// Reads `retry` where nothing is claimed: the tries of a message, and the waits between them.
pub(super) fn tries(fields: &mut Fields<'_>) -> (NonZeroU32, Backoff) {
    let default = AttemptLimits::default().failed;
    let Some(mut retry) = fields.optional_sub("retry") else {
        return (default, BACKOFF);
    };
    let attempts = limit(&mut retry, "attempts", default);
    let backoff = waits(&mut retry, BACKOFF);
    retry.finish();
    (attempts, backoff)
}

fn limit(retry: &mut Fields<'_>, name: &'static str, default: NonZeroU32) -> NonZeroU32 {
    NonZeroU32::new(retry.count_or(name, 1_000_000, default.get())).unwrap_or(default)
}

fn waits(retry: &mut Fields<'_>, backoff: Backoff) -> Backoff {
    let range = retry.parsed_with("backoff", |text| {
        let (first, most) = text.split_once("..").unwrap_or((text, text));
        let (Ok(first), Ok(most)) = (units::duration(first), units::duration(most)) else {
            return Err(format!(
                "`{text}` is no range of waits; write it like `200ms..30s`"
            ));
        };
        if first > most {
            return Err(format!("`{text}` begins after its end"));
        }
        Ok(Backoff { first, most })
    });
    let backoff = range.unwrap_or(backoff);
    let (first, most) = (duration_text(backoff.first), duration_text(backoff.most));
    retry.default("backoff", format!("{first}..{most}"));
    backoff
}

/// The waits between the attempts of an effect.
const BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(200),
    most: Duration::from_secs(60),
};

const fn default_batch(effect: Option<&EffectSettings>) -> u32 {
    match effect {
        // One transaction costs the same for any number of messages; see decision 0020.
        Some(EffectSettings::Sql(_) | EffectSettings::Streamed(_)) => 10_000,
        Some(
            EffectSettings::File { .. }
            | EffectSettings::Http(..)
            | EffectSettings::Exec(..)
            | EffectSettings::Jsonl(..)
            | EffectSettings::Stdout(_)
            | EffectSettings::Publish(_),
        )
        | None => 1_000,
    }
}

const fn default_concurrency(effect: Option<&EffectSettings>) -> u32 {
    match effect {
        Some(EffectSettings::Exec(..)) => 4,
        // A crash may leave this many in doubt.
        Some(
            EffectSettings::Http(..) | EffectSettings::Jsonl(..) | EffectSettings::Streamed(_),
        ) => 32,
        Some(
            EffectSettings::Sql(_)
            | EffectSettings::File { .. }
            | EffectSettings::Stdout(_)
            | EffectSettings::Publish(_),
        )
        | None => 1,
    }
}
