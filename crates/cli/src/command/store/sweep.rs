//! `semel store sweep`.

use std::env::args_os;
use std::ops::ControlFlow;

use semel_core::{Error, ErrorKind, Result};
use semel_operate::store::{SweepEnd, SweepForecast, SweepResult};

use crate::Exit;
use crate::args::store::Sweep;
use crate::command::operate::{self, Ground, note_of};
use crate::output::{self, Answers, Plan};
use crate::progress::{Bars, Unit};

/// Removes the records whose window has passed.
pub(super) fn sweep(arguments: &Sweep) -> Result<Exit> {
    let common = arguments.whole.place.common();
    operate::plan(&common, arguments.confirm, async |ground| {
        let due = SweepForecast::of(&ground.store, ground.now()).await?;
        if let ControlFlow::Break(exit) = plan(ground, due).confirmed(arguments.confirm, args_os())
        {
            return Ok(exit);
        }
        let trail = ground.transfer.as_ref().ok_or_else(|| {
            let message = "the store was not opened to be changed";
            Error::new(ErrorKind::Internal, message)
        })?;
        let bars = Bars::new();
        let bar = bars.of_work("sweep", Unit::Records, None);
        let (note, now) = (note_of(&arguments.audit), ground.now());
        let reach = |done: &SweepResult| bar.reach(done.removed + done.doubted);
        let swept = due.sweep(&ground.store, trail, note, now, reach).await;
        drop(bar);
        bars.clear();
        let SweepEnd { done, failure, .. } = swept;
        if let Some(error) = failure {
            if done != SweepResult::default() {
                let _ = Answers::new(arguments.whole.format).print(&done)?;
            }
            return Err(error);
        }
        let _ = Answers::new(arguments.whole.format).print(&done)?;
        if done.abandoned > 0 {
            output::note(
                "abandoned: claimed or released, and quiet for a week; nothing is removed, somebody should look:",
            );
            for state in ["claimed", "released"] {
                let list = format!("keys list --state {state} --older-than 7d");
                output::note(format_args!("  {}", ground.command_of_all(&list)));
            }
        }
        Ok(Exit::Done)
    })
}

fn plan(ground: &Ground, due: SweepForecast) -> Plan {
    let mut plan = Plan::new("sweep", "store", "stores");
    plan.add(&ground.url);
    plan.remark(format_args!(
        "listed records that are past their window, and are removed: {}; what is forgotten already and not listed any \
         more goes, too",
        due.removed
    ));
    plan.remark(format_args!(
        "calls of workers that vanished, which are found in doubt: {}",
        due.doubted
    ));
    ground.remark_on_use(&mut plan);
    plan
}
