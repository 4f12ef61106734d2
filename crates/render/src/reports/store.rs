//! A store as a whole: what it holds, its audit trail, and what was removed from it.

use semel_core::StateKind;
use semel_operate::store::{AuditLine, Records, Statistics, SweepResult};

use crate::{Answer, Block, Column, Entry, Row, TextStyle, key_text, state_text};

impl Answer for SweepResult {
    fn describe(&self, block: &mut Block) {
        block
            .field("removed", self.removed)
            .field("found in doubt", self.doubted)
            .field("abandoned", self.abandoned);
    }
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

impl Answer for Statistics<'_> {
    fn describe(&self, block: &mut Block) {
        let used_by = if self.shared {
            "several processes"
        } else {
            "one process at a time"
        };
        block
            .field("store", &self.url)
            .field("survives", self.durability.replace('_', " "))
            .field("used by", used_by)
            .some("on disk", self.disk_bytes.map(exact_size));
        for name in &self.accepted {
            block.styled(TextStyle::Attention, "accepted", name);
        }
        for warning in &*self.warnings {
            block.styled(TextStyle::Attention, "warning", warning);
        }
        block.heading("Records");
        let Records {
            total,
            claimed,
            started,
            released,
            completed,
            dead,
            in_doubt,
        } = self.records;
        let counts = [claimed, started, released, completed, dead, in_doubt];
        for (state, count) in StateKind::ALL.into_iter().zip(counts) {
            let style = if count > 0 {
                TextStyle::of(state)
            } else {
                TextStyle::Faint
            };
            block.styled(style, state_text(state), &count.to_string());
        }
        block.field("total", total);
        block.some("past their window", self.remembered);
        block.heading("Version gate");
        block.field("entities", self.entities);
        block.heading("Messages kept");
        for (reason, count) in &*self.parked {
            block.field(reason, count);
        }
        block.field("total", self.parked.values().sum::<u64>());
        block.heading("Audit trail");
        block.field("entries", self.audit_entries);
    }
}

/// A size as people read it, with the exact count.
fn exact_size(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut whole, mut tenths, mut unit) = (count, 0, 0);
    while whole >= 1024 && unit + 1 < UNITS.len() {
        tenths = whole % 1024 * 10 / 1024;
        whole /= 1024;
        unit += 1;
    }
    if unit == 0 {
        return format!("{count} B");
    }
    format!("{whole}.{tenths} {} ({count} bytes)", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_said_in_the_largest_unit_and_exactly() {
        assert_eq!(exact_size(0), "0 B");
        assert_eq!(exact_size(1023), "1023 B");
        assert_eq!(exact_size(1536), "1.5 KiB (1536 bytes)");
        assert_eq!(exact_size(3 << 40), "3.0 TiB (3298534883328 bytes)");
    }
}
