//! Pipelines and the orders about them.

use semel_operate::pipelines::{PipelineChange, PipelineLine};

use crate::{Column, Entry, Row};

impl Entry for PipelineLine {
    const COLUMNS: &'static [Column] = &[
        Column::text("pipeline"),
        Column::word("kind").if_any(),
        Column::word("order"),
        Column::time("since"),
        Column::text("by"),
        Column::text("reason"),
    ];
    const NONE: &'static str = "the configuration has no pipelines";

    fn fill(&self, row: &mut Row) {
        row.text(&self.pipeline)
            .show_some(self.is_relay.then_some("relay"))
            .text(&self.order);
        match self.since {
            Some(since) => row.time(since.0),
            None => row.nothing(),
        };
        row.show_some(self.by.as_ref().filter(|it| !it.is_empty()))
            .show_some(self.reason.as_ref().filter(|it| !it.is_empty()));
    }
}

impl Entry for PipelineChange {
    const COLUMNS: &'static [Column] = &[
        Column::text("pipeline"),
        Column::word("action"),
        Column::word("before"),
        Column::word("after"),
    ];
    const NONE: &'static str = "nothing was changed";

    fn fill(&self, row: &mut Row) {
        row.text(&self.pipeline)
            .text(&self.action)
            .text(&self.before)
            .text(&self.after);
    }
}
