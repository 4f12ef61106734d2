//! Plans of orders that pause pipelines and relays, or let them run again. Both have one namespace.

use semel_core::{AnyStore, Timestamp};
use semel_http::Problem;
use semel_operate::order::Left;
use semel_operate::pipelines::{OrderedPause, PipelineOrder, ordered_pauses};

use super::plan::{Change, Digest, Plan, Work};
use crate::reading::Reading;
use crate::settings::Settings;

/// The names that an order is about, with the one store that has the orders about all of them.
struct Place<'a> {
    store: AnyStore,
    names: Vec<&'a str>,
    is_of_relays: bool,
}

/// Makes the plan of an order about what has these names.
pub(super) async fn plan(
    reading: &Reading,
    settings: &Settings,
    order: PipelineOrder,
    names: &[String],
    at: Timestamp,
) -> Result<Plan, Problem> {
    let (places, mut left) = places(reading, settings, names);
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

/// Finds the store of each name, and those names that have none.
fn places<'a>(
    reading: &Reading,
    settings: &Settings,
    names: &'a [String],
) -> (Vec<Place<'a>>, Vec<Left>) {
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
        let store = match &relay.elsewhere {
            None => Some(reading.store.clone()),
            Some(store) => store.borrow().clone(),
        };
        match store {
            Some(store) => places.push(Place {
                store,
                names: vec![name],
                is_of_relays: true,
            }),
            None => left.push(Left::pipeline(name, NO_STORE)),
        }
    }
    if !pipelines.is_empty() {
        let place = Place {
            store: reading.store.clone(),
            names: pipelines,
            is_of_relays: false,
        };
        places.insert(0, place);
    }
    (places, left)
}

fn since(before: &OrderedPause) -> (&'static str, u64) {
    (before.kind.as_str(), before.since.as_millis())
}

/// The obstacle to an order about a relay whose database has no store that could keep it.
const NO_STORE: &str = "the store beside its outbox, which keeps such an order, is not open: it does not answer, is not \
                        there (`semel store migrate --yes` makes it) or has another format; the log says which";
