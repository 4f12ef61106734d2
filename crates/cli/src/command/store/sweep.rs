//! `semel store sweep`.

use semel_core::Result;
use semel_core::port::store::Store;
use serde::Serialize;

use crate::Exit;
use crate::args::store::Whole;
use crate::command::operate;
use crate::output::{self, Answer, Answers, Block};
use crate::progress::{Bars, Unit};

/// Removes what has passed its window.
pub(super) fn sweep(arguments: &Whole) -> Result<Exit> {
    operate::change(&arguments.place.common(), async |ground| {
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
        let _ = Answers::new(arguments.format).print(&done)?;
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

/// What a sweep did.
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
