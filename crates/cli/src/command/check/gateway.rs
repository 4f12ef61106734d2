//! Prints the reports of the routes of a gateway.

use semel_check::ProductionLook;
use semel_config::Settings;
use semel_core::{Error, Result};
use semel_operate::check::{Inspection, Production, RouteReport, Severity, Standing};

use crate::output::Answers;

/// Looks at the routes, if there is a gateway; returns the worst finding. With the list before production, it goes through
/// that instead.
pub(super) fn look(
    settings: &Settings,
    store: Result<&Inspection, &Error>,
    before_production: Option<&ProductionLook>,
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
