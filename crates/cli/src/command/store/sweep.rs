//! `semel store sweep`.

use std::ops::ControlFlow;

use semel_core::decide::{self, Change};
use semel_core::port::store::{ListQuery, Listed, Store};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{Audited, Error, ErrorKind, Result};
use semel_operate::paging::for_each_page;
use serde::Serialize;

use crate::Exit;
use crate::args::store::Sweep;
use crate::command::operate::{self, Ground, note_of};
use crate::output::{self, Answer, Answers, Block, Go, Plan};
use crate::progress::{Bars, Unit};

/// Removes the records whose window has passed.
pub(super) fn sweep(arguments: &Sweep) -> Result<Exit> {
    let common = arguments.whole.place.common();
    operate::plan(&common, arguments.confirm, async |ground| {
        let due = Due::of(ground).await?;
        if let ControlFlow::Break(exit) = due.plan(ground).confirmed(arguments.confirm) {
            return Ok(exit);
        }
        let bars = Bars::new();
        let bar = bars.of_work("sweep", Unit::Records, None);
        let mut done = Done::default();
        loop {
            let swept = ground.store.sweep(STEP).await?;
            done.removed += swept.removed;
            done.doubted += swept.doubted;
            done.abandoned += swept.abandoned;
            bar.reach(done.removed + done.doubted);
            if !swept.more {
                break;
            }
        }
        drop(bar);
        bars.clear();
        told(ground, arguments, &due, &done).await?;
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

/// The number of records that a sweep would remove, and of those that it would put in doubt.
#[derive(Default)]
struct Due {
    removed: u64,
    doubted: u64,
}

impl Due {
    /// Counts them.
    ///
    /// # Cost   reads the list of records
    async fn of(ground: &Ground) -> Result<Self> {
        let (mut due, now) = (Self::default(), ground.now());
        for_each_page(&ground.store, ListQuery::default(), |page: Vec<Listed>| {
            for listed in page {
                match decide::sweep(&listed.record, now) {
                    Change::Remove => due.removed += 1,
                    Change::Put(_) => due.doubted += 1,
                    Change::Keep => {}
                }
            }
            Ok(Go::Continue(()))
        })
        .await?;
        Ok(due)
    }

    fn plan(&self, ground: &Ground) -> Plan {
        let mut plan = Plan::new("sweep", "store", "stores");
        plan.add(&ground.url);
        plan.remark(format_args!(
            "listed records that are past their window, and are removed: {}; what is forgotten already and not \
             listed any more goes, too",
            self.removed
        ));
        plan.remark(format_args!(
            "calls of workers that vanished, which are found in doubt: {}",
            self.doubted
        ));
        ground.remark_on_use(&mut plan);
        plan
    }
}

/// Leaves an entry in the audit trail.
async fn told(ground: &Ground, arguments: &Sweep, due: &Due, done: &Done) -> Result<()> {
    let trail = ground.transfer.as_ref().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "the store was not opened to be changed",
        )
    })?;
    let entry = Audited {
        at: ground.now(),
        note: note_of(&arguments.audit),
        action: "sweep".into(),
        scope: None,
        key: None,
        before: format!("{} past their window", due.removed).into(),
        after: format!("{} removed, {} in doubt", done.removed, done.doubted).into(),
    };
    let _ = trail
        .import([Item::Audited(Box::new(entry))].into())
        .await?;
    Ok(())
}

/// The result of a sweep.
#[derive(Debug, Default, Serialize)]
struct Done {
    removed: u64,
    doubted: u64,
    abandoned: u64,
}

impl Answer for Done {
    fn describe(&self, block: &mut Block) {
        block
            .field("removed", self.removed)
            .field("found in doubt", self.doubted)
            .field("abandoned", self.abandoned);
    }
}

const STEP: usize = 10_000;
