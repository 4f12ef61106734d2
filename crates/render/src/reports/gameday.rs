//! Drills: what happened, what held, and who would have been told.

use semel_gameday::Report;
use serde::Serialize;

use crate::{Answer, Block, TextStyle};

/// The report of a drill, as it is printed.
#[derive(Serialize)]
#[serde(transparent)]
pub struct DrillReport(pub Report);

impl Answer for DrillReport {
    fn describe(&self, block: &mut Block) {
        let report = &self.0;
        let verdict = match (report.passed, report.unknown.is_empty()) {
            (true, true) => "passed",
            (true, false) => "passed, as far as it goes",
            (false, _) => "failed",
        };
        block.heading(&format!(
            "{} ({}): {verdict}",
            report.drill, report.pipeline
        ));
        for step in &report.happened {
            block.field("then", step);
        }
        for question in &report.unknown {
            block.styled(TextStyle::Attention, "unknown", question);
        }
        for check in &report.checks {
            let (style, label) = if check.passed {
                (TextStyle::Good, "ok")
            } else {
                (TextStyle::Bad, "fail")
            };
            block.styled(style, label, &format!("{}: {}", check.what, check.found));
        }
        for alert in &report.alerts {
            let severity = alert.severity.as_deref().unwrap_or("missing");
            let style = if alert.missing.is_none() {
                TextStyle::Plain
            } else {
                TextStyle::Bad
            };
            let after = alert.after.as_deref();
            let after = after.map_or_else(String::new, |it| format!(", after {it}"));
            let named = format!("{} ({severity}{after})", alert.alert);
            block
                .styled(style, "alert", &named)
                .some("missing", alert.missing)
                .some("says", alert.summary.as_deref())
                .some("because", alert.shown.as_deref())
                .some("runbook", alert.runbook.as_deref());
        }
    }
}
