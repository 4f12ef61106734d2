//! `semel pipelines`, asked of a worker.

use std::collections::BTreeSet;

use semel_core::Result;
use semel_operate::pipelines::{PipelineChange, PipelineLine, PipelineOrder};
use semel_operate::value::Time;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::consent::{Order, Ordered, Unmet, carried};
use super::door::Door;
use super::through;
use crate::Exit;
use crate::args::pipelines::{List, Order as Arguments, Pipelines};
use crate::args::{Listing, Output};
use crate::command::pipelines::{consequence, consequence_for_relays};
use crate::output::{self, Plan};

pub(super) fn run(verb: &Pipelines) -> Option<Result<Exit>> {
    match verb {
        Pipelines::List(arguments) => through(arguments.place.door(), async |door| {
            list(door, arguments).await
        }),
        Pipelines::Pause(arguments) => order(arguments, PipelineOrder::Pause),
        Pipelines::Drain(arguments) => order(arguments, PipelineOrder::Drain),
        Pipelines::Resume(arguments) => order(arguments, PipelineOrder::Resume),
    }
}

/// A pipeline or a relay of a worker, of which the verb prints the order that stands about it, and nothing else.
#[derive(Deserialize, Serialize)]
struct Told {
    pipeline: Box<str>,
    #[serde(default, rename = "relay", skip_serializing_if = "std::ops::Not::not")]
    is_relay: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<Paused>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize, Serialize)]
struct Paused {
    order: String,
    since: Time,
    by: Box<str>,
    reason: Box<str>,
}

async fn list(door: &Door, arguments: &List) -> Result<Exit> {
    let mut list = output::List::new(&arguments.listing);
    // It comes as a whole: a worker has few.
    let page = door.worker.page::<Told>("/v1/pipelines", &[], None);
    for told in page.await.map_err(semel_core::Error::from)?.items {
        let mut line = PipelineLine {
            is_relay: told.is_relay,
            ..PipelineLine::of(&told.pipeline, None)
        };
        if let Some(paused) = told.paused {
            line = PipelineLine {
                order: paused.order.into(),
                since: Some(paused.since),
                by: Some(paused.by),
                reason: Some(paused.reason),
                ..line
            };
        }
        if list.push(&line)?.is_break() {
            break;
        }
    }
    list.end()?;
    Ok(Exit::Done)
}

fn order(arguments: &Arguments, order: PipelineOrder) -> Option<Result<Exit>> {
    through(arguments.place.door(), async |door| {
        let names: BTreeSet<&str> = arguments.names.iter().map(String::as_str).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut body = Map::new();
        body.insert("pipelines".to_owned(), names.into());
        let ordered = Order {
            action: &format!("pipelines/{}", order.as_str()),
            body,
            audit: &arguments.audit,
            confirm: arguments.confirm,
            unmet: Unmet::Mistake,
        };
        let plan = Plan::new(order.as_str(), "pipeline", "pipelines");
        let fill = |plan: &mut Plan, changes: &[PipelineChange]| {
            for it in changes {
                let standing = if it.before == "run" {
                    "to run"
                } else {
                    &*it.before
                };
                plan.add(format_args!("{}  {standing}", it.pipeline));
            }
            if changes.iter().any(|it| !it.is_relay) {
                plan.remark(consequence(order));
            }
            if changes.iter().any(|it| it.is_relay) {
                plan.remark(consequence_for_relays(order));
            }
        };
        let listing = Listing {
            format: arguments.format,
            limit: None,
        };
        match Ordered::of(door, &ordered, plan, fill).await? {
            Ordered::Over(exit, is_none) => {
                if is_none && arguments.format.output == Output::Json {
                    // "Nothing to do" is an answer, and prints a document.
                    output::List::<PipelineChange>::new(&listing).end()?;
                }
                Ok(exit)
            }
            Ordered::Done(done, is_whole) => {
                let mut list = output::List::new(&listing);
                let name = |it: &PipelineChange| it.pipeline.to_string();
                let exit = carried(done, is_whole, name, |it| {
                    // The reader may have had enough.
                    list.push(&it).map(drop)
                })?;
                list.end()?;
                Ok(exit)
            }
        }
    })
}
