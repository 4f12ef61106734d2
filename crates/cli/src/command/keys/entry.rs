//! A record in a list.

use semel_core::port::store::Listed;
use semel_core::{AttemptEnd, Key, Record, Scope, State, StateKind, Timestamp};
use semel_operate::value::Time;
use serde::{Serialize, Serializer};

use crate::output::{Column, Entry, Row, key_text};

/// What a list says of a record.
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

/// Since when a record is in its state, as far as it tells.
pub(crate) fn since(record: &Record) -> Timestamp {
    match record.state {
        State::Completed { at, .. } | State::Dead { at, .. } => at,
        State::InDoubt { since } => since,
        State::Claimed { .. } | State::Started { .. } => record.claimed_at,
        // An operator who lets a key go counts its attempts anew.
        State::Released { not_before } if record.attempts == 0 => not_before,
        State::Released { not_before } => record
            .past
            .last()
            .map_or(not_before, |past| past.ended_at.min(not_before)),
    }
}

/// Why a record is in its state, where there is more to say than the state does.
pub(crate) fn reason(record: &Record) -> Option<String> {
    match record.state.kind() {
        StateKind::Claimed | StateKind::Started | StateKind::Completed => return None,
        StateKind::Released | StateKind::Dead | StateKind::InDoubt => {}
    }
    match record.past.last().map(|past| past.end) {
        Some(AttemptEnd::Vanished) => Some("its worker vanished".to_owned()),
        Some(
            AttemptEnd::NotApplied
            | AttemptEnd::MaybeApplied
            | AttemptEnd::Failed
            | AttemptEnd::GivenBack,
        )
        | None => record.last_error.as_deref().map(str::to_owned),
    }
}

/// For JSON: a key as it is printed and typed.
fn key<S: Serializer>(key: &Key, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(key.as_str())
}

fn pipeline<S: Serializer>(scope: &Scope, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(scope.operation())
}
