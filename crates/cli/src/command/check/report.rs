//! What is printed of one pipeline.

use semel_config::Front;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::port::store::Durability;
use semel_core::select::Selector;
use semel_core::units::{duration_text, spelled};
use semel_engine::effect::{Class, OnDoubt};
use semel_worker::effect::http::masked;
use semel_worker::effect::publish::{Promise, Settings as PublishSettings};
use semel_worker::settings::{EffectSettings, within_provider_window};
use serde::Serialize;

use super::broker::{Line, Reached};
use super::finding::{Finding, Severity};
use super::rules::Subject;
use super::sample::Sample;
use super::storage::Storage;
use crate::output::value::Span;
use crate::output::{Answer, Block, Look};
use crate::window::{Gate, Verdict};

/// The documented object; names and order of its members are stable.
#[derive(Serialize)]
pub(super) struct Report<'a> {
    pipeline: &'a str,
    pub(super) verdict: Severity,
    class: &'static str,
    guarantee: &'static str,
    /// What becomes of an unkeyed call whose end nobody knows.
    on_doubt: Option<&'static str>,
    source: String,
    effect: String,
    coverage: Coverage,
    store: Store,
    key: Vec<String>,
    fingerprint: Vec<String>,
    transport: Option<String>,
    birth: Option<String>,
    window: Span,
    margin: Span,
    lease: Span,
    timeout: Option<Span>,
    retry: Retry,
    storage: Storage,
    sample: Option<&'a Sample>,
    findings: Vec<Finding>,
    /// What the live broker says; nothing without one.
    reach: Option<Reached<'a>>,
    #[serde(skip)]
    gate: Gate,
}

/// How far the promise reaches. R009
#[derive(Serialize)]
struct Coverage {
    protection: Protection,
    why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Protection {
    Protected,
    Partial,
    Unprotected,
}

#[derive(Serialize)]
struct Store {
    url: String,
    is_there: bool,
    /// What an answer survives; unknown before the store is there or where it cannot be seen.
    survives: Option<&'static str>,
    /// Whether several processes may use it at once.
    shared: Option<bool>,
    /// What of its weaknesses is accepted by name.
    accepted: Vec<&'static str>,
    error: Option<String>,
    #[serde(skip)]
    is_server: bool,
}

#[derive(Serialize)]
struct Retry {
    attempts: u32,
    crashes: u32,
    first_wait: Span,
    longest_wait: Span,
    /// All attempts of one message together.
    longest: Span,
}

impl<'a> Report<'a> {
    pub(super) fn of(subject: &Subject<'a>) -> Self {
        let settings = subject.pipeline;
        let pipeline = &settings.pipeline;
        let findings = subject.findings();
        let severities = findings.iter().map(|finding| finding.severity);
        let class = settings.effect.class();
        Self {
            pipeline: &pipeline.name,
            verdict: severities.max().unwrap_or(Severity::Ok),
            class: class_name(class),
            guarantee: guarantee(class),
            on_doubt: match class {
                Class::Unkeyed(OnDoubt::Park) => Some("park"),
                Class::Unkeyed(OnDoubt::Repeat) => Some("repeat"),
                Class::Keyed { .. } | Class::Transactional | Class::Streamed => None,
            },
            source: settings.source.to_string(),
            effect: effect(&settings.effect),
            coverage: Coverage::of(subject),
            store: Store::of(subject),
            key: texts(pipeline.key.selectors()),
            fingerprint: match &pipeline.fingerprint {
                FingerprintSelector::Fields(fields) => texts(fields.selectors()),
                word @ (FingerprintSelector::None | FingerprintSelector::Payload) => {
                    vec![word.to_string()]
                }
            },
            transport: pipeline.transport.as_ref().map(ToString::to_string),
            birth: pipeline.birth.as_ref().map(ToString::to_string),
            window: Span(pipeline.window.duration()),
            margin: Span(pipeline.window.margin()),
            lease: Span(pipeline.lease),
            timeout: subject.timeout().map(Span),
            retry: Retry {
                attempts: pipeline.limits.failed.get(),
                crashes: pipeline.limits.vanished.get(),
                first_wait: Span(pipeline.backoff.first),
                longest_wait: Span(pipeline.backoff.most),
                longest: Span(subject.horizon()),
            },
            storage: subject.storage.clone(),
            sample: subject.sample,
            findings,
            reach: Reached::of(subject.broker, settings),
            gate: subject.broker.gate(settings),
        }
    }

    /// Its row in the table of all windows.
    pub(super) fn line(&self, subject: &Subject<'_>) -> Option<Line> {
        Line::of(subject.broker, subject.pipeline, self.class)
    }
}

impl Answer for Report<'_> {
    fn describe(&self, block: &mut Block) {
        let (window, margin) = (duration_text(self.window.0), duration_text(self.margin.0));
        let lease = duration_text(self.lease.0);
        let Retry {
            attempts,
            first_wait,
            longest_wait,
            longest,
            ..
        } = &self.retry;
        let [first, most, all] = [first_wait, longest_wait, longest].map(|at| duration_text(at.0));
        block
            .heading(&format!("{}: {}", self.pipeline, self.verdict.as_str()))
            .field("class", format!("{}: {}", self.class, self.guarantee))
            .field("source", &self.source)
            .field("effect", &self.effect)
            .look(self.coverage.look(), "coverage", &self.coverage.to_string())
            .field("store", &self.store)
            .field("key", self.key.join(" + "))
            .field("fingerprint", self.fingerprint.join(" + "))
            .some("transport", self.transport.as_ref())
            .field("window", format!("{window}, margin {margin}"));
        match (self.gate, &self.birth) {
            (Gate::Appended, _) => block.field("age gate", "on, by the broker's time"),
            (Gate::Birth | Gate::Off, Some(birth)) => {
                block.field("age gate", format!("on, by {birth}"))
            }
            (Gate::Birth | Gate::Off, None) => block.field("age gate", "off, no `birth`"),
        };
        if let Some(reach) = &self.reach {
            reach.describe(block);
        }
        let timeout = self.timeout.map_or_else(String::new, |timeout| {
            format!("; a call may take {}", duration_text(timeout.0))
        });
        block
            .field(
                "retry",
                format!(
                    "{attempts} attempts, {first} to {most} between them, at most {all} in all"
                ),
            )
            .field("lease", format!("{lease}, renewed at a third{timeout}"))
            .field("storage", &self.storage)
            .some("sample", self.sample);
        for finding in &self.findings {
            let look = match finding.severity {
                Severity::Ok => Look::Good,
                Severity::Warn => Look::Attention,
                Severity::Fail => Look::Bad,
            };
            let Finding {
                code,
                severity,
                message,
                advice,
            } = finding;
            block
                .look(look, severity.as_str(), &format!("{code}: {message}"))
                .field("do", advice);
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
                | Verdict::Unknown
                | Verdict::SetsAside
                | Verdict::Repeats
                | Verdict::RepeatsBorne,
            )
            | None => Self { protection, why },
        }
    }

    const fn look(&self) -> Look {
        match self.protection {
            Protection::Protected => Look::Good,
            Protection::Partial => Look::Attention,
            Protection::Unprotected => Look::Bad,
        }
    }
}

impl std::fmt::Display for Coverage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let protection = match self.protection {
            Protection::Protected => "protected",
            Protection::Partial => "partial",
            Protection::Unprotected => "unprotected",
        };
        write!(f, "{protection}: {}", self.why)
    }
}

impl Store {
    fn of(subject: &Subject<'_>) -> Self {
        let found = subject
            .store
            .ok()
            .and_then(|looked| looked.capabilities.as_ref());
        Self {
            url: subject.settings.store.to_string(),
            is_there: subject.store.is_ok_and(|looked| looked.is_there),
            survives: found.map(|found| match found.durability {
                Durability::Process => "nothing",
                Durability::Kill => "kill",
                Durability::PowerCut => "power-cut",
                Durability::NodeLoss => "node-loss",
            }),
            shared: found.map(|found| found.shared),
            accepted: subject.settings.accepted.names(),
            is_server: subject.settings.store.is_server(),
            error: subject.store.err().map(ToString::to_string),
        }
    }
}

impl std::fmt::Display for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.url)?;
        if let Some(error) = &self.error {
            return write!(f, ", not to be opened: {error}");
        }
        match self.survives {
            Some("nothing") => f.write_str(", forgets everything with its process")?,
            Some("kill") => f.write_str(", survives kill -9, not a power cut")?,
            Some("power-cut") => f.write_str(", survives a power cut")?,
            Some(_) => f.write_str(", survives the loss of a machine")?,
            None => {}
        }
        match self.shared {
            Some(true) if self.is_server => f.write_str(", for any number of workers")?,
            Some(true) => f.write_str(", for several processes of this machine")?,
            Some(false) => f.write_str(", for one process")?,
            None => {}
        }
        if !self.is_there {
            f.write_str("; will be created")?;
        }
        for name in &self.accepted {
            write!(f, "; accepted: {name}")?;
        }
        Ok(())
    }
}

const fn class_name(class: Class) -> &'static str {
    match class {
        Class::Transactional => "transactional",
        Class::Streamed => "streamed",
        Class::Keyed { .. } => "keyed",
        Class::Unkeyed(_) => "unkeyed",
    }
}

const fn guarantee(class: Class) -> &'static str {
    match class {
        Class::Transactional => "exactly once",
        Class::Streamed => "exactly once inside the cluster",
        Class::Keyed { .. } => "exactly once inside the provider's window",
        Class::Unkeyed(OnDoubt::Repeat) => "at least once",
        Class::Unkeyed(OnDoubt::Park) => "at most once",
    }
}

/// The window that nobody declared and the broker told.
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
