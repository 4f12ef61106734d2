//! A record, and a change of one, as rows of lists.

use semel_operate::keys::{Changed, KeyEntry};

use crate::{Column, Entry, Row, key_text};

impl Entry for KeyEntry {
    const COLUMNS: &'static [Column] = &[
        Column::key("key"),
        Column::text("pipeline"),
        Column::text("tenant").if_any(),
        Column::state("state"),
        Column::time("since"),
        Column::number("attempts").spare(),
        Column::number("possible_repeats").or("repeats").spare(),
        Column::text("reason"),
    ];
    const NONE: &'static str = "no keys";

    fn fill(&self, row: &mut Row) {
        row.text(&key_text(self.key.as_str()))
            .text(self.pipeline.operation())
            .show_some(self.tenant.as_ref())
            .state(self.kind)
            .time(self.since.0)
            .show(self.attempts)
            .show(self.possible_repeats)
            .show_some(self.reason.as_ref());
    }
}

impl Entry for Changed {
    const COLUMNS: &'static [Column] = &[
        Column::key("key"),
        Column::text("pipeline"),
        Column::text("tenant").if_any(),
        Column::word("action"),
        Column::word("before"),
        Column::word("after"),
    ];
    const NONE: &'static str = "nothing was changed";

    fn fill(&self, row: &mut Row) {
        row.text(&key_text(&self.key))
            .text(&self.pipeline)
            .show_some(self.tenant.as_ref())
            .text(&self.action)
            .text(&self.before)
            .text(&self.after);
    }
}
