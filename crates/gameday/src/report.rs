//! The report that a drill ends with.

use std::fmt::Display;
use std::path::PathBuf;

use serde::Serialize;

use crate::alerts::{Alert, Alerts};

/// The report of a drill.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The drill, by its name.
    pub drill: &'static str,
    /// The pipeline whose settings were tried.
    pub pipeline: String,
    /// True if everything held and every alert is there.
    pub passed: bool,
    /// The events of the drill, in their order.
    pub happened: Vec<String>,
    /// The questions that this drill cannot answer, with where the answer is.
    pub unknown: Vec<String>,
    /// The conditions that had to hold.
    pub checks: Vec<Check>,
    /// The alerts that are to tell somebody on such a day.
    pub alerts: Vec<AlertReport>,
    /// The folder that the drill leaves behind, with the logs of its workers.
    pub dir: Option<PathBuf>,
}

/// A condition that had to hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// The condition, a clause.
    pub what: String,
    /// The finding, in figures.
    pub found: String,
    /// True if it held.
    pub passed: bool,
}

/// An alert that is to tell somebody.
#[derive(Clone, Debug, Serialize)]
pub struct AlertReport {
    /// Its name.
    pub alert: &'static str,
    /// `page` or `ticket`; `None` if the alert is missing.
    pub severity: Option<String>,
    /// The summary that it shows.
    pub summary: Option<String>,
    /// The time for which its condition has to last, as its file has it.
    pub after: Option<String>,
    /// The url of what to do.
    pub runbook: Option<String>,
    /// The sample of the worker that it asks for, or the silence.
    pub shown: Option<String>,
    /// The part that is missing; `None` if none is.
    pub missing: Option<&'static str>,
}

/// Collects a report while the drill is played.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    report: Report,
    alerts: &'a Alerts,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(drill: &'static str, pipeline: &str, alerts: &'a Alerts) -> Self {
        let report = Report {
            drill,
            pipeline: pipeline.to_owned(),
            passed: true,
            happened: Vec::new(),
            unknown: Vec::new(),
            checks: Vec::new(),
            alerts: Vec::new(),
            dir: None,
        };
        Self { report, alerts }
    }

    /// Notes what happened.
    pub(crate) fn happened(&mut self, what: impl Into<String>) {
        self.report.happened.push(what.into());
    }

    /// Notes a question that the drill cannot answer.
    pub(crate) fn unknown(&mut self, question: impl Into<String>) {
        self.report.unknown.push(question.into());
    }

    /// Notes whether something held.
    pub(crate) fn check(&mut self, what: impl Into<String>, passed: bool, found: impl Display) {
        self.report.passed &= passed;
        self.report.checks.push(Check {
            what: what.into(),
            found: found.to_string(),
            passed,
        });
    }

    /// Notes the alert that tells somebody, and `shown`, the sample that it asks for.
    pub(crate) fn alert(&mut self, name: &'static str, shown: Option<String>) {
        let family = shown.as_deref().map(family);
        self.warned(name, family.as_deref(), shown);
    }

    /// Notes the alert that tells somebody of a worker that does not answer, and `shown`, the silence.
    pub(crate) fn alert_of_silence(&mut self, name: &'static str, shown: Option<String>) {
        self.warned(name, Some("up"), shown);
    }

    fn warned(&mut self, name: &'static str, family: Option<&str>, shown: Option<String>) {
        let found = self.alerts.named(name);
        let missing = missing(found, family, shown.is_some());
        self.report.passed &= missing.is_none();
        let pipeline = &self.report.pipeline;
        self.report.alerts.push(AlertReport {
            alert: name,
            severity: found.map(|it| it.severity.clone()),
            summary: found.map(|it| it.summary_about(pipeline)),
            after: found.and_then(|it| it.after.clone()),
            runbook: found.and_then(|it| it.runbook.clone()),
            shown,
            missing,
        });
    }

    pub(crate) fn end(self) -> Report {
        self.report
    }
}

/// The name of a sample's family as it is part of the names of what is recorded of it.
fn family(sample: &str) -> String {
    let name = sample.split(['{', ' ']).next().unwrap_or_default();
    name.trim_end_matches("_total").to_owned()
}

/// The part that is missing for an alert to tell somebody of a sample of this family.
fn missing(found: Option<&Alert>, family: Option<&str>, is_shown: bool) -> Option<&'static str> {
    let Some(alert) = found else {
        return Some("the file has no alert of this name");
    };
    let runbook = alert.runbook.as_deref().unwrap_or_default();
    if runbook.is_empty() {
        return Some("it names no runbook");
    }
    if !runbook.starts_with("https://") && !runbook.starts_with("http://") {
        return Some("its runbook is no url");
    }
    if alert.summary.is_empty() {
        return Some("it has no summary");
    }
    if !matches!(&*alert.severity, "page" | "ticket") {
        return Some("its severity is neither page nor ticket");
    }
    if !is_shown {
        return Some("the worker did not show what it asks for");
    }
    let asks = family.is_some_and(|it| alert.expr.contains(it));
    (!asks).then_some("it does not ask for what the worker shows")
}
