//! Exports and imports of a store: what was moved.

use semel_worker::transfer::Counts;
use serde::Serialize;

use crate::{Answer, Block};

/// Returns items by kind, for people: `12 records, 1 parked message`.
pub fn counts_text(counts: Counts) -> String {
    let kinds = [
        (counts.records, "record", "records"),
        (counts.entities, "entity", "entities"),
        (counts.marks, "mark", "marks"),
        (counts.parked, "parked message", "parked messages"),
        (counts.audited, "audit entry", "audit entries"),
    ];
    let said: Vec<_> = kinds
        .iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if *count == 1 { one } else { many }))
        .collect();
    if said.is_empty() {
        return "nothing but the fencing token".to_owned();
    }
    said.join(", ")
}

/// Counts all items except the fencing token, which nobody put there.
pub fn things(counts: Counts) -> u64 {
    counts.items() - counts.tokens
}

/// The same numbers for programs.
#[derive(Clone, Copy, Serialize)]
struct Kinds {
    items: u64,
    records: u64,
    entities: u64,
    marks: u64,
    parked: u64,
    audited: u64,
}

impl From<Counts> for Kinds {
    fn from(counts: Counts) -> Self {
        Self {
            items: things(counts),
            records: counts.records,
            entities: counts.entities,
            marks: counts.marks,
            parked: counts.parked,
            audited: counts.audited,
        }
    }
}

/// The items that an import read, and those of them that were new.
#[derive(Serialize)]
pub struct ImportResult {
    read: Kinds,
    new: Kinds,
    #[serde(skip)]
    words: (Counts, Counts),
}

impl ImportResult {
    /// Counts them for programs and for people.
    pub fn of(read: Counts, new: Counts) -> Self {
        Self {
            read: read.into(),
            new: new.into(),
            words: (read, new),
        }
    }
}

impl Answer for ImportResult {
    fn describe(&self, block: &mut Block) {
        let (read, new) = self.words;
        block.field("read", counts_text(read)).field(
            "new",
            match things(new) {
                0 => "nothing: all of it was there".to_owned(),
                _ => counts_text(new),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_said_without_what_there_is_none_of() {
        let counts = Counts {
            tokens: 1,
            records: 12,
            parked: 1,
            ..Counts::default()
        };
        assert_eq!(counts_text(counts), "12 records, 1 parked message");
        assert_eq!(
            counts_text(Counts::default()),
            "nothing but the fencing token"
        );
    }
}
