//! The rules of a check, each a function from known facts to findings.

use std::time::Duration;

use semel_config::{Front, PipelineSettings, Settings, SourceSettings, StoreUrl};
use semel_core::Error;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::port::store::Durability;
use semel_core::select::Selector;
use semel_core::units::duration_text;
use semel_engine::effect::{Class, within_provider_window};
use semel_engine::pipeline::Fail;
use semel_worker::effect::{ExecEffect, JsonlEffect};
use semel_worker::settings::EffectSettings;

use super::attempts;
use super::broker::Broker;
use super::durability::{self, OVERRIDE, Shortfall};
use super::finding::{Finding, Place, fail, of_error, warn};
use super::inspection::Inspection;
use super::sample::Sample;
use super::sequence_gate;
use super::storage::Storage;
use super::webhook;
use super::window::{Gate, Verdict};

/// One pipeline and everything that a program found out about it.
pub struct Subject<'a> {
    /// The settings of the whole file.
    pub settings: &'a Settings,
    /// The settings of the pipeline, completed by what only its broker knew.
    pub pipeline: &'a PipelineSettings,
    /// The store, or the reason why the program could not look at it.
    pub store: Result<&'a Inspection, &'a Error>,
    /// The broker of its source.
    pub broker: &'a Broker,
    /// Findings about the place of the store.
    pub place: &'a [Finding],
    /// Findings about its targets.
    pub targets: &'a [Finding],
    /// The database's refusal of its statements.
    pub refused: Option<&'a Error>,
    /// The captured messages as the pipeline reads them.
    pub sample: Option<&'a Sample>,
    /// The space that the store will take.
    pub storage: Storage,
}

impl Subject<'_> {
    /// Returns all findings, those about the store first.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.store(&mut findings);
        if self.store.is_ok() {
            findings.extend_from_slice(self.place);
        }
        self.source(&mut findings);
        findings.extend(self.broker.findings(self.pipeline));
        self.target(&mut findings);
        findings.extend_from_slice(self.targets);
        findings.extend(self.ownership());
        self.identity(&mut findings);
        self.times(&mut findings);
        self.layers(&mut findings);
        self.messages(&mut findings);
        findings
    }

    /// Returns whether the window outlasts the broker, if there is one and it answered.
    pub fn verdict(&self) -> Option<Verdict> {
        let (_, judgement) = self.broker.judgement(self.pipeline)?;
        Some(judgement.verdict)
    }

    /// Returns the timeout of a call of the effect, if the effect is a call.
    pub fn timeout(&self) -> Option<Duration> {
        attempts::timeout(&self.pipeline.effect)
    }

    /// Returns the longest time of all attempts of one message together.
    pub fn horizon(&self) -> Duration {
        attempts::longest(self.pipeline)
    }

    fn store(&self, findings: &mut Vec<Finding>) {
        let looked = match self.store {
            Ok(looked) => looked,
            Err(error) => {
                findings.push(of_error(error, Place::Store));
                return;
            }
        };
        if let Some(error) = &looked.unfit {
            findings.push(of_error(error, Place::Store));
        }
        let Some(found) = &looked.capabilities else {
            return;
        };
        if !matches!(self.pipeline.layers.front, Front::Approximate(_)) {
            let class = self.pipeline.effect.class();
            findings.extend(shortfall(self.settings, class, found.durability));
        }
        if self.settings.store == StoreUrl::Memory {
            return;
        }
        for warning in &found.warnings {
            let advice = match self.settings.store {
                StoreUrl::Server(_) => "change the setting of the server that it names",
                StoreUrl::Memory | StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) => {
                    "move the store, or accept what can be lost"
                }
            };
            findings.push(warn("store-weak", &**warning, advice));
        }
    }

    fn source(&self, findings: &mut Vec<Finding>) {
        findings.extend(webhook::findings(self.pipeline));
        findings.extend(sequence_gate::findings(self.pipeline));
        let SourceSettings::File { path, .. } = &self.pipeline.source else {
            return;
        };
        let why = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => "is a folder".to_owned(),
            // A pipe would wait for its writer.
            Ok(found) if !found.is_file() => return,
            Ok(_) => match std::fs::File::open(path) {
                Ok(_) => return,
                Err(error) => format!("cannot be read: {error}"),
            },
            Err(error) => format!("cannot be found: {error}"),
        };
        findings.push(fail(
            "source-unavailable",
            format!("{} {why}", path.display()),
            "correct `source.path`; a relative path begins in the folder of the file that names it",
        ));
    }

    fn target(&self, findings: &mut Vec<Finding>) {
        let is_new = matches!(self.store, Ok(looked) if looked.capabilities.is_none());
        let unavailable = |why: String| {
            let advice = "correct the effect's setting, or make what it names";
            fail("target-unavailable", why, advice)
        };
        match &self.pipeline.effect {
            EffectSettings::Sql(_) if is_new => findings.push(warn(
                "statements-unchecked",
                "the database is not there yet, so nobody could try the statements",
                "make it with the tables that they name, then check again",
            )),
            EffectSettings::Sql(_) => {
                findings.extend(self.refused.map(|error| {
                    let advice = "correct the statement, or make what it names";
                    fail("statement-refused", error.to_string(), advice)
                }));
            }
            EffectSettings::File { path } => {
                if self.settings.store.is_server() {
                    findings.push(warn(
                        "output-of-one-machine",
                        "workers of several machines may share the store, and it knows the output by \
                         its path alone: each would have a file of its own there",
                        "run this pipeline on one machine, or give each another path",
                    ));
                }
                let folder = path
                    .parent()
                    .filter(|folder| !folder.as_os_str().is_empty());
                if path.is_dir() {
                    findings.push(unavailable(format!("{} is a folder", path.display())));
                } else if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                    findings.push(unavailable(format!(
                        "there is no folder {}",
                        folder.display()
                    )));
                }
            }
            EffectSettings::Exec(settings, _) => {
                let checked = ExecEffect::new(settings.clone()).and_then(|effect| effect.check());
                findings.extend(checked.err().map(|error| unavailable(error.to_string())));
            }
            EffectSettings::Streamed(settings) => {
                let transform = settings.transform.iter().cloned();
                let mut checked = transform.map(|it| JsonlEffect::new(it)?.check());
                let refused = checked.find_map(Result::err);
                findings.extend(refused.map(|error| unavailable(error.to_string())));
            }
            EffectSettings::Jsonl(settings, _) => {
                let checked = JsonlEffect::new(settings.clone()).and_then(|effect| effect.check());
                findings.extend(checked.err().map(|error| unavailable(error.to_string())));
            }
            EffectSettings::Http(..) | EffectSettings::Stdout(_) | EffectSettings::Publish(_) => {}
        }
    }

    /// Finds that an alert would have nowhere to go, where somebody watches the worker. R287
    fn ownership(&self) -> Option<Finding> {
        let is_watched = self.settings.admin.listen.is_some();
        let is_missing = self.pipeline.ownership.owner.is_none();
        (is_watched && is_missing).then(|| {
            warn(
                "owner-missing",
                "its metrics are served, and nobody is named whom an alert could reach",
                "name the team, as in `owner = \"team-payments\"`",
            )
        })
    }

    fn identity(&self, findings: &mut Vec<Finding>) {
        let pipeline = &self.pipeline.pipeline;
        let key = pipeline.key.selectors();
        if key.contains(&Selector::Coordinates) {
            findings.push(warn(
                "key-is-coordinates",
                "the key says where a message lies, so that one that is published again is new",
                "name what the business knows, as in `key = \"json:/payment_intent\"`",
            ));
        } else if let ([key], Some(transport)) = (key, &pipeline.transport)
            && key == transport
        {
            findings.push(warn(
                "key-is-transport",
                "key and transport are the same, so that an intent published again under a new id \
                 is new",
                "name what the business knows as the key",
            ));
        }
        if pipeline.fingerprint == FingerprintSelector::None {
            findings.push(warn(
                "fingerprint-off",
                "without a fingerprint a key that is used for another request goes unnoticed",
                "name the fields that matter, as in `fingerprint = [\"json:/amount\"]`",
            ));
        }
    }

    fn times(&self, findings: &mut Vec<Finding>) {
        let pipeline = &self.pipeline.pipeline;
        let window = pipeline.window.duration();
        let (horizon, text) = (self.horizon(), duration_text);
        let is_told = match self.verdict() {
            Some(Verdict::Repeats | Verdict::RepeatsBorne | Verdict::Numbered) => true,
            Some(Verdict::Enough | Verdict::Unknown | Verdict::SetsAside) | None => false,
        };
        if self.broker.gate(self.pipeline) == Gate::Off && !is_told {
            findings.push(warn(
                "age-gate-off",
                format!(
                    "without `birth` a message that comes again after {} counts as new",
                    text(window)
                ),
                "name where its time of birth is, as in `birth = \"json:/created_at\"`",
            ));
        }
        if horizon > window {
            findings.push(warn(
                "window-shorter-than-retries",
                format!(
                    "the attempts of one message may last {}, longer than the window of {}, which \
                     should outlast every way in which a message can come again",
                    text(horizon),
                    text(window)
                ),
                "widen the window, or shorten `retry` or the timeout",
            ));
        }
        if let Some(timeout) = self.timeout().filter(|timeout| *timeout > pipeline.lease) {
            findings.push(warn(
                "lease-shorter-than-timeout",
                format!(
                    "a call may take {}, a lease lasts {}: it is renewed meanwhile, but a worker \
                     that stands still loses it within one call",
                    text(timeout),
                    text(pipeline.lease)
                ),
                "where workers may be paused, make `lease` as long as the timeout",
            ));
        }
        let Class::Keyed { provider_window } = self.pipeline.effect.class() else {
            return;
        };
        let advice = if matches!(self.pipeline.effect, EffectSettings::Publish(_)) {
            "widen the stream's duplicate window, or have whoever reads remember longer"
        } else {
            "where the provider remembers longer, say so in `provider_window`"
        };
        if provider_window < within_provider_window(horizon) {
            findings.push(warn(
                "provider-window-shorter-than-retries",
                format!(
                    "the attempts of one message may last {}, and the provider forgets its key \
                     before: what is started then is in doubt",
                    text(horizon)
                ),
                advice,
            ));
        } else if provider_window < within_provider_window(window) {
            findings.push(warn(
                "provider-window-short",
                format!(
                    "the provider forgets a key before the window of {} has passed: what was \
                     started and not finished by then is in doubt",
                    text(window)
                ),
                advice,
            ));
        }
    }

    fn layers(&self, findings: &mut Vec<Finding>) {
        let layers = &self.pipeline.layers;
        if layers.fail == Fail::Open {
            findings.push(warn(
                "fails-open",
                "while the store is away, effects run without a claim and leave no record: their \
                 duplicates run again",
                "leave `fail` at \"closed\" unless the effect matters more than that it happens once",
            ));
        }
        if let Front::Approximate(settings) = &layers.front {
            let (share, bytes) = (settings.error_rate * 100.0, settings.bytes());
            findings.push(warn(
                "store-approximate",
                format!(
                    "up to {share}% of new keys are taken for duplicates and lost, and a restart forgets \
                     what is finished; the filter takes {bytes} B of memory"
                ),
                "remove `approximate` wherever a lost effect matters",
            ));
        }
    }

    fn messages(&self, findings: &mut Vec<Finding>) {
        let Some(sample) = self.sample else {
            return;
        };
        if sample.messages == 0 {
            let advice = "capture some of what the source delivers";
            findings.push(warn("sample-empty", "the sample holds no message", advice));
        } else if sample.keyed == 0 && sample.without_tenant > 0 {
            findings.push(fail(
                "sample-without-tenant",
                format!("no message yields a key and a tenant: {}", sample.reasons()),
                "correct `tenant`, or what `semel explain` says of these codes",
            ));
        } else if sample.keyed == 0 {
            findings.push(fail(
                "sample-without-key",
                format!("no message yields a key: {}", sample.reasons()),
                "correct `key`, or what `semel explain` says of these codes",
            ));
        } else if !sample.unusable.is_empty() {
            findings.push(warn(
                "sample-unusable",
                format!("quarantine would get {}", sample.reasons()),
                "correct `key` or the producer; see `semel explain` for each code",
            ));
        }
        if sample.conflicts > 0 {
            findings.push(warn(
                "sample-conflicts",
                format!(
                    "messages that use a key of another request: {}, such as {}",
                    sample.conflicts,
                    sample.conflicting()
                ),
                "if they are the same intent, name the fields that matter in `fingerprint`; if \
                 not, the key is not the whole identity",
            ));
        }
    }
}

/// The findings about a store that keeps operations of this class, and no pipeline's.
pub(super) fn of_store(
    settings: &Settings,
    class: Class,
    store: Result<&Inspection, &Error>,
) -> Vec<Finding> {
    let looked = match store {
        Ok(looked) => looked,
        Err(error) => return vec![of_error(error, Place::Store)],
    };
    let unfit = looked.unfit.as_ref();
    let unfit = unfit.map(|error| of_error(error, Place::Store));
    let found = looked.capabilities.as_ref();
    let weak = found.and_then(|it| shortfall(settings, class, it.durability));
    unfit.into_iter().chain(weak).collect()
}

/// Finds that the store gives less than a class needs.
pub(super) fn shortfall(
    settings: &Settings,
    class: Class,
    survives: Durability,
) -> Option<Finding> {
    let Shortfall { is_broken, why } = durability::shortfall(class, survives)?;
    let is_accepted = settings.accepted.durability;
    let why = match settings.store {
        StoreUrl::Memory => {
            "the store forgets everything when its process ends: then every duplicate is new"
        }
        StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) | StoreUrl::Server(_) => why,
    };
    let message = if is_accepted {
        format!("accepted by `store.accept`: {why}")
    } else {
        why.to_owned()
    };
    let advice = match settings.store {
        StoreUrl::Memory => {
            "use `embedded:FOLDER` or `sqlite:FILE` on a local disk; only a test may forget"
                .to_owned()
        }
        StoreUrl::Embedded(_) | StoreUrl::Sqlite(_) => {
            format!("move the store to a local disk, or accept it with {OVERRIDE}")
        }
        StoreUrl::Server(_) => {
            format!("change the server as its warnings say, or accept it with {OVERRIDE}")
        }
    };
    let is_fault = is_broken && !is_accepted;
    Some(match survives {
        Durability::Process if is_fault => fail("store-volatile", message, advice),
        Durability::Process => warn("store-volatile", message, advice),
        Durability::Kill | Durability::PowerCut | Durability::NodeLoss if is_fault => {
            fail("store-durability", message, advice)
        }
        Durability::Kill | Durability::PowerCut | Durability::NodeLoss => {
            warn("store-durability", message, advice)
        }
    })
}
