//! Messages that a worker runs again: the forecast, the operator's consent, and the run in the worker, which is followed
//! until it has ended.

use std::time::Duration;

use clap::Args;
use semel_core::{Code, Error, Result};
use semel_operate::keys::Changed;
use semel_operate::parked::Foretold;
use semel_remote::{Failure, Run};
use semel_supervisor::replay::ReplayResult;
use semel_worker::replay::Kind;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::consent::{Consented, Order, add, consented, told};
use super::door::Door;
use crate::Exit;
use crate::args::{Listing, Output, Rerun};
use crate::command::parked::{SHORT, parked_line};
use crate::command::summary::result_table;
use crate::output::{self, List, Plan};

/// A change of a plan: a message with its prospect, or a doubt without one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Change {
    Message(Box<Foretold>),
    Alone(Box<Changed>),
}

/// Plans to run messages again, and follows their run once the operator said yes.
pub(super) async fn run<W: Args>(
    door: &Door,
    action: &str,
    body: Map<String, Value>,
    arguments: &Rerun<W>,
    plan: Plan,
) -> Result<Exit> {
    let order = Order {
        action,
        body,
        audit: &arguments.audit,
        confirm: arguments.confirm,
    };
    let again = plan.clone();
    // A program reads all of it; a person reads the first few and the number.
    let is_listed = arguments.format.output != Output::Table && !arguments.confirm.yes;
    let listing = Listing {
        format: arguments.format,
        limit: None,
    };
    let printed = std::cell::Cell::new(Ok(()));
    let shown = |plan: &mut Plan, changes: &[Change]| {
        if is_listed {
            printed.set(print(changes, &listing));
        }
        fill(plan, changes);
    };
    let consented = consented(door, &order, plan, &shown).await?;
    printed.replace(Ok(()))?;
    let (planned, reason, is_whole) = match consented {
        Consented::Over(exit, _) => return Ok(exit),
        Consented::Yes(planned, reason, is_whole) => (planned, reason, is_whole),
    };
    let begun = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => None,
        begun = door.worker.begin(action, planned.token(), &reason) => Some(begun),
    };
    let run = match begun {
        None => return Ok(left(door, "/v1/runs")),
        Some(Ok(run)) => run,
        Some(Err(failure)) => {
            return told(failure, again, &|plan: &mut Plan, changes: &[Change]| {
                fill(plan, changes)
            });
        }
    };
    let Some(run) = follow(door, run).await? else {
        return Ok(Exit::No);
    };
    let kind = match action {
        "in-doubt/retry" => Kind::InDoubt,
        "quarantine/release" => Kind::Quarantined,
        _ => Kind::DeadLetters,
    };
    report(door, &run, kind, arguments.format.output)?;
    if let Some(error) = run.failure() {
        return Err(error);
    }
    let is_through = is_whole && run.state == "ended";
    Ok(if is_through { Exit::Done } else { Exit::No })
}

/// Prints what would become of each message.
fn print(changes: &[Change], listing: &Listing) -> Result<()> {
    let mut list = List::<Foretold>::new(listing);
    for change in changes {
        if let Change::Message(foretold) = change
            && list.push(foretold)?.is_break()
        {
            break;
        }
    }
    list.end()
}

fn fill(plan: &mut Plan, changes: &[Change]) {
    for change in changes {
        match change {
            Change::Message(it) => {
                let id = || it.id.get(..SHORT).unwrap_or(&it.id);
                let name = it.key.as_deref().unwrap_or_else(id);
                let what = format_args!("{}: {}", it.reason, it.detail);
                add(plan, (&it.pipeline, it.tenant.as_deref()), name, what);
            }
            Change::Alone(it) => {
                let what = "no message is kept: released for the next one of its key";
                add(plan, (&it.pipeline, it.tenant.as_deref()), &it.key, what);
            }
        }
    }
}

/// Waits until a run has ended; nothing once the operator has had enough.
async fn follow(door: &Door, mut run: Run) -> Result<Option<Run>> {
    let path = format!("/v1/runs/{}", run.id);
    while run.is_running() {
        tokio::select! {
            biased;
            _ = tokio::signal::ctrl_c() => {
                let _ = left(door, &path);
                return Ok(None);
            }
            () = tokio::time::sleep(INTERVAL) => {}
        }
        run = match door.worker.run(&run.id).await {
            Ok(run) => run,
            Err(Failure::Refused(problem)) if problem.code == Code::RunUnknown => {
                output::note(format_args!(
                    "the worker was started again, and remembers no run: what was not run is still set aside [{}]",
                    problem.code
                ));
                return Ok(None);
            }
            Err(failure) => {
                let _ = left(door, &path);
                return Err(Error::from(failure));
            }
        };
    }
    Ok(Some(run))
}

/// Tells where a run that is not followed any more can be looked at.
fn left(door: &Door, path: &str) -> Exit {
    output::note(format_args!(
        "the run goes on in the worker: {}{path} tells how far it is, and a pause of its pipeline ends it",
        door.worker.address()
    ));
    Exit::No
}

fn report(door: &Door, run: &Run, kind: Kind, format: Output) -> Result<()> {
    for sent in &run.results {
        let result = ReplayResult::deserialize(sent)
            .map_err(|why| Error::from(door.worker.strange_result(&why.to_string())))?;
        match format {
            Output::Table => {
                let table = result_table(&result.summary, 0, (0, 0));
                let left = result.kept + result.refused;
                let line = parked_line(&result.summary.pipeline, kind, result.dropped, left);
                output::data(table + &line).map_err(output::cannot_print)?;
            }
            Output::Json | Output::Jsonl => output::object(&result)?,
        }
    }
    match &*run.state {
        "stopped" => output::note(
            "the run was ended before it was through: by its worker, a pause, or after an hour; the rest is still set aside",
        ),
        _ if run.differ > 0 => output::note(format_args!(
            "of {} messages came something else than was foretold",
            run.differ
        )),
        _ => {}
    }
    Ok(())
}

/// The time between two looks at a run.
const INTERVAL: Duration = Duration::from_millis(500);
