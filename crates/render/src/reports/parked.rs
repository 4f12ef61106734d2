//! Messages that were set aside: as rows, in full, and what became of them.

mod dead_letters;
mod message;

pub use dead_letters::Listed;
pub use message::ShownMessage;

use semel_core::{Key, Parked};
use semel_operate::parked::{Foretold, Quarantined};
use semel_worker::replay::Kind;
use serde::Serialize;

use crate::{Answer, Block, Column, Entry, Row};

impl Entry for Quarantined {
    const COLUMNS: &'static [Column] = &[
        Column::word("id"),
        Column::text("key"),
        Column::text("pipeline"),
        Column::text("tenant").if_any(),
        Column::word("reason"),
        Column::time("since"),
        Column::number("size_bytes").or("bytes"),
        Column::text("coordinates"),
        Column::text("detail"),
    ];
    const NONE: &'static str = "nothing in quarantine";

    fn fill(&self, row: &mut Row) {
        row.text(&self.id[..SHORT])
            .show_some(self.key.as_ref())
            .text(&self.pipeline)
            .show_some(self.tenant.as_ref())
            .text(&self.reason)
            .time(self.since.0)
            .show(self.size_bytes)
            .text(&self.coordinates)
            .text(&self.detail);
    }
}

impl Entry for Foretold {
    const COLUMNS: &'static [Column] = &[
        Column::word("id"),
        Column::text("key"),
        Column::text("pipeline"),
        Column::text("tenant").if_any(),
        Column::word("state"),
        Column::word("predicted"),
        Column::text("detail"),
    ];
    const NONE: &'static str = "none";

    fn fill(&self, row: &mut Row) {
        row.text(&self.id[..SHORT])
            .show_some(self.key.as_ref())
            .text(&self.pipeline)
            .show_some(self.tenant.as_ref())
            .text(&self.state.replace('_', " "))
            .text(&self.predicted.replace('_', " "))
            .text(&self.detail);
    }
}

/// The line about the messages that were run, under the table of their run.
pub fn parked_line(name: &str, kind: Kind, dropped: u64, left: u64) -> String {
    let place = match kind {
        Kind::DeadLetters => "dead letters",
        Kind::InDoubt => "messages of doubts",
        Kind::Quarantined => "quarantine",
    };
    format!("\n{name}: {place}: {dropped} dropped, {left} kept")
}

/// The key, or the beginning of the id if there is no key.
pub fn name_of(message: &Parked) -> String {
    let id = || message.id().to_string()[..SHORT].to_owned();
    message
        .key
        .as_ref()
        .map_or_else(id, |key| Key::as_str(key).to_owned())
}

/// The number of messages that are gone.
#[derive(Default, Serialize)]
pub struct Dropped {
    /// That number.
    pub dropped: u64,
}

impl Answer for Dropped {
    fn describe(&self, block: &mut Block) {
        block.field("dropped", self.dropped);
    }
}

/// The number of digits of an id that tell it apart from others.
pub const SHORT: usize = 12;
