//! Producers of a store.

use semel_operate::producers::{ProducerLine, ProducerStreamLine};

use crate::{Answer, Block, Column, Entry, Row};

impl Entry for ProducerLine {
    const COLUMNS: &'static [Column] = &[
        Column::text("producer"),
        Column::word("side"),
        Column::number("epoch"),
        Column::word("state"),
        Column::number("waiting"),
        Column::text("streams"),
    ];
    const NONE: &'static str = "no producers";

    fn fill(&self, row: &mut Row) {
        let streams: Vec<_> = self.streams.iter().map(|it| &*it.stream).collect();
        row.text(&self.producer)
            .text(self.side)
            .show(self.epoch)
            .text(self.state())
            .show(self.waiting)
            .text(&streams.join(", "));
    }
}

impl Answer for ProducerLine {
    fn describe(&self, block: &mut Block) {
        block.heading(&self.producer);
        block.field("side", self.side);
        block.field("id", &self.id);
        block.field("epoch", self.epoch);
        block.field("state", self.state());
        if let Some(damage) = &self.damage {
            block.field("damage", damage);
        }
        for stream in &self.streams {
            let ProducerStreamLine {
                stream,
                target,
                confirmed,
                waiting,
                ..
            } = stream;
            block.field(
                "stream",
                format_args!("{stream} to {target}: {confirmed} confirmed, {waiting} waiting"),
            );
        }
    }
}
