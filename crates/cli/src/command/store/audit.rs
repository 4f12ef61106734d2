//! `semel store audit`.

use semel_core::{Audited, Result, Timestamp};
use semel_operate::store::AuditLine;

use crate::Exit;
use crate::args::store::Trail;
use crate::command::operate::{self, print_list};

/// Lists who changed what and why, oldest first.
pub(super) fn audit(arguments: &Trail) -> Result<Exit> {
    operate::look(&arguments.common, async |ground| {
        let query = ground.selection();
        let since = arguments
            .since
            .map_or(Timestamp::EPOCH, |age| ground.now().minus(age));
        print_list(
            &ground.store,
            &arguments.listing,
            query,
            |entry: Audited| {
                let is_wanted =
                    entry.at >= since && (arguments.key.is_none() || entry.key == arguments.key);
                is_wanted.then(|| AuditLine::of(entry))
            },
        )
        .await
    })
}
