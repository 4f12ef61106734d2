//! The report of one pipeline: its promise, the foundation of the promise, and what stands in its way.

use std::borrow::Cow;

use semel_config::{Front, Settings};
use semel_core::Error;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::port::store::Durability;
use semel_core::select::Selector;
use semel_core::units::{duration_text, spelled};
use semel_engine::effect::{Class, OnDoubt, within_provider_window};
use semel_worker::effect::http::masked;
use semel_worker::effect::publish::{Promise, Settings as PublishSettings};
use semel_worker::settings::EffectSettings;
use serde::{Deserialize, Serialize};

use super::broker::Reached;
use super::finding::{Finding, Severity, cows};
use super::inspection::Inspection;
use super::rules::Subject;
use super::sample::Sample;
use super::storage::Storage;
use super::window::{Gate, Verdict};
use crate::value::Span;

/// The documented object; the names and the order of its members are stable.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The worst of the findings.
    pub verdict: Severity,
    /// The class of its effect.
    pub class: Cow<'static, str>,
    /// The promise of the class.
    pub guarantee: Cow<'static, str>,
    /// The treatment of an unkeyed call whose end is unknown.
    pub on_doubt: Option<Cow<'static, str>>,
    /// Its source.
    pub source: String,
    /// Its effect.
    pub effect: String,
    /// The reach of the promise.
    pub coverage: Coverage,
    /// The store that the promise rests on.
    pub store: StoreReport,
    /// Selectors of the key.
    pub key: Vec<String>,
    /// Selector of the tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Selectors of the fingerprint, or the word that stands for them.
    pub fingerprint: Vec<String>,
    /// Selector of the transport's id.
    pub transport: Option<String>,
    /// Selector of the time of birth.
    pub birth: Option<String>,
    /// The time that the age gate uses.
    pub age_gate: Gate,
    /// The time for which a key is remembered.
    pub window: Span,
    /// The part of the window that is kept back.
    pub margin: Span,
    /// The time for which a claim lasts.
    pub lease: Span,
    /// The timeout of a call of the effect, if the effect is a call.
    pub timeout: Option<Span>,
    /// The attempts of the effect.
    pub retry: RetryReport,
    /// The space that the store will take.
    pub storage: Storage,
    /// The captured messages as the pipeline reads them.
    pub sample: Option<Sample>,
    /// All findings.
    pub findings: Vec<Finding>,
    /// The answers of the live broker; nothing if there is no broker.
    pub reach: Option<Reached>,
}

/// The reach of the promise. R009
#[derive(Debug, Serialize, Deserialize)]
pub struct Coverage {
    /// The reach in a word.
    pub protection: Protection,
    /// The reason.
    pub why: String,
}

/// The reach of the promise, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// Everywhere, for messages of any origin.
    Protected,
    /// With an exception that the report names.
    Partial,
    /// Nowhere.
    Unprotected,
}

/// The store as the check found it.
#[derive(Debug, Serialize, Deserialize)]
pub struct StoreReport {
    /// Its URL, without secrets.
    pub url: String,
    /// True if the store exists.
    pub is_there: bool,
    /// The worst event that an answer survives; unknown before the store exists or if it cannot be seen.
    pub survives: Option<Cow<'static, str>>,
    /// True if several processes may use it at once.
    pub shared: Option<bool>,
    /// The names of its weaknesses that are accepted.
    pub accepted: Vec<Cow<'static, str>>,
    /// The reason why the check could not look at the store.
    pub error: Option<String>,
}

/// The attempts of an effect, and the waits between them.
#[derive(Debug, Serialize, Deserialize)]
pub struct RetryReport {
    /// The attempts that fail before the message is dead.
    pub attempts: u32,
    /// The attempts that vanish with their worker before the message is dead.
    pub crashes: u32,
    /// The wait after the first attempt.
    pub first_wait: Span,
    /// The longest wait.
    pub longest_wait: Span,
    /// The time of all attempts of one message together.
    pub longest: Span,
}

impl Report {
    /// Applies every rule to the known facts.
    pub fn of(subject: &Subject<'_>) -> Self {
        let settings = subject.pipeline;
        let pipeline = &settings.pipeline;
        let findings = subject.findings();
        let severities = findings.iter().map(|finding| finding.severity);
        let class = settings.effect.class();
        Self {
            pipeline: pipeline.name.to_string(),
            verdict: severities.max().unwrap_or(Severity::Ok),
            class: class.as_str().into(),
            guarantee: guarantee(class).into(),
            on_doubt: match class {
                Class::Unkeyed(OnDoubt::Park) => Some("park".into()),
                Class::Unkeyed(OnDoubt::Repeat) => Some("repeat".into()),
                Class::Keyed { .. } | Class::Transactional | Class::Streamed => None,
            },
            source: settings.source.to_string(),
            effect: effect(&settings.effect),
            coverage: Coverage::of(subject),
            store: StoreReport::of(subject.settings, subject.store),
            key: texts(pipeline.key.selectors()),
            tenant: pipeline.tenant.as_ref().map(ToString::to_string),
            fingerprint: match &pipeline.fingerprint {
                FingerprintSelector::Fields(fields) => texts(fields.selectors()),
                word @ (FingerprintSelector::None | FingerprintSelector::Payload) => {
                    vec![word.to_string()]
                }
            },
            transport: pipeline.transport.as_ref().map(ToString::to_string),
            birth: pipeline.birth.as_ref().map(ToString::to_string),
            age_gate: subject.broker.gate(settings),
            window: Span(pipeline.window.duration()),
            margin: Span(pipeline.window.margin()),
            lease: Span(pipeline.lease),
            timeout: subject.timeout().map(Span),
            retry: RetryReport {
                attempts: pipeline.limits.failed.get(),
                crashes: pipeline.limits.vanished.get(),
                first_wait: Span(pipeline.backoff.first),
                longest_wait: Span(pipeline.backoff.most),
                longest: Span(subject.horizon()),
            },
            storage: subject.storage.clone(),
            sample: subject.sample.cloned(),
            findings,
            reach: Reached::of(subject.broker, settings),
        }
    }
}

impl Coverage {
    fn of(subject: &Subject<'_>) -> Self {
        let settings = subject.pipeline;
        let durability = subject.store.ok().and_then(|looked| {
            let found = looked.capabilities.as_ref();
            found.map(|found| found.durability)
        });
        let window = settings.pipeline.window.duration();
        let (protection, why) = match settings.effect.class() {
            _ if matches!(settings.layers.front, Front::Approximate(_)) => (
                Protection::Unprotected,
                "a filter in memory decides what was done before".to_owned(),
            ),
            _ if durability == Some(Durability::Process) => (
                Protection::Unprotected,
                "the store forgets everything with its process".to_owned(),
            ),
            Class::Streamed => (
                Protection::Protected,
                "commits in one transaction with its record and the offsets of its input, for readers \
                 of committed messages"
                    .to_owned(),
            ),
            Class::Transactional => (
                Protection::Protected,
                match settings.effect {
                    EffectSettings::File { .. } => {
                        "cut back to the length that its record has, as long as nobody else writes \
                         the file"
                    }
                    EffectSettings::Sql(_)
                    | EffectSettings::Http(..)
                    | EffectSettings::Exec(..)
                    | EffectSettings::Jsonl(..)
                    | EffectSettings::Stdout(_)
                    | EffectSettings::Publish(_)
                    | EffectSettings::Streamed(_) => "commits in one transaction with its record",
                }
                .to_owned(),
            ),
            Class::Keyed { provider_window } => {
                let protection = if provider_window < within_provider_window(window) {
                    Protection::Partial
                } else {
                    Protection::Protected
                };
                let path = [
                    "pipelines",
                    &settings.pipeline.name,
                    "effect",
                    "provider_window",
                ];
                let declared = subject.settings.effective.text(&path);
                let declared = declared.map_or_else(|| told(&settings.effect), str::to_owned);
                let why =
                    format!("the provider recognises its key for {declared}; past that, in doubt");
                (protection, why)
            }
            Class::Unkeyed(OnDoubt::Park) => (
                Protection::Partial,
                "a call whose end nobody knows is not made again, but in doubt".to_owned(),
            ),
            Class::Unkeyed(OnDoubt::Repeat) => (
                Protection::Partial,
                "a call whose end nobody knows is made again, and listed".to_owned(),
            ),
        };
        match subject.verdict() {
            Some(Verdict::Repeats | Verdict::RepeatsBorne)
                if protection == Protection::Protected =>
            {
                let after = format!("; what comes again after {} counts as new", spelled(window));
                Self {
                    protection: Protection::Partial,
                    why: why + &after,
                }
            }
            Some(
                Verdict::Enough
                | Verdict::Numbered
                | Verdict::Unknown
                | Verdict::SetsAside
                | Verdict::Repeats
                | Verdict::RepeatsBorne,
            )
            | None => Self { protection, why },
        }
    }
}

impl StoreReport {
    /// Tells whether several machines may reach it.
    pub fn is_server(&self) -> bool {
        let local = ["memory:", "embedded:", "sqlite:"];
        !local.iter().any(|kind| self.url.starts_with(kind))
    }

    pub(super) fn of(settings: &Settings, store: Result<&Inspection, &Error>) -> Self {
        let found = store.ok().and_then(|looked| looked.capabilities.as_ref());
        Self {
            url: settings.store.to_string(),
            is_there: store.is_ok_and(|looked| looked.is_there),
            survives: found.map(|found| match found.durability {
                Durability::Process => "nothing".into(),
                Durability::Kill => "kill".into(),
                Durability::PowerCut => "power-cut".into(),
                Durability::NodeLoss => "node-loss".into(),
            }),
            shared: found.map(|found| found.shared),
            accepted: cows(settings.accepted.names()),
            error: store.err().map(ToString::to_string),
        }
    }
}

pub(super) const fn guarantee(class: Class) -> &'static str {
    match class {
        Class::Transactional => "exactly once",
        Class::Streamed => "exactly once inside the cluster",
        Class::Keyed { .. } => "exactly once inside the provider's window",
        Class::Unkeyed(OnDoubt::Repeat) => "at least once",
        Class::Unkeyed(OnDoubt::Park) => "at most once",
    }
}

/// The window that the broker told, and the configuration does not declare.
fn told(effect: &EffectSettings) -> String {
    let EffectSettings::Publish(PublishSettings {
        promise: Promise::Keyed {
            provider_window: Some(window),
        },
        ..
    }) = effect
    else {
        return "as long as the broker says".to_owned();
    };
    duration_text(*window)
}

fn texts(selectors: &[Selector]) -> Vec<String> {
    selectors.iter().map(ToString::to_string).collect()
}

fn effect(settings: &EffectSettings) -> String {
    match settings {
        EffectSettings::Sql(binding) => match binding.statements().sql.len() {
            1 => "sql, one statement".to_owned(),
            count => format!("sql, {count} statements"),
        },
        EffectSettings::File { path } => format!("file {}", path.display()),
        EffectSettings::Http(settings, _) => {
            format!("http {} {}", settings.method, masked(&settings.url))
        }
        EffectSettings::Exec(settings, _) => format!("exec {}", settings.command[0]),
        EffectSettings::Jsonl(settings, _) => format!("jsonl {}", settings.command[0]),
        EffectSettings::Stdout(_) => "stdout".to_owned(),
        EffectSettings::Publish(settings) => settings.target.to_string(),
        EffectSettings::Streamed(settings) => format!("kafka {}", settings.topic),
    }
}
