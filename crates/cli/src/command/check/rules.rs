//! The rules of a check, each a function of what is known to what is found.

use std::time::Duration;

use semel_core::Error;
use semel_core::fingerprint::FingerprintSelector;
use semel_core::port::store::Durability;
use semel_core::port::transactional::Backoff;
use semel_core::select::Selector;
use semel_engine::effect::Class;
use semel_engine::pipeline::Fail;
use semel_worker::effect::{ExecEffect, JsonlEffect};
use semel_worker::settings::{EffectSettings, within_provider_window};

use super::finding::{Finding, fail, warn};
use super::place;
use super::sample::Sample;
use super::storage::Storage;
use crate::assemble::Looked;
use crate::config::{Front, PipelineSettings, Settings, SourceSettings, StoreUrl};
use crate::demand::{self, OVERRIDE, Shortfall};
use crate::output::value::duration_text;

/// One pipeline and all that is known about it.
pub(super) struct Subject<'a> {
    pub(super) settings: &'a Settings,
    pub(super) pipeline: &'a PipelineSettings,
    pub(super) store: Result<&'a Looked, &'a Error>,
    /// What the database says to its statements.
    pub(super) refused: Option<&'a Error>,
    pub(super) sample: Option<&'a Sample>,
    pub(super) storage: Storage,
}

impl Subject<'_> {
    /// Everything that somebody should know, the store first.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.store(&mut findings);
        if self.store.is_ok() {
            findings.extend(place::findings(&self.settings.store, &self.storage));
        }
        self.source(&mut findings);
        self.target(&mut findings);
        self.identity(&mut findings);
        self.times(&mut findings);
        self.layers(&mut findings);
        self.messages(&mut findings);
        findings
    }

    /// How long a call of the effect may take, where it is one.
    pub(super) fn timeout(&self) -> Option<Duration> {
        match &self.pipeline.effect {
            EffectSettings::Http(settings, _) => Some(settings.timeout),
            EffectSettings::Exec(settings, _) => Some(settings.timeout),
            EffectSettings::Jsonl(settings, _) => Some(settings.timeout),
            EffectSettings::Sql(_) | EffectSettings::File { .. } | EffectSettings::Stdout(_) => {
                None
            }
        }
    }

    /// How long the attempts of one message may take together.
    pub(super) fn horizon(&self) -> Duration {
        let pipeline = &self.pipeline.pipeline;
        let timeout = self.timeout().unwrap_or_default();
        horizon(pipeline.limits.failed.get(), pipeline.backoff, timeout)
    }

    fn store(&self, findings: &mut Vec<Finding>) {
        let looked = match self.store {
            Ok(looked) => looked,
            Err(error) => {
                let code = error.code().as_str();
                let advice = format!("see `semel explain {code}`");
                findings.push(fail(code, error.to_string(), advice));
                return;
            }
        };
        let Some(found) = &looked.capabilities else {
            return;
        };
        if !matches!(self.pipeline.layers.front, Front::Approximate(_)) {
            findings.extend(self.shortfall(found.durability));
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

    /// Where the store gives less than the class needs.
    fn shortfall(&self, survives: Durability) -> Option<Finding> {
        let class = self.pipeline.effect.class();
        let Shortfall { is_broken, why } = demand::shortfall(class, survives)?;
        let is_accepted = self.settings.accepted.durability;
        let why = match self.settings.store {
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
        let advice = match self.settings.store {
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

    fn source(&self, findings: &mut Vec<Finding>) {
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
            "correct `source.path`; relative paths begin in the current folder",
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
            EffectSettings::Jsonl(settings, _) => {
                let checked = JsonlEffect::new(settings.clone()).and_then(|effect| effect.check());
                findings.extend(checked.err().map(|error| unavailable(error.to_string())));
            }
            EffectSettings::Http(..) | EffectSettings::Stdout(_) => {}
        }
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
        if pipeline.birth.is_none() {
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
        let advice = "where the provider remembers longer, say so in `provider_window`";
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

/// Every call, and every wait between two of them.
fn horizon(attempts: u32, backoff: Backoff, timeout: Duration) -> Duration {
    let waits = attempts.saturating_sub(1);
    let growing = (1..=waits.min(MOST_DOUBLINGS)).map(|failed| backoff.after(failed));
    let growing = growing.fold(Duration::ZERO, Duration::saturating_add);
    let rest = waits.saturating_sub(MOST_DOUBLINGS);
    let rest = backoff.after(MOST_DOUBLINGS).saturating_mul(rest);
    let calls = timeout.saturating_mul(attempts);
    calls.saturating_add(growing).saturating_add(rest)
}

/// From here on, every wait is as long as the one before.
const MOST_DOUBLINGS: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_attempts_together_take_their_calls_and_the_waits_between() {
        let secs = Duration::from_secs;
        let backoff = |first, most| Backoff {
            first: secs(first),
            most: secs(most),
        };
        assert_eq!(horizon(1, backoff(1, 9), secs(5)), secs(5));
        assert_eq!(horizon(5, backoff(1, 4), secs(0)), secs(1 + 2 + 4 + 4));
        assert_eq!(horizon(5, backoff(1, 4), secs(10)), secs(50 + 11));
        let one_by_one = (1..1_000).map(|failed| backoff(1, 60).after(failed));
        assert_eq!(
            horizon(1_000, backoff(1, 60), secs(0)),
            one_by_one.sum::<Duration>()
        );
        let forever = horizon(u32::MAX, backoff(u64::MAX, u64::MAX), secs(1));
        assert_eq!(forever, Duration::MAX);
    }
}
