//! The judgement of each line, from the findings of the report and from what was observed.

pub(super) mod people;
mod places;

use semel_config::Front;
use semel_core::select::Selector;
use semel_core::units::{duration_text, spelled};
use semel_engine::effect::{Class, OnDoubt};
use semel_engine::pipeline::Fail;

use super::Observed;
use super::line::{Line, Standing, line_of};
use crate::check::finding::{Finding, Severity};
use crate::check::report::Report;
use crate::check::rules::Subject;
use crate::check::window::{Gate, Verdict};

/// Judges every line, in the order of the list.
pub(super) fn all(subject: &Subject<'_>, report: &Report, observed: &Observed<'_>) -> Vec<Line> {
    let judge = Judge { subject, report };
    vec![
        judge.owner(),
        judge.runbook(),
        judge.key(),
        judge.tenants(),
        judge.class(),
        judge.window(),
        judge.producers(),
        judge.retry(),
        judge.source(),
        judge.target(),
        judge.store(),
        judge.room(observed.room),
        judge.alerts(observed.scrape),
        judge.set_aside(observed),
        judge.backup(),
    ]
}

struct Judge<'j> {
    subject: &'j Subject<'j>,
    report: &'j Report,
}

impl Judge<'_> {
    /// Returns the findings of a line.
    fn findings(&self, line: &'static str) -> impl Iterator<Item = &Finding> {
        let findings = self.report.findings.iter();
        findings.filter(move |finding| line_of(finding) == Some(line))
    }

    fn found(&self, line: &'static str) -> Option<Line> {
        Line::of_findings(line, self.findings(line))
    }

    /// Judges whether the key is one, in the configuration and in real messages.
    fn key(&self) -> Line {
        let key = self.report.key.join(" + ");
        if let Some(found) = self.found("key") {
            return found.after(&key);
        }
        match &self.report.sample {
            Some(sample) => Line::pass(
                "key",
                format!(
                    "{key}; of {} captured messages each has one, and none comes with two contents",
                    sample.messages
                ),
            ),
            None => Line::unknown(
                "key",
                format!("{key}; whether real messages have it was not looked at"),
                "capture some, and give them to --sample FILE",
            ),
        }
    }

    /// Judges whether two customers may use one key for two things: nobody knows, unless a part of the key says by
    /// its name that it tells them apart.
    fn tenants(&self) -> Line {
        let key = self.report.key.join(" + ");
        if let Some(tenant) = &self.subject.pipeline.pipeline.tenant {
            let why = format!("{key}; {tenant} is the tenant, and tells customers apart");
            return Line::pass("tenants", why);
        }
        let selectors = self.subject.pipeline.pipeline.key.selectors();
        if let (2.., Some(tenant)) = (selectors.len(), selectors.iter().find(|it| is_tenant(it))) {
            return Line::pass(
                "tenants",
                format!("{key}; {tenant} tells customers apart, by its name"),
            );
        }
        let advice = "if they can, say what tells them apart: `tenant = \"json:/tenant\"`";
        let why = format!("{key}; whether two customers can use the same is yours to say");
        Line::unknown("tenants", why, advice)
    }

    /// Judges whether the class is the truth about the effect; names every weakness that is accepted.
    fn class(&self) -> Line {
        let Report {
            class, guarantee, ..
        } = self.report;
        let accepted = self.accepted();
        let accepted = match &*accepted {
            [] => String::new(),
            accepted => format!("; accepted: {}", accepted.join(", ")),
        };
        let why = format!("{class}: {guarantee}{accepted}");
        let breaks = self.report.findings.iter().find(|finding| {
            finding.severity == Severity::Fail && BREAKS_THE_PROMISE.contains(&&*finding.code)
        });
        if let Some(Finding { code, advice, .. }) = breaks {
            let mut line = Line::fail(
                "class",
                format!("{why}; that does not hold here: {code}"),
                advice,
            );
            line.findings.push(code.clone());
            return line;
        }
        if let Some(found) = self.found("class") {
            return found.after(&why);
        }
        match self.subject.pipeline.effect.class() {
            Class::Keyed { .. } => Line::unknown(
                "class",
                format!("{why}; {}", self.report.coverage.why),
                "ask the provider for how long, and try it: send one request twice",
            ),
            Class::Unkeyed(on_doubt) => Line::unknown(
                "class",
                format!("{why}; {}", self.report.coverage.why),
                match on_doubt {
                    OnDoubt::Park => {
                        "say who decides about doubts, and whether the effect bears that one was lost; if not, use \
                         a class that promises more"
                    }
                    OnDoubt::Repeat => {
                        "say whether the effect bears a repeat; if not, use a class that promises more, or \
                         `on_doubt = \"park\"`"
                    }
                },
            ),
            Class::Transactional | Class::Streamed => Line::pass("class", why),
        }
    }

    /// Returns the names of the weaknesses that the configuration accepts.
    fn accepted(&self) -> Vec<String> {
        let (settings, pipeline) = (self.subject.settings, self.subject.pipeline);
        let names = settings.accepted.names().into_iter();
        let names = names.chain(pipeline.waived.names());
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        if pipeline.layers.fail == Fail::Open {
            names.push("fail = \"open\"".to_owned());
        }
        if matches!(pipeline.layers.front, Front::Approximate(_)) {
            names.push("approximate".to_owned());
        }
        names
    }

    /// Judges whether the window outlasts what the broker does by itself, or is told to.
    fn window(&self) -> Line {
        let set = duration_text(self.report.window.0);
        let judged = self.subject.broker.judgement(self.subject.pipeline);
        if let Some(mut found) = self.found("window") {
            if judged.is_some_and(|(_, judgement)| judgement.is_accepted) {
                found.verdict = Standing::Pass;
                found.advice = None;
            }
            return found;
        }
        match (judged, &self.report.reach) {
            (Some((_, judgement)), Some(reach)) if judgement.verdict == Verdict::Enough => {
                Line::pass(
                    "window",
                    format!(
                        "{set}; {} are needed, margin and attempts included",
                        reach.needed
                    ),
                )
            }
            _ if self.subject.broker.horizons.is_err() => Line::unknown(
                "window",
                format!("{set}; the broker could not be asked"),
                "see the line `source`, then check again",
            ),
            _ if self.report.age_gate == Gate::Off => Line::unknown(
                "window",
                format!("{set}; there is no broker: what is read again after that counts as new"),
                "read it again within the window, or name `birth`",
            ),
            _ => Line::pass(
                "window",
                format!("{set}; there is no broker, and what is older is set aside, not repeated"),
            ),
        }
    }

    /// Judges whether what producers publish again, and what people send again, lies inside the window.
    fn producers(&self) -> Line {
        if let Some(found) = self.found("producers") {
            return found;
        }
        let window = duration_text(self.report.window.0);
        match (self.report.age_gate, &self.report.birth) {
            (Gate::Birth, Some(birth)) => self.birth(birth, &window),
            (Gate::Birth | Gate::Appended | Gate::Off, _) => Line::unknown(
                "producers",
                format!(
                    "what is published again is a new message to the broker, and past {window} it counts as new; \
                     for how long producers retry is not seen from here"
                ),
                "ask them: their retries and your replays must lie inside the window",
            ),
        }
    }

    /// Judges whether real messages have the birth by which the age gate goes.
    fn birth(&self, birth: &str, window: &str) -> Line {
        let kept = format!(
            "what is published again keeps its birth, {birth}; past {window} it is set aside, not repeated"
        );
        let Some(sample) = &self.report.sample else {
            return Line::unknown(
                "producers",
                format!("{kept}; whether real messages have it was not looked at"),
                "capture some, and give them to --sample FILE",
            );
        };
        let without = ["birth-missing", "birth-invalid"].map(|code| {
            let unusable = sample.unusable.get(code);
            unusable.map_or(0, |it| it.count)
        });
        match without.iter().sum() {
            0 => Line::pass("producers", kept),
            count => Line::fail(
                "producers",
                format!(
                    "{count} of {} captured messages have no usable birth, {birth}, and would be quarantined",
                    sample.messages
                ),
                "correct `birth`, or the producer",
            ),
        }
    }

    /// Judges whether all attempts fit their lease, the window, the provider and the broker.
    fn retry(&self) -> Line {
        if let Some(found) = self.found("retry") {
            return found;
        }
        let retry = &self.report.retry;
        let longest = spelled(retry.longest.0);
        let window = duration_text(self.report.window.0);
        let call = self.report.timeout.map(|timeout| {
            let (timeout, lease) = (timeout.0, self.report.lease.0);
            let [timeout, lease] = [timeout, lease].map(duration_text);
            format!("; a call takes {timeout} at most, and the lease is {lease}")
        });
        let call = call.unwrap_or_default();
        let why = format!(
            "{} attempts take {longest} at most, within the window of {window}{call}",
            retry.attempts
        );
        Line::pass("retry", why)
    }
}

/// Tells whether the last name of a selector, as in `json:/order/tenant_id` or `header:X-Tenant`, says that it is a
/// tenant.
fn is_tenant(selector: &Selector) -> bool {
    let text = match selector {
        Selector::Json(pointer) => pointer.to_string(),
        Selector::Header(name) => name.to_string(),
        Selector::Field(_)
        | Selector::Line
        | Selector::Coordinates
        | Selector::CloudEvents
        | Selector::Hash => return false,
    };
    let last = text.rsplit('/').next().unwrap_or_default();
    last.to_ascii_lowercase().contains("tenant")
}

/// The findings with which the promise of a class does not hold.
const BREAKS_THE_PROMISE: &[&str] = &["store-durability", "store-volatile", "window-too-short"];
