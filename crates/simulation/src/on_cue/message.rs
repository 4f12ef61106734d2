//! Messages: small JSON objects with a key, and whatever a test adds.

use bytes::Bytes;
use semel_core::{ByteString, Timestamp};

/// A message as a producer publishes it.
#[derive(Clone, Debug)]
pub struct Message {
    pub payload: Bytes,
    /// The same for each redelivery; a republished message has its own.
    pub coordinates: ByteString,
    pub appended_at: Option<Timestamp>,
    pub oversize_bytes: Option<u64>,
}

impl Message {
    /// A message with this key and nothing else.
    pub fn of(key: &str) -> Self {
        Self::raw(format!("{{\"key\":\"{key}\"}}"))
    }

    /// A message with this key and further members.
    pub fn with(key: &str, members: &str) -> Self {
        Self::raw(format!("{{\"key\":\"{key}\",{members}}}"))
    }

    pub fn raw(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            coordinates: "".into(),
            appended_at: None,
            oversize_bytes: None,
        }
    }

    pub fn born(self, appended_at: Timestamp) -> Self {
        Self {
            appended_at: Some(appended_at),
            ..self
        }
    }

    pub fn oversize(self, len_bytes: u64) -> Self {
        Self {
            oversize_bytes: Some(len_bytes),
            ..self
        }
    }
}

/// The string or number member `name` of a payload, as text.
pub fn member(payload: &[u8], name: &str) -> Option<String> {
    let text = std::str::from_utf8(payload).ok()?;
    let (_, rest) = text.split_once(&format!("\"{name}\":"))?;
    let end = rest.find([',', '}'])?;
    Some(rest[..end].trim_matches('"').to_owned())
}
