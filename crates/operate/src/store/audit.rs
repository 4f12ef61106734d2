//! The audit trail of a store.

use semel_core::{Audited, Note, Operation};
use serde::Serialize;

use crate::value::{Time, tenant};

/// An entry of the audit trail; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize)]
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
}
