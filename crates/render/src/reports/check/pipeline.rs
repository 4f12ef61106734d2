//! Prints the report of one pipeline.

use std::time::Duration;

use semel_core::port::horizon::Horizon;
use semel_core::units::{duration_text, spelled};
use semel_operate::check::window::{Gate, Verdict};
use semel_operate::check::{
    BrokerFact, Coverage, Finding, Protection, Reached, Report, RetryReport, Sample, Severity,
    Storage, StoreReport, UnreadSetting,
};
use semel_operate::value::bytes_text;

use crate::{Answer, Block, TextStyle};

impl Answer for Report {
    fn describe(&self, block: &mut Block) {
        let (window, margin) = (duration_text(self.window.0), duration_text(self.margin.0));
        let lease = duration_text(self.lease.0);
        let RetryReport {
            attempts,
            first_wait,
            longest_wait,
            longest,
            ..
        } = &self.retry;
        let [first, most] = [first_wait, longest_wait].map(|at| duration_text(at.0));
        let all = sum_text(longest.0);
        block
            .heading(&format!("{}: {}", self.pipeline, self.verdict.as_str()))
            .field("class", format!("{}: {}", self.class, self.guarantee))
            .field("source", &self.source)
            .field("effect", &self.effect)
            .styled(
                style_of(self.coverage.protection),
                "coverage",
                &coverage(&self.coverage),
            )
            .field("store", StoreText(&self.store))
            .field("key", self.key.join(" + "))
            .some("tenant", self.tenant.as_ref())
            .field("fingerprint", self.fingerprint.join(" + "))
            .some("transport", self.transport.as_ref())
            .field("window", format!("{window}, margin {margin}"));
        match (self.age_gate, &self.birth) {
            (Gate::Appended, _) => block.field("age gate", "on, by the broker's time"),
            (Gate::Birth | Gate::Off, Some(birth)) => {
                block.field("age gate", format!("on, by {birth}"))
            }
            (Gate::Birth | Gate::Off, None) => block.field("age gate", "off, no `birth`"),
        };
        if let Some(reach) = &self.reach {
            describe_reach(reach, block);
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
            .field("storage", StorageText(&self.storage))
            .some("sample", self.sample.as_ref().map(SampleText));
        findings(&self.findings, block);
    }
}

/// Describes findings, each with what to do about it.
pub(super) fn findings(findings: &[Finding], block: &mut Block) {
    for finding in findings {
        let style = match finding.severity {
            Severity::Ok => TextStyle::Good,
            Severity::Warn => TextStyle::Attention,
            Severity::Fail => TextStyle::Bad,
        };
        let Finding {
            code,
            severity,
            message,
            advice,
            place: _,
        } = finding;
        block
            .styled(style, severity.as_str(), &format!("{code}: {message}"))
            .field("do", advice);
    }
}

/// Spells the sum of several waits, which seldom is a whole number of a large unit; exactly below a minute.
fn sum_text(sum: Duration) -> String {
    if sum < Duration::from_secs(60) {
        duration_text(sum)
    } else {
        spelled(sum)
    }
}

/// Describes the broker's answers.
fn describe_reach(reach: &Reached, block: &mut Block) {
    let style = match reach.verdict {
        Verdict::Enough | Verdict::Numbered => TextStyle::Good,
        Verdict::Unknown | Verdict::SetsAside | Verdict::RepeatsBorne => TextStyle::Attention,
        Verdict::Repeats => TextStyle::Bad,
    };
    let (needed, set) = (reach.needed, duration_text(reach.set.0));
    let outlasts = match needed.0 {
        Horizon::Within(_) => "margin and attempts included",
        Horizon::Endless => "no window outlasts it",
        Horizon::Unknown => "the broker does not tell",
    };
    let verdict = reach.verdict.as_str();
    let mut needed = format!("{needed}, {outlasts}; set {set}: {verdict}");
    for name in &reach.accepted {
        needed.extend(["; accepted: ", &**name]);
    }
    block
        .field("redelivery", reach.redelivery)
        .field("replay", reach.replay)
        .styled(style, "needed", &needed);
    for BrokerFact {
        setting,
        value,
        meaning,
    } in &reach.facts
    {
        block.field("broker", format!("{setting} {value}: {meaning}"));
    }
    for UnreadSetting { setting, why } in &reach.unread {
        block.styled(
            TextStyle::Attention,
            "not read",
            &format!("{setting}: {why}"),
        );
    }
}

const fn style_of(protection: Protection) -> TextStyle {
    match protection {
        Protection::Protected => TextStyle::Good,
        Protection::Partial => TextStyle::Attention,
        Protection::Unprotected => TextStyle::Bad,
    }
}

fn coverage(coverage: &Coverage) -> String {
    let protection = match coverage.protection {
        Protection::Protected => "protected",
        Protection::Partial => "partial",
        Protection::Unprotected => "unprotected",
    };
    format!("{protection}: {}", coverage.why)
}

/// A store on one line.
pub(super) struct StoreText<'a>(pub(super) &'a StoreReport);

impl std::fmt::Display for StoreText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let it = self.0;
        f.write_str(&it.url)?;
        if let Some(error) = &it.error {
            return write!(f, ", not to be opened: {error}");
        }
        match it.survives.as_deref() {
            Some("nothing") => f.write_str(", forgets everything with its process")?,
            Some("kill") => f.write_str(", survives kill -9, not a power cut")?,
            Some("power-cut") => f.write_str(", survives a power cut")?,
            Some(_) => f.write_str(", survives the loss of a machine")?,
            None => {}
        }
        match it.shared {
            Some(true) if it.is_server() => f.write_str(", for any number of workers")?,
            Some(true) => f.write_str(", for several processes of this machine")?,
            Some(false) => f.write_str(", for one process")?,
            None => {}
        }
        if !it.is_there {
            f.write_str("; will be created")?;
        }
        for name in &it.accepted {
            write!(f, "; accepted: {name}")?;
        }
        Ok(())
    }
}

/// The expected size of a store on one line.
struct StorageText<'a>(&'a Storage);

impl std::fmt::Display for StorageText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let it = self.0;
        let (disk, memory) = (it.disk_bytes_per_key, it.memory_bytes_per_key);
        write!(
            f,
            "about {disk} B of disk and {memory} B of memory a key, outcomes apart"
        )?;
        if let Some(at) = &it.at_rate {
            write!(
                f,
                "; at {} new keys a second {} keys: {} of disk, {} of memory; {} after a month",
                at.keys_per_second,
                at.keys,
                bytes_text(at.disk_bytes),
                bytes_text(at.memory_bytes),
                bytes_text(at.first_month_disk_bytes),
            )?;
        }
        Ok(())
    }
}

/// The findings of a sample on one line.
struct SampleText<'a>(&'a Sample);

impl std::fmt::Display for SampleText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let it = self.0;
        let unusable: u64 = it.unusable.values().map(|unusable| unusable.count).sum();
        write!(
            f,
            "{} message{}{}: {} key{}, {} redelivered, {} published again, {} in conflict, {} \
             without a usable key",
            it.messages,
            plural(it.messages),
            if it.complete { "" } else { " (not all)" },
            it.keys,
            plural(it.keys),
            it.redelivered,
            it.republished,
            it.conflicts,
            unusable - it.without_tenant,
        )?;
        if it.without_tenant > 0 {
            write!(f, ", {} without a tenant", it.without_tenant)?;
        }
        Ok(())
    }
}

const fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}
