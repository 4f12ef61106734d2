//! Looks up what orders are about: doubts, and the records of keys or ids.

use std::collections::{BTreeMap, BTreeSet};

use axum::http::StatusCode;
use semel_core::port::store::{ListQuery, Store};
use semel_core::{Code, Key, OpId, Operation, Record, StateKind, Timestamp};
use semel_http::Problem;
use semel_operate::in_doubt::{Doubt, Obstacle, for_each_doubt, mark_messages, with_message};
use semel_operate::keys::{Places, candidates, of_keys, since};
use semel_operate::order::BATCH;
use semel_operate::relative_time::when;
use semel_worker::settings::EffectSettings;

use super::selection::{Selection, Which};
use super::{Bounds, MOST_CHANGES};
use crate::keys::{declared, one};
use crate::reading::Reading;
use crate::settings::Settings;
use semel_operate::order::Left;

/// The doubts that an order is about.
pub(super) struct Doubts {
    pub(super) found: Vec<Doubt>,
    /// The names that nothing has.
    pub(super) left: Vec<Left>,
    /// False if there are more.
    pub(super) is_whole: bool,
    /// The latest time at which one of them began, where all are meant.
    pub(super) until: Option<Timestamp>,
}

/// Finds the doubts that an order is about. Where all are meant, those that it `leaves` take no place of the others.
pub(super) async fn doubts(
    reading: &Reading,
    settings: &Settings,
    selection: &Selection,
    bounds: Bounds,
    leaves: impl Fn(&Doubt) -> bool + Send + Sync,
) -> Result<Doubts, Problem> {
    refuse_streamed(settings, &selection.within)?;
    let (mut is_whole, mut until) = (true, None);
    let (mut found, left): (Vec<Doubt>, Vec<Left>) = match &selection.which {
        Which::All {
            older_than,
            reason_like,
        } => {
            let before = bounds.until.or(older_than.map(|age| bounds.at.minus(age)));
            let within = selection.within.clone();
            let like = reason_like.as_deref();
            // Those that wait the longest come first, and it does not matter how the store lists them.
            let (mut open, mut left) = (BTreeMap::new(), BTreeMap::new());
            let visit = |doubt: Doubt| {
                let is_left = leaves(&doubt);
                let doubts = if is_left { &mut left } else { &mut open };
                doubts.insert((since(&doubt.record), doubt.operation.id()), doubt);
                if doubts.len() > MOST_CHANGES {
                    doubts.pop_last();
                    is_whole = is_whole && is_left;
                }
            };
            let doubts = for_each_doubt(&reading.store, within, before, like, visit);
            reading.within(doubts).await?;
            until = open.last_key_value().map(|((since, _), _)| *since);
            let all = open.into_values().chain(left.into_values());
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
    Ok(Doubts {
        found,
        left,
        is_whole,
        until,
    })
}

pub(super) fn left_by(operation: &Operation, obstacle: Obstacle, now: Timestamp) -> Left {
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

/// Finds the records that are named; of ids only those in `state`, if one is meant, and those whose message is still
/// kept for a doubt. Returns what is not there, too.
pub(super) async fn named(
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
pub(super) fn refuse_streamed(settings: &Settings, within: &ListQuery) -> Result<(), Problem> {
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

const UNKNOWN_KEY: &str = "nothing is on record under this key";
const UNKNOWN_DOUBT: &str = "nothing in doubt has this operation id";
const UNKNOWN_ID: &str = "nothing on record has this operation id";
