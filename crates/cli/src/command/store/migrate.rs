//! `semel store migrate`.

use semel_core::Result;
use serde::Serialize;

use crate::Exit;
use crate::args::store::Whole;
use crate::assemble::{self, Formats};
use crate::command::operate;
use crate::output::{Answer, Answers, Block};

/// Brings the store to the format of this version.
pub(super) fn migrate(arguments: &Whole) -> Result<Exit> {
    let Some((url, _)) = operate::is_there(&arguments.place.common())? else {
        return Ok(Exit::Usage);
    };
    let before = assemble::formats(&url)?;
    // Opening a store to write to it is what brings it forward.
    operate::bring_forward(&arguments.place.common(), async |ground| {
        let after = assemble::formats(&ground.url)?;
        let done = Done::of(before, after);
        let _ = Answers::new(arguments.format).print(&done)?;
        Ok(Exit::Done)
    })
}

/// What was done.
#[derive(Debug, Serialize)]
struct Done {
    from: Option<i64>,
    to: Option<i64>,
    newest: i64,
    migrated: bool,
}

impl Done {
    fn of(before: Formats, after: Formats) -> Self {
        Self {
            from: before.stored,
            to: after.stored,
            newest: after.newest,
            migrated: before.stored != after.stored,
        }
    }
}

impl Answer for Done {
    fn describe(&self, block: &mut Block) {
        let format = |format: Option<i64>| format.map_or("none".to_owned(), |it| it.to_string());
        block.prose(&if self.migrated {
            format!(
                "brought forward from format {} to format {}; versions of semel that write format {} \
                 cannot open it any more",
                format(self.from),
                format(self.to),
                format(self.from)
            )
        } else {
            format!("nothing to do: the store has format {}", format(self.to))
        });
    }
}
