//! A record as an entry of a list.

use semel_core::port::store::Listed;
use semel_core::{Key, Scope, StateKind};
use semel_operate::keys::{reason, since};
use semel_operate::value::Time;
use serde::{Serialize, Serializer};

use crate::output::{Column, Entry, Row, key_text};

/// The entry of a record in a list.
#[derive(Debug, Serialize)]
pub(crate) struct KeyEntry {
    #[serde(serialize_with = "key")]
    pub(crate) key: Key,
    operation_id: String,
    #[serde(serialize_with = "pipeline")]
    pipeline: Scope,
    state: &'static str,
    reason: Option<String>,
    since: Time,
    attempts: u32,
    possible_repeats: u32,
    held: bool,
    remembered_until: Option<Time>,
    #[serde(skip)]
    kind: StateKind,
}

impl KeyEntry {
    pub(crate) fn of(listed: Listed) -> Self {
        let Listed { operation, record } = listed;
        Self {
            operation_id: operation.id().to_string(),
            key: operation.key,
            pipeline: operation.scope,
            state: record.state.kind().as_str(),
            kind: record.state.kind(),
            reason: reason(&record),
            since: Time(since(&record)),
            attempts: record.attempts,
            possible_repeats: record.possible_repeats,
            held: record.held,
            remembered_until: record.expires_at().map(Time),
        }
    }
}

impl Entry for KeyEntry {
    const COLUMNS: &'static [Column] = &[
        Column::key("key"),
        Column::text("pipeline"),
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
            .state(self.kind)
            .time(self.since.0)
            .show(self.attempts)
            .show(self.possible_repeats)
            .show_some(self.reason.as_ref());
    }
}

/// Serializes a key for JSON in the form in which it is printed and typed.
fn key<S: Serializer>(key: &Key, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(key.as_str())
}

fn pipeline<S: Serializer>(scope: &Scope, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(scope.operation())
}
