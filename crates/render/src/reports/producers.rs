//! Producers of a store.

use semel_operate::producers::{ProducerCounts, ProducerLine, ProducerStreamLine};

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

/// Returns the number of producers on each side, and of the messages that wait: `2 producers that publish from it, 1
/// waiting message`.
pub fn left_out_text(counts: ProducerCounts) -> String {
    let kinds = [
        (
            counts.publishers,
            "producer that publishes from it",
            "producers that publish from it",
        ),
        (
            counts.senders,
            "producer that sends to it",
            "producers that send to it",
        ),
        (counts.waiting, "waiting message", "waiting messages"),
    ];
    let said: Vec<_> = kinds
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
        .collect();
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_is_counted_by_itself() {
        let counts = ProducerCounts {
            publishers: 1,
            senders: 2,
            waiting: 3,
        };
        assert_eq!(
            left_out_text(counts),
            "1 producer that publishes from it, 2 producers that send to it, 3 waiting messages"
        );
        let senders = ProducerCounts {
            senders: 1,
            ..ProducerCounts::default()
        };
        assert_eq!(left_out_text(senders), "1 producer that sends to it");
    }
}
