//! The table of the windows of all pipelines.

use semel_operate::check::WindowLine;

use crate::{Column, Entry, Row};

impl Entry for WindowLine {
    const COLUMNS: &'static [Column] = &[
        Column::key("pipeline"),
        Column::word("class"),
        Column::word("redelivery"),
        Column::word("replay"),
        Column::word("needed"),
        Column::word("set"),
        Column::word("verdict"),
        Column::text("not_read"),
    ];
    const NONE: &'static str = "no brokers";

    fn fill(&self, row: &mut Row) {
        row.text(&self.pipeline)
            .text(&self.class)
            .text(&self.redelivery)
            .text(&self.replay)
            .text(&self.needed)
            .text(&self.set)
            .text(&self.verdict)
            .text(&self.not_read);
    }
}
