//! A whole message that was set aside: the model of `semel dead-letters show` and `semel quarantine show`.

use semel_core::{Key, Parked};
use semel_worker::replay::Kind;
use serde::Serialize;

use super::Found;
use crate::value::{Base64, Time, tenant, text_or_base64};

/// All of a message that was set aside; in JSON an object whose members are stable.
#[derive(Clone, Debug, Serialize)]
pub struct WholeMessage<'a> {
    /// Its id.
    pub id: String,
    /// The key, if it is known.
    pub key: Option<&'a str>,
    /// The id of the operation, if its key is known.
    pub operation_id: Option<String>,
    /// The pipeline.
    pub pipeline: &'a str,
    /// The tenant; none where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<&'a str>,
    /// The state of the record, or that the message is in quarantine.
    pub state: &'static str,
    /// The reason for which it was set aside.
    pub reason: &'a str,
    /// The time since which it is kept.
    pub since: Time,
    /// The last error of a dead letter.
    #[serde(rename = "error", skip_serializing_if = "Option::is_none")]
    pub error: Option<&'a str>,
    /// The details of the reason, of any other message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<&'a str>,
    /// The place in the source where it was read.
    pub coordinates: &'a str,
    /// The id that the transport gave it, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<&'a str>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport_base64: Option<Base64<'a>>,
    /// The headers.
    pub headers: Vec<Header<'a>>,
    /// The size of the payload.
    pub size_bytes: usize,
    /// The payload, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<&'a str>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<Base64<'a>>,
    /// The message.
    #[serde(skip)]
    pub message: &'a Parked,
}

/// A header of a message.
#[derive(Clone, Debug, Serialize)]
pub struct Header<'a> {
    /// The name.
    pub name: &'a str,
    /// The value, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a str>,
    /// The same, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_base64: Option<Base64<'a>>,
}

impl<'a> WholeMessage<'a> {
    /// Lays out a message of this kind.
    pub fn of(found: &'a Found, kind: Kind) -> Self {
        let message = &found.message;
        let (payload, payload_base64) = text_or_base64(&message.payload);
        let transport = message.transport.as_deref().map(text_or_base64);
        let (transport, transport_base64) = transport.unwrap_or_default();
        let headers = message.headers.iter().map(|(name, value)| {
            let (value, value_base64) = text_or_base64(value);
            Header {
                name,
                value,
                value_base64,
            }
        });
        let is_dead = kind == Kind::DeadLetters;
        let detail = Some(&*message.detail);
        Self {
            id: message.id().to_string(),
            key: message.key.as_ref().map(Key::as_str),
            operation_id: found.operation().map(|it| it.id().to_string()),
            pipeline: message.scope.operation(),
            tenant: tenant(&message.scope),
            state: found.standing(kind),
            reason: &message.reason,
            since: Time(message.since),
            error: detail.filter(|_| is_dead),
            detail: detail.filter(|_| !is_dead),
            coordinates: &message.coordinates,
            transport,
            transport_base64,
            headers: headers.collect(),
            size_bytes: message.payload.len(),
            payload,
            payload_base64,
            message,
        }
    }
}
