//! Messages that a worker runs again: the forecast, the operator's consent, and the run in the worker, which is followed
//! until it has ended.

use std::pin::{Pin, pin};
use std::time::Duration;

use clap::Args;
use semel_core::{Code, Error, ErrorKind, Result};
use semel_operate::keys::Changed;
use semel_operate::parked::Foretold;
use semel_remote::{Failure, Run};
use semel_render::reports::parked::{SHORT, parked_line};
use semel_render::run::summary::result_table;
use semel_supervisor::replay::ReplayResult;
use semel_worker::replay::Kind;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::consent::{Consented, Order, Unmet, add, consented, interrupted, told};
use super::door::Door;
use crate::Exit;
use crate::args::{Listing, Output, Rerun};
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
    (action, unmet): (&str, Unmet),
    body: Map<String, Value>,
    arguments: &Rerun<W>,
    plan: Plan,
) -> Result<Exit> {
    let order = Order {
        action,
        body,
        audit: &arguments.audit,
        confirm: arguments.confirm,
        unmet,
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
    let run = match begin(door, action, (planned.token(), &reason)).await? {
        RunResult::Ended(run) => run,
        RunResult::Left => return Ok(Exit::No),
        RunResult::Refused(failure) => {
            return told(failure, again, &|plan: &mut Plan, changes: &[Change]| {
                fill(plan, changes);
            });
        }
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
    let is_done = tell_undone(&run);
    let is_through = is_whole && run.state == "ended" && is_done;
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

/// Tells how many changes were not made; returns whether there is none.
fn tell_undone(run: &Run) -> bool {
    let counts = run.came.iter();
    let undone: Vec<_> = counts
        .filter(|(result, count)| **count > 0 && UNDONE.contains(&result.as_str()))
        .map(|(result, count)| format!("{count} {}", result.replace('_', " ")))
        .collect();
    if !undone.is_empty() {
        output::note(format_args!(
            "not all were run: {}; they are as they were, or somebody has changed them meanwhile",
            undone.join(", ")
        ));
    }
    undone.is_empty()
}

/// The end of an order that is carried out in a run.
pub(super) enum RunResult {
    /// The run has ended.
    Ended(Run),
    /// The operator has had enough, and was told so.
    Left,
    /// It did not begin.
    Refused(Failure),
}

/// Begins a run with a token and a reason, and waits until it has ended.
pub(super) async fn begin(
    door: &Door,
    action: &str,
    (token, reason): (&str, &str),
) -> Result<RunResult> {
    // One for all that follows: an interrupt during a request is lost on whoever listens only later.
    let mut interrupt = pin!(interrupted());
    let begun = tokio::select! {
        biased;
        () = &mut interrupt => None,
        begun = door.worker.begin(action, token, reason) => Some(begun),
    };
    let run = match begun {
        None => {
            leave(door, "may have begun", "/v1/runs");
            return Ok(RunResult::Left);
        }
        Some(Ok(run)) => run,
        Some(Err(failure)) => return Ok(RunResult::Refused(failure)),
    };
    let run = follow(door, run, interrupt).await?;
    Ok(run.map_or(RunResult::Left, RunResult::Ended))
}

/// Waits until a run has ended; nothing once the operator has had enough.
async fn follow(
    door: &Door,
    mut run: Run,
    mut interrupt: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<Run>> {
    let path = format!("/v1/runs/{}", run.id);
    let (mut interval, mut failed) = (INTERVAL, 0);
    while run.is_running() {
        let look = async {
            tokio::time::sleep(interval).await;
            door.worker.run(&run.id).await
        };
        let looked = tokio::select! {
            biased;
            () = &mut interrupt => {
                leave(door, "goes on in the worker", &path);
                return Ok(None);
            }
            looked = look => looked,
        };
        // Each look fetches what became of each message.
        interval = (interval * 3 / 2).min(LONGEST_INTERVAL);
        match looked {
            Ok(it) => (run, failed) = (it, 0),
            Err(Failure::Refused(problem)) if problem.code == Code::RunUnknown => {
                let place = door.worker.address();
                let message = format!(
                    "the worker at {place} does not know the run {} (any more): it was started again, or another one answers \
                     now, and the run may go on; look at {place}/v1/runs and semel store audit before you give the order again",
                    run.id
                );
                let error = Error::new(ErrorKind::Unavailable, message);
                return Err(error.with_code(Code::RunUnknown).maybe_applied());
            }
            Err(Failure::Failed(error))
                if failed < FAILED_LOOKS && error.code() != Code::WorkerIncompatible =>
            {
                failed += 1;
            }
            Err(failure) => {
                leave(door, "may go on in the worker", &path);
                return Err(Error::from(failure));
            }
        }
    }
    Ok(Some(run))
}

/// Tells where a run that is not followed any more can be looked at.
fn leave(door: &Door, standing: &str, path: &str) {
    output::note(format_args!(
        "the run {standing}: {}{path} tells how far it is, and POST to its path with /stop ends it",
        door.worker.address()
    ));
}

fn report(door: &Door, run: &Run, kind: Kind, format: Output) -> Result<()> {
    for sent in &run.results {
        let result = ReplayResult::deserialize(sent)
            .map_err(|why| Error::from(door.worker.strange("/v1/runs", &why.to_string())))?;
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

/// The results of changes that were not made.
const UNDONE: [&str; 5] = ["failed", "left", "not_tried", "refused", "unknown"];
/// The time before the first look at a run.
const INTERVAL: Duration = Duration::from_millis(250);
/// The longest time between two looks at a run.
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);
/// The looks in a row that may fail before a run is followed no further.
const FAILED_LOOKS: u32 = 4;
