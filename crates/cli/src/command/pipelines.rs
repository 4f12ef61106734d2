//! `semel pipelines`: pauses, drains and resumes pipelines, and lists the orders that stand.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use semel_config::suggestion;
use semel_core::{Claimant, Result};
use semel_engine::system::SystemEntropy;
use semel_operate::pipelines::{
    OrderedPause, PipelineChange, PipelineLine, PipelineOrder, PlannedPipeline, ordered_pauses,
};
use semel_operate::relative_time::when;

use crate::Exit;
use crate::args::pipelines::{Order, Pipelines};
use crate::args::{Listing, Output};
use crate::command::operate::{self, Ground, note_of, usage};
use crate::output::{self, Column, Entry, List, Plan, Row};

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Pipelines) -> Result<Exit> {
    match verb {
        Pipelines::List(arguments) => operate::look(&arguments.place.common(), async |ground| {
            let names = ground.names();
            let mut list = List::new(&arguments.listing);
            let orders = ordered_pauses(&ground.store, &names).await?;
            for (name, order) in names.iter().zip(orders) {
                if list.push(&PipelineLine::of(name, order))?.is_break() {
                    break;
                }
            }
            list.end()?;
            Ok(Exit::Done)
        }),
        Pipelines::Pause(arguments) => order(arguments, PipelineOrder::Pause),
        Pipelines::Drain(arguments) => order(arguments, PipelineOrder::Drain),
        Pipelines::Resume(arguments) => order(arguments, PipelineOrder::Resume),
    }
}

/// Plans an order about the named pipelines, and gives it if the arguments say so.
fn order(arguments: &Order, order: PipelineOrder) -> Result<Exit> {
    let names: BTreeSet<&str> = arguments.names.iter().map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let common = arguments.place.common();
    operate::plan(&common, arguments.confirm, async |ground| {
        check_names(ground, &names)?;
        let now = ground.now();
        let orders = ordered_pauses(&ground.store, &names).await?;
        let mut plan = Plan::new(order.as_str(), "pipeline", "pipelines");
        let mut all = Vec::new();
        for (name, before) in names.iter().zip(orders) {
            match order.plan(name, before, now) {
                Ok(planned) => {
                    let standing = standing(planned.before.as_ref(), ground);
                    plan.add(format_args!("{name}  {standing}"));
                    all.push(planned);
                }
                Err(why) => output::note(format_args!("{name}: {why}; left as it is")),
            }
        }
        if !all.is_empty() {
            plan.remark(consequence(order));
        }
        ground.remark_on_use(&mut plan);
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm) {
            if exit == Exit::Done && arguments.format.output == Output::Json {
                // "Nothing to do" is an answer, and prints a document.
                changes(arguments).end()?;
            }
            return Ok(exit);
        }
        give(ground, arguments, &all).await
    })
}

/// Gives the orders, and prints the result of each.
async fn give(ground: &Ground, arguments: &Order, all: &[PlannedPipeline]) -> Result<Exit> {
    let claimant = Claimant::random(&SystemEntropy);
    let note = note_of(&arguments.audit);
    let mut list = changes(arguments);
    let mut given = Ok(Exit::Done);
    for planned in all {
        let claim_id = claimant.claim(&SystemEntropy);
        let order = planned.give(&ground.store, &note, claim_id, ground.now());
        if let Err(error) = order.await {
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
fn check_names(ground: &Ground, names: &[&str]) -> Result<()> {
    let known = ground.names();
    match names.iter().find(|it| !known.contains(it)) {
        Some(name) if !known.is_empty() => Err(usage(format!(
            "the configuration has no pipeline `{name}`; {}",
            suggestion(name, &known)
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The standing of a pipeline before an order, in words.
fn standing(before: Option<&OrderedPause>, ground: &Ground) -> String {
    before.map_or_else(
        || "to run".to_owned(),
        |it| {
            let by = if it.by.is_empty() { "" } else { " by " };
            let since = when(it.since, ground.now());
            format!("{} since {since}{by}{}", it.kind.as_str(), it.by)
        },
    )
}

/// The consequence of an order.
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

impl Entry for PipelineLine {
    const COLUMNS: &'static [Column] = &[
        Column::text("pipeline"),
        Column::word("order"),
        Column::time("since"),
        Column::text("by"),
        Column::text("reason"),
    ];
    const NONE: &'static str = "the configuration has no pipelines";

    fn fill(&self, row: &mut Row) {
        row.text(&self.pipeline).text(&self.order);
        match self.since {
            Some(since) => row.time(since.0),
            None => row.nothing(),
        };
        row.show_some(self.by.as_ref().filter(|it| !it.is_empty()))
            .show_some(self.reason.as_ref().filter(|it| !it.is_empty()));
    }
}

impl Entry for PipelineChange {
    const COLUMNS: &'static [Column] = &[
        Column::text("pipeline"),
        Column::word("action"),
        Column::word("before"),
        Column::word("after"),
    ];
    const NONE: &'static str = "nothing was changed";

    fn fill(&self, row: &mut Row) {
        row.text(&self.pipeline)
            .text(&self.action)
            .text(&self.before)
            .text(&self.after);
    }
}
