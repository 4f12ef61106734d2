//! Messages as entries of lists.

use std::borrow::Cow;

use semel_worker::replay::Kind;
use serde::{Deserialize, Serialize};

use super::Found;
use crate::value::{Time, tenant};

/// A dead letter in a list: the documented object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The id of the message.
    pub id: String,
    /// Its key.
    pub key: Option<String>,
    /// The id of its operation.
    pub operation_id: Option<String>,
    /// The name of its pipeline.
    pub pipeline: String,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The state of its record.
    pub state: Cow<'static, str>,
    /// The code of the reason for keeping it.
    pub reason: Box<str>,
    /// The time since which it is kept.
    pub since: Time,
    /// The last error.
    pub error: Box<str>,
    /// The place from which it came.
    pub coordinates: Box<str>,
    /// The length of its payload.
    pub size_bytes: usize,
}

/// A message in quarantine in a list: the documented object.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Quarantined {
    /// The id of the message.
    pub id: String,
    /// Its key, if it has a usable one.
    pub key: Option<String>,
    /// The id of its operation.
    pub operation_id: Option<String>,
    /// The name of its pipeline.
    pub pipeline: String,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The state: in quarantine.
    pub state: Cow<'static, str>,
    /// The code of the reason for keeping it.
    pub reason: Box<str>,
    /// The time since which it is kept.
    pub since: Time,
    /// The fault in it.
    pub detail: Box<str>,
    /// The place from which it came.
    pub coordinates: Box<str>,
    /// The length of its payload.
    pub size_bytes: usize,
}

impl From<Found> for DeadLetter {
    fn from(found: Found) -> Self {
        let (state, operation) = (found.standing(Kind::DeadLetters), found.operation());
        let message = found.message;
        Self {
            id: message.id().to_string(),
            key: message.key.map(|key| key.as_str().to_owned()),
            operation_id: operation.map(|operation| operation.id().to_string()),
            pipeline: message.scope.operation().to_owned(),
            tenant: tenant(&message.scope).map(str::to_owned),
            state: state.into(),
            reason: message.reason,
            since: Time(message.since),
            error: message.detail,
            coordinates: (*message.coordinates).into(),
            size_bytes: message.payload.len(),
        }
    }
}

impl From<Found> for Quarantined {
    fn from(found: Found) -> Self {
        let (state, operation) = (found.standing(Kind::Quarantined), found.operation());
        let message = found.message;
        Self {
            id: message.id().to_string(),
            key: message.key.map(|key| key.as_str().to_owned()),
            operation_id: operation.map(|operation| operation.id().to_string()),
            pipeline: message.scope.operation().to_owned(),
            tenant: tenant(&message.scope).map(str::to_owned),
            state: state.into(),
            reason: message.reason,
            since: Time(message.since),
            detail: message.detail,
            coordinates: (*message.coordinates).into(),
            size_bytes: message.payload.len(),
        }
    }
}
