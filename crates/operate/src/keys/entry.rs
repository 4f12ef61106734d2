//! A record in a list: the model of `semel keys list` and `semel in-doubt list`.

use semel_core::port::store::Listed;
use semel_core::{Key, Scope, StateKind};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::summary::{reason, since, state_of};
use crate::value::{Time, tenant};

/// The entry of a record in a list.
#[derive(Clone, Debug, Serialize)]
pub struct KeyEntry {
    /// The key.
    #[serde(serialize_with = "key")]
    pub key: Key,
    /// The id of the operation.
    pub operation_id: String,
    /// The pipeline.
    #[serde(serialize_with = "pipeline")]
    pub pipeline: Scope,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The state.
    pub state: &'static str,
    /// The reason of the state.
    pub reason: Option<String>,
    /// The time since which it is in the state.
    pub since: Time,
    /// The number of attempts.
    pub attempts: u32,
    /// The number of attempts that may have repeated the effect.
    pub possible_repeats: u32,
    /// True if it is kept beyond its window.
    pub held: bool,
    /// The time until which it is kept; none while it is not finished.
    pub remembered_until: Option<Time>,
    /// The state as a value.
    #[serde(skip)]
    pub kind: StateKind,
}

impl KeyEntry {
    /// Lays out a record.
    pub fn of(listed: Listed) -> Self {
        let Listed { operation, record } = listed;
        Self {
            operation_id: operation.id().to_string(),
            key: operation.key,
            tenant: tenant(&operation.scope).map(str::to_owned),
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

/// An entry as its JSON has it.
#[derive(Deserialize)]
struct Sent {
    key: String,
    operation_id: String,
    pipeline: String,
    tenant: Option<String>,
    state: String,
    reason: Option<String>,
    since: Time,
    attempts: u32,
    possible_repeats: u32,
    held: bool,
    remembered_until: Option<Time>,
}

impl<'de> Deserialize<'de> for KeyEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::try_from(Sent::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl TryFrom<Sent> for KeyEntry {
    type Error = String;

    fn try_from(sent: Sent) -> Result<Self, String> {
        let scope = Scope::new(sent.tenant.as_deref().unwrap_or_default(), &sent.pipeline);
        let kind =
            state_of(&sent.state).ok_or_else(|| format!("unknown state `{}`", sent.state))?;
        Ok(Self {
            key: Key::parse(&sent.key).map_err(|why| why.to_string())?,
            operation_id: sent.operation_id,
            pipeline: scope.map_err(|why| why.to_string())?,
            tenant: sent.tenant,
            state: kind.as_str(),
            reason: sent.reason,
            since: sent.since,
            attempts: sent.attempts,
            possible_repeats: sent.possible_repeats,
            held: sent.held,
            remembered_until: sent.remembered_until,
            kind,
        })
    }
}

/// Serializes a key for JSON in the form in which it is printed and typed.
fn key<S: Serializer>(key: &Key, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(key.as_str())
}

fn pipeline<S: Serializer>(scope: &Scope, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(scope.operation())
}
