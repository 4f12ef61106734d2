//! Makes plans: finds what an order is about, and asks [`semel_operate`] what would become of it.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use semel_core::decide::{self, Directed, Order as KeyOrder, Verdict};
use semel_core::port::store::{ListQuery, Store};
use semel_core::{Code, Key, OpId, Operation, Record, StateKind, Timestamp};
use semel_http::Problem;
use semel_operate::in_doubt::{
    Case, Doubt, Obstacle, Resolved, Word, for_each_doubt, mark_messages, with_message,
};
use semel_operate::keys::{
    Changed, KeyChange, Places, Planned, Proposal, Seen, candidates, of_keys, since,
};
use semel_operate::order::BATCH;
use semel_operate::pipelines::{PipelineOrder, ordered_pauses};
use semel_operate::relative_time::when;
use semel_operate::store::SweepForecast;
use semel_worker::settings::EffectSettings;

use super::execution::no_trail;
use super::plan::{Change, Digest, Left, Plan, Work, snapshot};
use super::request::Order;
use super::selection::{Selection, Which};
use super::{Bounds, MOST_CHANGES, messages};
use crate::keys::{declared, one};
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
        Order::Drop(kind, selection) => messages::drop(reading, *kind, selection, bounds).await,
        Order::Sweep => sweep(reading, bounds.at).await,
        Order::Pipelines(order, names) => {
            pipelines(reading, settings, *order, names, bounds.at).await
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
    refuse_streamed(settings, &selection.within)?;
    let (mut is_whole, mut until) = (true, None);
    let (mut found, mut left): (Vec<Doubt>, Vec<Left>) = match &selection.which {
        Which::All {
            older_than,
            reason_like,
        } => {
            let before = bounds.until.or(older_than.map(|age| bounds.at.minus(age)));
            let within = selection.within.clone();
            let like = reason_like.as_deref();
            // Those that wait the longest come first, and it does not matter how the store lists them. Those that have
            // to wait take no place of theirs.
            let (mut open, mut waiting) = (BTreeMap::new(), BTreeMap::new());
            let visit = |doubt: Doubt| {
                let pipeline = declared(settings).pipeline_of(&doubt.operation.scope);
                let waits = word.waits(&doubt, pipeline, bounds.at);
                let doubts = if waits { &mut waiting } else { &mut open };
                doubts.insert((since(&doubt.record), doubt.operation.id()), doubt);
                if doubts.len() > MOST_CHANGES {
                    doubts.pop_last();
                    is_whole = is_whole && waits;
                }
            };
            let doubts = for_each_doubt(&reading.store, within, before, like, visit);
            reading.within(doubts).await?;
            until = open.last_key_value().map(|((since, _), _)| *since);
            let all = open.into_values().chain(waiting.into_values());
            (all.collect(), Vec::new())
        }
        Which::Keys(_) | Which::Ids(_) => {
            let state = Some(StateKind::InDoubt);
            let (known, left) = named(reading, settings, selection, state).await?;
            let doubt = |(operation, record)| Doubt {
                operation,
                record,
                has_message: false,
            };
            (known.into_iter().map(doubt).collect(), left)
        }
    };
    reading
        .within(mark_messages(&reading.store, &mut found))
        .await?;
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

fn left_by(operation: &Operation, obstacle: Obstacle, now: Timestamp) -> Left {
    match obstacle {
        Obstacle::NotQuiet { until } => {
            let why = format!(
                "its call can still land until {}; ask again then",
                when(until, now)
            );
            Left::of(operation, why, None)
        }
        Obstacle::NotInDoubt { state, next } => {
            let state = state.as_str().replace('_', " ");
            let why = format!("it is not in doubt but {state}");
            Left::of(operation, why, Some(next))
        }
        Obstacle::Unretried { why, next } => Left::of(operation, why, Some(next)),
    }
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
            Proposal::Already { why } => left.push(Left::of(&operation, why, None)),
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

/// Finds the records that are named; of ids only those in `state`, if one is meant, and those whose message is still
/// kept for a doubt. Returns what is not there, too.
async fn named(
    reading: &Reading,
    settings: &Settings,
    selection: &Selection,
    state: Option<StateKind>,
) -> Result<(Vec<(Operation, Record)>, Vec<Left>), Problem> {
    let (mut known, mut left) = (Vec::new(), Vec::new());
    match &selection.which {
        Which::Keys(keys) => {
            let places = declared(settings).places(selection.within.clone());
            let few = (BATCH / places.scopes.len().max(1)).max(1);
            for keys in keys.chunks(few) {
                let found = reading.within(of_keys(&reading.store, &places, keys));
                for (key, found) in keys.iter().zip(found.await?) {
                    match one(found)? {
                        Some(record) => known.push(record),
                        None => left.push(Left::key(key.as_str(), UNKNOWN_KEY)),
                    }
                }
            }
        }
        Which::Ids(ids) => {
            let places = Places {
                within: ListQuery {
                    state,
                    ..selection.within.clone()
                },
                ..Places::default()
            };
            let keys = ids.iter().filter_map(|id| Key::parse(id).ok());
            let keys: Vec<_> = keys.collect();
            let store = &reading.store;
            let found = candidates(store, &places, &keys, |operations| store.get(operations));
            let found = reading.within(found).await?.into_iter();
            let found = found.flat_map(|it| it.known);
            let mut found: BTreeMap<_, _> = found.map(|it| (it.0.id().to_string(), it)).collect();
            let lost = ids.iter().filter(|id| !found.contains_key(*id));
            let lost: BTreeSet<OpId> = lost.filter_map(|id| id.parse().ok()).collect();
            if state.is_some() && !lost.is_empty() {
                let within = selection.within.clone();
                let left_over = reading.within(with_message(store, within, &lost)).await?;
                found.extend(left_over.into_iter().map(|it| (it.0.id().to_string(), it)));
            }
            for id in ids {
                match found.remove(id) {
                    Some(record) => known.push(record),
                    None if state.is_some() => left.push(Left::id(id, UNKNOWN_DOUBT)),
                    None => left.push(Left::id(id, UNKNOWN_ID)),
                }
            }
        }
        Which::All { .. } => {}
    }
    Ok((known, left))
}

/// Refuses an order about a pipeline whose records are not in the store.
fn refuse_streamed(settings: &Settings, within: &ListQuery) -> Result<(), Problem> {
    let name = within.operation.as_deref();
    let is_streamed = settings.pipelines.iter().any(|it| {
        name == Some(&it.pipeline.name) && matches!(it.effect, EffectSettings::Streamed(_))
    });
    if !is_streamed {
        return Ok(());
    }
    let detail = "the pipeline is streamed: what was done is in its changelog, which only its workers write and nothing \
                  is taken from before its time";
    let status = StatusCode::NOT_IMPLEMENTED;
    Err(Problem::new(status, Code::Unsupported.as_str(), detail))
}

async fn pipelines(
    reading: &Reading,
    settings: &Settings,
    order: PipelineOrder,
    names: &[String],
    at: Timestamp,
) -> Result<Plan, Problem> {
    let is_known = |name: &str| {
        settings
            .pipelines
            .iter()
            .any(|it| &*it.pipeline.name == name)
    };
    let (names, unknown): (Vec<_>, Vec<_>) = names.iter().partition(|it| is_known(it));
    let unknown = unknown.into_iter();
    let mut left: Vec<_> = unknown
        .map(|name| Left::pipeline(name, "the worker has no such pipeline"))
        .collect();
    let standing = reading.within(ordered_pauses(&reading.store, &names));
    let (mut all, mut changes, mut digest) = (Vec::new(), Vec::new(), Digest::default());
    for (name, before) in names.iter().zip(standing.await?) {
        match order.plan(name, before, at) {
            Ok(planned) => {
                let before = planned.before.as_ref();
                let since = before.map(|it| (it.kind.as_str(), it.since.as_millis()));
                digest.text(&format!("{name} {} {since:?}", order.as_str()));
                changes.push(Change::Pipeline(planned.change()));
                all.push(planned);
            }
            Err(why) => left.push(Left::pipeline(name, why)),
        }
    }
    Ok(Plan::of_names(
        at,
        changes,
        left,
        digest.finish(),
        Work::Pipelines(all),
    ))
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

const UNKNOWN_KEY: &str = "nothing is on record under this key";
const UNKNOWN_DOUBT: &str = "nothing in doubt has this operation id";
const UNKNOWN_ID: &str = "nothing on record has this operation id";
