//! Makes plans: finds what an order is about, and asks [`semel_operate`] what would become of it.

use semel_core::decide::{self, Directed, Order as KeyOrder, Verdict};
use semel_core::{Record, StateKind, Timestamp};
use semel_http::Problem;
use semel_operate::in_doubt::{Case, Doubt, Resolved, Word};
use semel_operate::keys::{Changed, KeyChange, Planned, Proposal, Seen};
use semel_operate::order::Left;
use semel_operate::store::SweepForecast;

use super::execution::no_trail;
use super::lookup::{Doubts, doubts, left_by, named, refuse_streamed};
use super::plan::{Change, Digest, Plan, Work, snapshot};
use super::request::Order;
use super::selection::Selection;
use super::{Bounds, extension_plan, letter_plan, messages, pauses, producing, rerun};
use crate::keys::declared;
use crate::query::invalid;
use crate::reading::Reading;
use crate::settings::Settings;

/// Makes the plan of an order, within these bounds.
///
/// # Errors
///
/// Those of [`Reading::within`]; 400: a key or an id means several things; 501: the records are in no store
pub(super) async fn plan(
    reading: &Reading,
    settings: &Settings,
    order: &Order,
    bounds: Bounds,
) -> Result<Plan, Problem> {
    match order {
        Order::Resolve(word, selection) => {
            resolve(reading, settings, word, selection, bounds).await
        }
        Order::Change(change, selection) => {
            change_keys(reading, settings, *change, selection, bounds.at).await
        }
        Order::ExtendAll(window, within) => {
            extension_plan::plan(reading, settings, (*window, within), bounds.at).await
        }
        Order::Drop(kind, selection) => messages::drop(reading, *kind, selection, bounds).await,
        Order::Rerun(kind, selection, key) => {
            rerun::plan(reading, settings, (*kind, key.as_ref()), selection, bounds).await
        }
        Order::Letters(order, selection) => {
            letter_plan::plan(reading, settings, *order, selection, bounds).await
        }
        Order::Sweep => sweep(reading, bounds.at).await,
        Order::Pipelines(order, names) => {
            pauses::plan(reading, settings, *order, names, bounds.at).await
        }
        Order::Producers(order, names, side) => {
            producing::plan(reading, settings, *order, (names, *side), bounds.at).await
        }
    }
}

async fn resolve(
    reading: &Reading,
    settings: &Settings,
    word: &Word,
    selection: &Selection,
    bounds: Bounds,
) -> Result<Plan, Problem> {
    let waits = |doubt: &Doubt| {
        let pipeline = declared(settings).pipeline_of(&doubt.operation.scope);
        word.waits(doubt, pipeline, bounds.at)
    };
    let Doubts {
        found,
        mut left,
        is_whole,
        until,
    } = doubts(reading, settings, selection, bounds, waits).await?;
    let (mut cases, mut changes, mut digest) = (Vec::new(), Vec::new(), Digest::default());
    for doubt in found {
        let pipeline = declared(settings).pipeline_of(&doubt.operation.scope);
        if let Some(limit) = word.exceeds(pipeline) {
            let detail = format!(
                "this has more than the {limit} bytes that `{}` keeps of an outcome; no duplicate would get it",
                doubt.operation.scope.operation()
            );
            return Err(invalid("outcome", detail));
        }
        let case = Case::new(doubt, word, pipeline);
        if let Some(obstacle) = case.obstacle(bounds.at) {
            left.push(left_by(&case.doubt().operation, obstacle, bounds.at));
            continue;
        }
        let doubt = case.doubt();
        let leads_to = case.leads_to();
        // With what the configuration says of it; the outcome itself is a part of the order.
        let terms = match case.verdict() {
            Verdict::Applied { window, .. } | Verdict::Abandon { window } => format!("{window:?}"),
            Verdict::NotApplied { quiet, .. } => format!("{quiet:?}"),
        };
        let word = format!("{leads_to} {terms} {}", case.message().as_str());
        digest.record(&doubt.operation, &doubt.record, &word);
        changes.push(Change::Resolved(Resolved::of(&case)));
        cases.push(case);
    }
    Ok(Plan {
        at: bounds.at,
        until,
        changes,
        left,
        is_whole,
        digest: digest.finish(),
        work: Work::Cases(cases),
    })
}

async fn change_keys(
    reading: &Reading,
    settings: &Settings,
    change: KeyChange,
    selection: &Selection,
    at: Timestamp,
) -> Result<Plan, Problem> {
    refuse_streamed(settings, &selection.within)?;
    let (known, mut left) = named(reading, settings, selection, None).await?;
    // As it stands now, not when it was planned: what has ended by itself meanwhile, or by this very plan, is not to be
    // ended once more.
    let now = settings.clock.now();
    let (mut all, mut changes, mut digest) = (Vec::new(), Vec::new(), Digest::default());
    for (operation, record) in known {
        let seen = Seen {
            operation: &operation,
            record: &record,
            now,
            is_left_alone: false,
            arrival: declared(settings).arrival_of(&operation.scope),
        };
        match change.propose(seen) {
            Proposal::Do { order, remark } => {
                digest.record(&operation, &record, order.action());
                let planned = Planned::new(operation, &record, order);
                let after = foretold(&record, &planned.order, now);
                changes.push(Change::Key {
                    changed: Changed::of(&planned, after),
                    remark,
                });
                all.push((planned, snapshot(&record)));
            }
            Proposal::Already { why } => left.push(Left::of(&operation, why, None).already()),
            Proposal::Refuse { advice } => {
                left.push(Left::of(&operation, advice.text, advice.action));
            }
        }
    }
    Ok(Plan::of_names(
        at,
        changes,
        left,
        digest.finish(),
        Work::Orders(all),
    ))
}

/// The state to which an order leads.
fn foretold(record: &Record, order: &KeyOrder, at: Timestamp) -> Option<StateKind> {
    match decide::operate(Some(record), None, order, at).answer {
        Directed::Now(state) => state,
        Directed::Refused(_) | Directed::Failed(_) => Some(record.state.kind()),
    }
}

async fn sweep(reading: &Reading, at: Timestamp) -> Result<Plan, Problem> {
    if !reading.has_trail {
        return Err(no_trail());
    }
    let removed = reading.within(SweepForecast::estimate(&reading.store));
    let removed = removed.await?;
    // How many there are changes from moment to moment; what a sweep does, does not.
    let digest = Digest::default();
    Ok(Plan {
        at,
        until: None,
        changes: vec![Change::Forecast { removed }],
        left: Vec::new(),
        is_whole: true,
        digest: digest.finish(),
        work: Work::Sweep(removed),
    })
}
