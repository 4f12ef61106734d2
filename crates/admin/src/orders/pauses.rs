//! Plans of orders that pause pipelines and relays, or let them run again. Both have one namespace.

use axum::http::StatusCode;
use semel_core::{AnyStore, Code, Timestamp};
use semel_http::Problem;
use semel_operate::order::Left;
use semel_operate::pipelines::{OrderedPause, PipelineOrder, ordered_pauses};

use super::plan::{Change, Digest, Plan, Work};
use crate::reading::{Reading, later};
use crate::relay_letters::at;
use crate::settings::{OrderStore, RelayPlace, Settings};

/// The names that an order is about, with the one store that has the orders about all of them.
struct Place<'a> {
    store: AnyStore,
    names: Vec<&'a str>,
    is_of_relays: bool,
}

/// Makes the plan of an order about what has these names.
///
/// # Errors
///
/// Those of [`Reading::within`]; 501, or that of the store: the one beside the outbox of a relay is not open
pub(super) async fn plan(
    reading: &Reading,
    settings: &Settings,
    order: PipelineOrder,
    names: &[String],
    at: Timestamp,
) -> Result<Plan, Problem> {
    let (places, mut left) = places(reading, settings, names)?;
    let (mut all, mut changes, mut digest) = (Vec::new(), Vec::new(), Digest::default());
    for Place {
        store,
        names,
        is_of_relays,
    } in places
    {
        let standing = reading.within(ordered_pauses(&store, &names)).await?;
        for (name, before) in names.into_iter().zip(standing) {
            let planned = match order.plan(name, before, at) {
                Ok(planned) if is_of_relays => planned.of_relay(),
                Ok(planned) => planned,
                Err(why) => {
                    left.push(Left::pipeline(name, why).already());
                    continue;
                }
            };
            let since = planned.before.as_ref().map(since);
            digest.text(&format!("{name} {} {since:?}", order.as_str()));
            changes.push(Change::Pipeline(planned.change()));
            all.push((planned, store.clone()));
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

/// Finds the store of each name, and the names that nothing has.
fn places<'a>(
    reading: &Reading,
    settings: &Settings,
    names: &'a [String],
) -> Result<(Vec<Place<'a>>, Vec<Left>), Problem> {
    let (mut places, mut left) = (Vec::new(), Vec::new());
    let is_pipeline = |name: &str| {
        let mut pipelines = settings.pipelines.iter();
        pipelines.any(|it| &*it.pipeline.name == name)
    };
    let mut pipelines = Vec::new();
    for name in names {
        if is_pipeline(name) {
            pipelines.push(name.as_str());
            continue;
        }
        let mut relays = settings.relays.iter();
        let Some(relay) = relays.find(|it| *it.name == **name) else {
            left.push(Left::pipeline(
                name,
                "the worker has no such pipeline, and no such relay",
            ));
            continue;
        };
        places.push(Place {
            store: store_of(reading, relay)?,
            names: vec![name],
            is_of_relays: true,
        });
    }
    if !pipelines.is_empty() {
        let place = Place {
            store: reading.store.clone(),
            names: pipelines,
            is_of_relays: false,
        };
        places.insert(0, place);
    }
    Ok((places, left))
}

/// Returns the store that has the orders about a relay.
///
/// # Errors
///
/// The reason why it is not open. Whoever asks changed nothing.
fn store_of(reading: &Reading, relay: &RelayPlace) -> Result<AnyStore, Problem> {
    let Some(elsewhere) = &relay.elsewhere else {
        return Ok(reading.store.clone());
    };
    let name = &relay.name;
    let found = elsewhere.borrow().clone();
    match found {
        OrderStore::Open(store) => Ok(store),
        OrderStore::Unseen => {
            let detail = format!("relay {name}: its database was not looked at yet; ask again");
            let problem = later(Code::StoreUnavailable.as_str(), detail);
            Err(problem.with("certainty", "not_applied"))
        }
        OrderStore::Absent => {
            let detail = format!(
                "relay {name}: its database has no store, which would keep the order beside the outbox; \
                 `semel store migrate --yes` makes it"
            );
            let (status, code) = (StatusCode::NOT_IMPLEMENTED, Code::StoreUnavailable.as_str());
            Err(Problem::new(status, code, detail).with("certainty", "not_applied"))
        }
        OrderStore::Failed(error) => Err(Problem::from(&at(relay, error.not_applied()))),
    }
}

fn since(before: &OrderedPause) -> (&'static str, u64) {
    (before.kind.as_str(), before.since.as_millis())
}
