//! `semel keys extend --all`, asked of a worker, which carries it out in a run.

use semel_core::{Error, Result};
use semel_operate::keys::Extended;
use semel_remote::Run;
use serde::Deserialize;

use super::consent::{Consented, Order, Unmet, body_within, consented, told};
use super::door::Door;
use super::rerun::{RunResult, begin};
use super::through;
use crate::Exit;
use crate::args::keys::Extend;
use crate::output::{self, Answers, Plan};

/// The change of a plan: about so many keys.
#[derive(Deserialize)]
struct Planned {
    pipeline: String,
    keys: u64,
    /// False if there are perhaps more.
    counted: bool,
}

pub(super) fn run(arguments: &Extend) -> Option<Result<Exit>> {
    through(arguments.change.common.door(), async |door| {
        extend(door, arguments).await
    })
}

async fn extend(door: &Door, arguments: &Extend) -> Result<Exit> {
    let change = &arguments.change;
    let mut body = body_within(&change.common);
    body.insert("all".to_owned(), true.into());
    let window = semel_core::units::duration_text(arguments.window);
    body.insert("window".to_owned(), window.into());
    let order = Order {
        action: ACTION,
        body,
        audit: &change.audit,
        confirm: change.confirm,
        unmet: Unmet::Left,
    };
    let plan = || {
        let none = "keys that are not remembered as long already";
        Plan::new("extend", "pipeline", none)
    };
    let fill = |plan: &mut Plan, changes: &[Planned]| {
        for it in changes {
            let least = if it.counted { "" } else { "at least " };
            let keys = it.keys;
            plan.add(format_args!("{}  {least}{keys} finished keys", it.pipeline));
        }
    };
    let (planned, reason) = match consented(door, &order, plan(), &fill).await? {
        Consented::Over(exit, _) => return Ok(exit),
        Consented::Yes(planned, reason, _) => (planned, reason),
    };
    let run = match begin(door, ACTION, (planned.token(), &reason)).await? {
        RunResult::Ended(run) => run,
        RunResult::Left => return Ok(Exit::No),
        RunResult::Refused(failure) => return told(failure, plan(), &fill),
    };
    let is_done = report(door, &run, &mut Answers::new(change.format))?;
    match run.failure() {
        Some(error) => Err(error),
        None if run.state == "ended" && is_done => Ok(Exit::Done),
        None => Ok(Exit::No),
    }
}

/// Prints what was done; returns whether nothing was refused.
fn report(door: &Door, run: &Run, answers: &mut Answers) -> Result<bool> {
    let mut is_done = true;
    for sent in &run.results {
        let result = Extended::deserialize(sent)
            .map_err(|why| Error::from(door.worker.strange("/v1/runs", &why.to_string())))?;
        is_done &= result.refused == 0;
        let _ = answers.print(&result)?;
    }
    if run.state == "stopped" {
        output::note(
            "the run was ended before it was through: by its worker, by an order, or after an hour; say the same again for the rest",
        );
    }
    Ok(is_done)
}

const ACTION: &str = "keys/extend";
