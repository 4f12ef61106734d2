//! Prints the reports of relays and of producers, each when it is there, until nobody reads any more.

use semel_check::StoreProducers;
use semel_config::{Settings, StoreUrl};
use semel_core::{Error, Result, Timestamp};
use semel_operate::check::Severity;

use crate::output::Answers;

/// Looks at relay by relay; returns the worst finding, and the failure of a server that was not reached. One whose report
/// nobody would read is neither asked nor counted.
pub(super) async fn relays(
    settings: &Settings,
    answers: &mut Answers,
) -> Result<(Severity, Option<Error>)> {
    let (mut worst, mut away) = (Severity::Ok, None);
    for relay in &settings.relays {
        let (report, failure) = semel_check::relay(settings, relay).await;
        away = away.or(failure);
        worst = worst.max(report.verdict);
        if answers.print(&report)?.is_break() {
            break;
        }
    }
    Ok((worst, away))
}

/// Looks at producer by producer of a store, those whose messages wait; returns the worst finding, and the first failure of
/// the journal. One whose report nobody would read is neither asked nor counted.
pub(super) async fn producers(
    store: &StoreUrl,
    now: Timestamp,
    answers: &mut Answers,
) -> Result<(Severity, Option<Error>)> {
    let (mut worst, mut failure) = (Severity::Ok, None);
    let producers = match StoreProducers::list(store).await {
        Ok(Some(producers)) => producers,
        Ok(None) => return Ok((worst, None)),
        Err(error) => return Ok((worst, Some(error))),
    };
    for entry in &producers.entries {
        let report = match producers.report(entry, now).await {
            Ok(Some(report)) => report,
            Ok(None) => continue,
            Err(error) => {
                failure.get_or_insert(error);
                continue;
            }
        };
        worst = worst.max(report.verdict);
        if answers.print(&report)?.is_break() {
            break;
        }
    }
    Ok((worst, failure))
}
