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
    /// The conditions that had to hold.
    pub checks: Vec<Check>,
    /// The alerts that are to tell somebody on such a day.
    pub alerts: Vec<Warned>,
    /// The folder of the drill, with the logs of its workers.
    pub dir: PathBuf,
}

/// Something that had to hold.
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
pub struct Warned {
    /// Its name.
    pub alert: &'static str,
    /// `page` or `ticket`; `None` if the alert is missing.
    pub severity: Option<String>,
    /// The summary that it shows.
    pub summary: Option<String>,
    /// The url of what to do.
    pub runbook: Option<String>,
    /// The sample of the worker that it fires for, or the silence.
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
    pub(crate) fn new(
        drill: &'static str,
        pipeline: &str,
        dir: PathBuf,
        alerts: &'a Alerts,
    ) -> Self {
        let report = Report {
            drill,
            pipeline: pipeline.to_owned(),
            passed: true,
            happened: Vec::new(),
            checks: Vec::new(),
            alerts: Vec::new(),
            dir,
        };
        Self { report, alerts }
    }

    /// Notes what happened.
    pub(crate) fn happened(&mut self, what: impl Into<String>) {
        self.report.happened.push(what.into());
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

    /// Notes the alert that tells somebody, and `shown`, the sample or the silence by which it knows.
    pub(crate) fn alert(&mut self, name: &'static str, shown: Option<String>) {
        let found = self.alerts.named(name);
        let missing = Self::missing(found, shown.is_some());
        self.report.passed &= missing.is_none();
        let pipeline = &self.report.pipeline;
        self.report.alerts.push(Warned {
            alert: name,
            severity: found.map(|it| it.severity.clone()),
            summary: found.map(|it| it.summary_about(pipeline)),
            runbook: found.and_then(|it| it.runbook.clone()),
            shown,
            missing,
        });
    }

    fn missing(found: Option<&Alert>, is_shown: bool) -> Option<&'static str> {
        match found {
            None => Some("there is no such alert"),
            Some(it) if it.runbook.is_none() => Some("it names no runbook"),
            Some(it) if it.summary.trim().is_empty() => Some("it has no summary"),
            Some(it) if !matches!(&*it.severity, "page" | "ticket") => {
                Some("its severity is neither page nor ticket")
            }
            Some(_) if !is_shown => Some("the worker showed nothing that it could fire for"),
            Some(_) => None,
        }
    }

    pub(crate) fn end(self) -> Report {
        self.report
    }
}
