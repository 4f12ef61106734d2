//! Prints the reports of the routes of a gateway.

use semel_config::Settings;
use semel_core::units::duration_text;
use semel_core::{Error, Result};
use semel_operate::check::{Inspection, Production, RouteReport, Severity, Standing};

use super::production::Look;
use super::report::{StoreText, findings};
use crate::output::{Answer, Answers, Block};

/// Looks at the routes, if there is a gateway; returns the worst finding. With the list before production, it goes through
/// that instead.
pub(super) fn look(
    settings: &Settings,
    store: Result<&Inspection, &Error>,
    before_production: Option<&Look>,
    answers: &mut Answers,
) -> Result<Severity> {
    let mut worst = Severity::Ok;
    for report in RouteReport::all(settings, store) {
        let printed = if let Some(look) = before_production {
            let list = Production::of_route(&report, settings, look.scrape());
            if list.verdict == Standing::Fail {
                worst = Severity::Fail;
            }
            answers.print(&list)?
        } else {
            worst = worst.max(report.verdict);
            answers.print(&report)?
        };
        if printed.is_break() {
            break;
        }
    }
    Ok(worst)
}

impl Answer for RouteReport {
    fn describe(&self, block: &mut Block) {
        let upstreams = self.upstreams.join(", ");
        block
            .heading(&format!("{}: {}", self.title, self.verdict.as_str()))
            .field("serves", format!("{} before {upstreams}", self.gateway))
            .field("guards", self.methods.join(", "))
            .field("class", format!("{}: {}", self.class, self.guarantee))
            .field("doubt", &self.doubt)
            .field("unprotected", self.unprotected.join("; "))
            .field("key", self.key)
            .field("operation", &self.operation)
            .some("tenant", self.tenant.as_ref())
            .field("fingerprint", self.fingerprint.join(" + "))
            .field("store", StoreText(&self.store))
            .field("outcomes", &self.outcomes)
            .field("window", duration_text(self.window.0))
            .field(
                "times",
                format!(
                    "waits {} for the first request; an answer may take {}; lease {}",
                    duration_text(self.wait.0),
                    duration_text(self.timeout.0),
                    duration_text(self.lease.0)
                ),
            );
        findings(&self.findings, block);
    }
}
