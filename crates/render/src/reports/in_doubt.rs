//! Effects in doubt, and what a person said of them.

use semel_operate::in_doubt::{Resolved, WholeDoubt};

use super::keys::describe_bytes;
use crate::{Answer, Block, Column, Entry, Row, key_text};

impl Answer for WholeDoubt<'_> {
    fn describe(&self, block: &mut Block) {
        self.record.describe(block);
        block.heading("Message");
        let Some(message) = &self.message else {
            block.prose(self.arrival.of(
                "none is kept yet: it is, when it is delivered again",
                "none: clients claim the key, and nothing is kept of what they ask for",
                "none: the key comes in requests, and nothing is kept of them",
            ));
            return;
        };
        let detail = Some(&message.detail).filter(|detail| !detail.is_empty());
        block
            .field("coordinates", &message.coordinates)
            .some("detail", detail);
        describe_bytes("payload", message.payload(), message.withheld, block);
    }
}

impl Entry for Resolved {
    const COLUMNS: &'static [Column] = &[
        Column::key("key"),
        Column::text("pipeline"),
        Column::text("tenant").if_any(),
        Column::word("before"),
        Column::word("after"),
        Column::word("message"),
    ];
    const NONE: &'static str = "nothing was resolved";

    fn fill(&self, row: &mut Row) {
        row.text(&key_text(&self.key))
            .text(&self.pipeline)
            .show_some(self.tenant.as_ref())
            .text(&self.before.replace('_', " "))
            .text(&self.after)
            .text(&self.message.as_str().replace('_', " "));
    }
}
