//! The audit trail of a store.

use semel_core::{Audited, Note, Operation};
use serde::{Deserialize, Serialize};

use crate::pipelines::PauseKind;
use crate::value::{Time, tenant};

/// An entry of the audit trail; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditLine {
    /// The time of the change.
    pub at: Time,
    /// The person, or the program.
    pub by: Box<str>,
    /// The change.
    pub action: Box<str>,
    /// The pipeline; none if the change concerns the whole store.
    pub pipeline: Option<String>,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The key.
    pub key: Option<String>,
    /// The id of the operation.
    pub operation_id: Option<String>,
    /// The state before.
    pub before: Box<str>,
    /// The state after.
    pub after: Box<str>,
    /// The reason that was given; may be empty.
    pub reason: Box<str>,
}

impl AuditLine {
    /// Lays out an entry.
    pub fn of(entry: Audited) -> Self {
        if let Some(scope) = &entry.scope
            && let Some(kind) = PauseKind::of_scope(scope)
            && let Some(line) = Self::of_pipeline(kind, &entry)
        {
            return line;
        }
        let Audited {
            at,
            note: Note { by, reason },
            action,
            scope,
            key,
            before,
            after,
        } = entry;
        let pipeline = scope.as_ref().map(|scope| scope.operation().to_owned());
        let tenant = scope.as_ref().and_then(tenant).map(str::to_owned);
        let text = key.as_ref().map(|key| key.as_str().to_owned());
        let operation_id = scope
            .zip(key)
            .map(|(scope, key)| Operation::new(scope, key).id().to_string());
        Self {
            at: Time(at),
            by,
            action,
            pipeline,
            tenant,
            key: text,
            operation_id,
            before,
            after,
            reason,
        }
    }

    /// Lays out the entry of an order about a pipeline as a whole, which a store keeps as one about a record.
    fn of_pipeline(kind: PauseKind, entry: &Audited) -> Option<Self> {
        let paused = match kind {
            PauseKind::Pause => "paused",
            PauseKind::Drain => "drained",
        };
        let (action, before, after) = match &*entry.action {
            "hold" => (kind.as_str(), "not paused", paused),
            "forget" | "let-go" => ("resume", paused, "not paused"),
            _ => return None,
        };
        Some(Self {
            at: Time(entry.at),
            by: entry.note.by.clone(),
            action: action.into(),
            pipeline: Some(entry.key.as_ref()?.as_str().to_owned()),
            tenant: None,
            key: None,
            operation_id: None,
            before: before.into(),
            after: after.into(),
            reason: entry.note.reason.clone(),
        })
    }
}
