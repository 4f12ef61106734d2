//! `semel pipelines`: pauses, drains and resumes pipelines and relays, and lists the orders that stand.

mod relays;

use std::collections::BTreeSet;
use std::env::args_os;
use std::ops::ControlFlow;

use semel_config::suggestion;
use semel_core::{AnyStore, Claimant, Clock, Result, Timestamp};
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_operate::pipelines::{
    OrderedPause, PipelineChange, PipelineLine, PipelineOrder, PlannedPipeline, ordered_pauses,
};
use semel_operate::relative_time::when;

use crate::Exit;
use crate::args::pipelines::{Order, Pipelines};
use crate::args::{Listing, Output};
use crate::command::operate::{self, Ground, note_of, usage};
use crate::output::{self, List, Plan};
use relays::Relays;

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Pipelines) -> Result<Exit> {
    match verb {
        Pipelines::List(arguments) => {
            let common = arguments.place.common();
            let relays = Relays::of(&common);
            let listing = &arguments.listing;
            if relays.are_alone {
                return operate::alone(async || list_of(None, &relays, listing).await);
            }
            operate::look(&common, async |ground| {
                list_of(Some(ground), &relays, listing).await
            })
        }
        Pipelines::Pause(arguments) => order(arguments, PipelineOrder::Pause),
        Pipelines::Drain(arguments) => order(arguments, PipelineOrder::Drain),
        Pipelines::Resume(arguments) => order(arguments, PipelineOrder::Resume),
    }
}

/// Lists the pipelines of the ground, and the relays.
async fn list_of(ground: Option<&Ground>, relays: &Relays, listing: &Listing) -> Result<Exit> {
    let mut list = List::new(listing);
    let mut is_full = false;
    if let Some(ground) = ground {
        let names = ground.names();
        let orders = ordered_pauses(&ground.store, &names).await?;
        for (name, order) in names.iter().zip(orders) {
            is_full = list.push(&PipelineLine::of(name, order))?.is_break();
            if is_full {
                break;
            }
        }
    }
    for relay in relays.all.iter().take_while(|_| !is_full) {
        let (_, order) = relays::standing(relay).await?;
        if list
            .push(&PipelineLine::of_relay(&relay.name, order))?
            .is_break()
        {
            break;
        }
    }
    list.end()?;
    Ok(Exit::Done)
}

/// Plans an order about the named pipelines and relays, and gives it if the arguments say so.
fn order(arguments: &Order, order: PipelineOrder) -> Result<Exit> {
    let names: BTreeSet<&str> = arguments.names.iter().map(String::as_str).collect();
    let common = arguments.place.common();
    let relays = Relays::of(&common);
    let (of_relays, of_pipelines): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| relays.named(name).is_some());
    if of_pipelines.is_empty() {
        return operate::alone(async || {
            let mut planned = Orders::new(order, ("relay", "relays"));
            planned.about_relays(&relays, &of_relays).await?;
            planned.confirmed(None, arguments).await
        });
    }
    if relays.are_alone {
        // There is no store that could have an order about anything else, and none is made.
        check_names(Vec::new(), &relays, &of_pipelines)?;
    }
    operate::plan(&common, arguments.confirm, async |ground| {
        check_names(ground.names(), &relays, &of_pipelines)?;
        let nouns = if of_relays.is_empty() {
            ("pipeline", "pipelines")
        } else {
            ("pipeline or relay", "pipelines and relays")
        };
        let mut planned = Orders::new(order, nouns);
        let orders = ordered_pauses(&ground.store, &of_pipelines).await?;
        for (name, before) in of_pipelines.iter().zip(orders) {
            planned.add(name, before, &ground.store, false);
        }
        planned.about_relays(&relays, &of_relays).await?;
        planned.confirmed(Some(ground), arguments).await
    })
}

/// The orders of one verb, each with the store that keeps it.
struct Orders {
    order: PipelineOrder,
    plan: Plan,
    all: Vec<(PlannedPipeline, AnyStore)>,
}

impl Orders {
    fn new(order: PipelineOrder, (one, many): (&'static str, &'static str)) -> Self {
        Self {
            order,
            plan: Plan::new(order.as_str(), one, many),
            all: Vec::new(),
        }
    }

    /// Plans the order about these relays.
    async fn about_relays(&mut self, relays: &Relays, names: &[&str]) -> Result<()> {
        for relay in names.iter().filter_map(|name| relays.named(name)) {
            let (store, before) = relays::standing(relay).await?;
            let store = store.ok_or_else(|| relays::no_store(relay))?;
            self.add(&relay.name, before, &store, true);
        }
        Ok(())
    }

    /// Plans the order about one pipeline or relay.
    fn add(&mut self, name: &str, before: Option<OrderedPause>, store: &AnyStore, is_relay: bool) {
        let now = SystemClock::new().now();
        match self.order.plan(name, before, now) {
            Ok(planned) => {
                let standing = standing(planned.before.as_ref(), now);
                self.plan.add(format_args!("{name}  {standing}"));
                let planned = if is_relay {
                    planned.of_relay()
                } else {
                    planned
                };
                self.all.push((planned, store.clone()));
            }
            Err(why) => output::note(format_args!("{name}: {why}; left as it is")),
        }
    }

    /// Prints the plan, and gives the orders if the arguments say so.
    async fn confirmed(mut self, ground: Option<&Ground>, arguments: &Order) -> Result<Exit> {
        let of_relays = self.all.iter().filter(|(it, _)| it.is_relay).count();
        if of_relays < self.all.len() {
            self.plan.remark(consequence(self.order));
        }
        if of_relays > 0 {
            self.plan.remark(consequence_for_relays(self.order));
        }
        if let Some(ground) = ground {
            ground.remark_on_use(&mut self.plan);
        }
        if let ControlFlow::Break(exit) = self.plan.confirmed(arguments.confirm, args_os()) {
            if exit == Exit::Done && arguments.format.output == Output::Json {
                // "Nothing to do" is an answer, and prints a document.
                changes(arguments).end()?;
            }
            return Ok(exit);
        }
        give(arguments, &self.all).await
    }
}

/// Gives the orders, and prints the result of each.
async fn give(arguments: &Order, all: &[(PlannedPipeline, AnyStore)]) -> Result<Exit> {
    let claimant = Claimant::random(&SystemEntropy);
    let clock = SystemClock::new();
    let note = note_of(&arguments.audit);
    let mut list = changes(arguments);
    let mut given = Ok(Exit::Done);
    for (planned, store) in all {
        let claim_id = claimant.claim(&SystemEntropy);
        if let Err(error) = planned.give(store, &note, claim_id, clock.now()).await {
            given = Err(error);
            break;
        }
        // The reader may have had enough; the orders are given all the same.
        let _ = list.push(&planned.change())?;
    }
    // What was given before one failed is told all the same.
    list.end()?;
    given
}

fn changes(arguments: &Order) -> List<PipelineChange> {
    List::new(&Listing {
        format: arguments.format,
        limit: None,
    })
}

/// Refuses names that the configuration, if there is one, does not have.
fn check_names<'a>(pipelines: Vec<&'a str>, relays: &'a Relays, names: &[&str]) -> Result<()> {
    let mut known = pipelines;
    known.extend(relays.all.iter().map(|it| &*it.name));
    match names.iter().find(|it| !known.contains(it)) {
        Some(name) if !known.is_empty() => Err(usage(format!(
            "the configuration has no pipeline or relay `{name}`; {}",
            suggestion(name, &known)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The standing of a pipeline or a relay before an order, in words.
fn standing(before: Option<&OrderedPause>, now: Timestamp) -> String {
    before.map_or_else(
        || "to run".to_owned(),
        |it| {
            let by = if it.by.is_empty() { "" } else { " by " };
            let since = when(it.since, now);
            format!("{} since {since}{by}{}", it.kind.as_str(), it.by)
        },
    )
}

/// The consequence of an order about pipelines.
pub(crate) const fn consequence(order: PipelineOrder) -> &'static str {
    match order {
        PipelineOrder::Pause => {
            "every worker on this store begins nothing more of it: what runs is finished, the rest is given back"
        }
        PipelineOrder::Drain => {
            "every worker on this store takes in nothing more of it: what is in hand is finished, retries too"
        }
        PipelineOrder::Resume => "every worker on this store runs it again",
    }
}

/// The consequence of an order about relays.
pub(crate) const fn consequence_for_relays(order: PipelineOrder) -> &'static str {
    match order {
        PipelineOrder::Pause => {
            "every worker with a relay of this name in the database publishes nothing more: what it is at is finished, \
             the rest stays in the outbox"
        }
        PipelineOrder::Drain => {
            "every worker with a relay of this name in the database publishes what is due, and nothing after that: the \
             rest stays in the outbox"
        }
        PipelineOrder::Resume => {
            "every worker with a relay of this name in the database publishes again"
        }
    }
}
