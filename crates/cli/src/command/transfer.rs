//! `semel store export` and `semel store import`: a store's contents to a file and back.

mod export;
mod import;
mod target;

pub(crate) use export::export;
pub(crate) use import::import;

use std::sync::Arc;

use semel_worker::transfer::{Counts, OnTransfer};
use serde::Serialize;

use crate::progress::Bar;

/// Moves a bar, if there is one.
fn moves(bar: Bar, what: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> OnTransfer {
    Arc::new(move |items, bytes| bar.reach(what(items, bytes)))
}

/// Items by kind, for people: `12 records, 1 parked message`.
fn in_words(counts: Counts) -> String {
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
fn things(counts: Counts) -> u64 {
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
        assert_eq!(in_words(counts), "12 records, 1 parked message");
        assert_eq!(in_words(Counts::default()), "nothing but the fencing token");
    }
}
