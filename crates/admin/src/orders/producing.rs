//! Plans of orders about producers, which freeze and release them.

use std::collections::BTreeSet;

use semel_core::Timestamp;
use semel_core::producer::ProducerOrder;
use semel_http::Problem;
use semel_operate::order::Left;
use semel_operate::producers::{PlannedProducer, Side, Unchanged, matching};

use super::execution::no_trail;
use super::plan::{Change, Digest, Plan, Work};
use crate::producers;
use crate::reading::Reading;
use crate::settings::Settings;

/// Makes the plan of an order about producers of these names or ids, of one side or of both.
pub(super) async fn plan(
    reading: &Reading,
    settings: &Settings,
    order: ProducerOrder,
    (names, only): (&[String], Option<Side>),
    at: Timestamp,
) -> Result<Plan, Problem> {
    let producers = producers::of(settings)?;
    if !reading.has_trail {
        return Err(no_trail());
    }
    let asked: Vec<_> = names.iter().map(String::as_str).collect();
    let entries = reading.within(producers.named(&asked)).await?;
    let (mut all, mut changes, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let (mut digest, mut planned_before) = (Digest::default(), BTreeSet::new());
    for name in names {
        let planned = match matching(&entries, name, only)[..] {
            [(side, entry)] => PlannedProducer::of(*side, entry, order)
                .map(|it| (it, entry))
                .map_err(|unchanged| match unchanged {
                    Unchanged::Already(why) => Left::producer(name, why).already(),
                    Unchanged::Impossible(why) => Left::producer(name, why),
                }),
            [] => Err(Left::producer(name, "there is no such producer")),
            _ => Err(Left::producer(
                name,
                "one of this name publishes from here, and one sends its messages here; say which with `side`",
            )),
        };
        match planned {
            Ok((planned, entry)) => {
                let change = planned.change();
                // What waits in it changes from moment to moment.
                let text = format!(
                    "{} {} {} {} {}",
                    change.producer, change.side, entry.id, change.action, change.before
                );
                // Its id is a name of it, too.
                if !planned_before.insert(text.clone()) {
                    continue;
                }
                digest.text(&text);
                changes.push(Change::Producer(change));
                all.push(planned);
            }
            Err(unchanged) => left.push(unchanged),
        }
    }
    let work = Work::Producers(producers.clone(), all);
    Ok(Plan::of_names(at, changes, left, digest.finish(), work))
}
