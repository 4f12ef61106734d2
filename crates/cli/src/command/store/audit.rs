//! `semel store audit`.

use semel_core::{Audited, Result, StateKind, Timestamp};
use semel_operate::store::AuditLine;

use crate::Exit;
use crate::args::store::Trail;
use crate::command::operate::{self, print_list};
use crate::output::{Column, Entry, Row, key_text, state_text};

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

/// The standing of a record in words.
fn in_words(standing: &str) -> String {
    standing.replace(StateKind::InDoubt.as_str(), state_text(StateKind::InDoubt))
}

impl Entry for AuditLine {
    const COLUMNS: &'static [Column] = &[
        Column::time("at"),
        Column::text("by"),
        Column::word("action"),
        Column::text("pipeline").spare(),
        Column::text("tenant").if_any(),
        Column::key("key"),
        Column::word("before").spare(),
        Column::word("after"),
        Column::text("reason"),
    ];
    const NONE: &'static str = "no entries in the audit trail";

    fn fill(&self, row: &mut Row) {
        row.time(self.at.0)
            .text(&self.by)
            .text(&self.action)
            .show_some(self.pipeline.as_ref())
            .show_some(self.tenant.as_ref())
            .show_some(self.key.as_deref().map(key_text))
            .text(&in_words(&self.before))
            .text(&in_words(&self.after));
        if self.reason.is_empty() {
            row.nothing();
        } else {
            row.text(&self.reason);
        }
    }
}
