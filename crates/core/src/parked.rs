//! Messages set aside with their payload: quarantined, dead or in doubt.
//!
//! The engine parks such a message before it acknowledges it. Parking twice is harmless, because the id
//! follows from the message. Decision 0003.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

use crate::audit::{Audited, Note};
use crate::key::{Key, Scope, Unusable};
use crate::operation::Operation;
use crate::time::Timestamp;

/// The reason why a message was set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Quarantined: it yields no usable key.
    Unusable(Unusable),
    /// Quarantined: its key belongs to another request.
    Conflict,
    /// Quarantined: it has no record and is older than the window.
    TooOld,
    /// Quarantined: it is sent again, it has no record, and its effect is for live messages alone.
    LiveOnly,
    /// Its operation is dead; this is the dead letter.
    Dead,
    /// Its operation is in doubt.
    InDoubt,
}

impl Reason {
    /// The reason as stored and printed.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unusable(unusable) => unusable.code(),
            Self::Conflict => "fingerprint-conflict",
            Self::TooOld => "too-old",
            Self::LiveOnly => "live-only",
            Self::Dead => "dead",
            Self::InDoubt => "in-doubt",
        }
    }

    /// Returns whether the message is quarantined, as opposed to dead or in doubt.
    pub const fn is_quarantined(&self) -> bool {
        matches!(
            self,
            Self::Unusable(_) | Self::Conflict | Self::TooOld | Self::LiveOnly
        )
    }
}

/// Identity of a parked message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParkedId([u8; 16]);

impl ParkedId {
    /// The id with these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The id of the one message that is parked for `operation` as a dead letter
    /// ([`Reason::Dead`]) or in doubt ([`Reason::InDoubt`]).
    pub fn of(operation: &Operation, reason: &Reason) -> Self {
        let mut id = Identity::begin(&operation.scope, reason.code());
        id.part(operation.key.as_bytes());
        id.finish()
    }
}

impl fmt::Display for ParkedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ParkedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParkedId({self})")
    }
}

/// Names and values, in the order of the broker.
pub type Headers = Vec<(ByteString, Bytes)>;

/// A message set aside, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// The scope of its operation.
    pub scope: Scope,
    /// Its key, if it has a usable one.
    pub key: Option<Key>,
    /// The [`Reason::code`] of the reason why it was set aside.
    pub reason: Box<str>,
    /// One line for people: which selector, which error.
    pub detail: Box<str>,
    /// Identity of the delivery at its broker.
    pub transport: Option<Bytes>,
    /// The place from which it was read: topic, partition and offset, or file and line.
    pub coordinates: ByteString,
    /// Its headers, in the order of the broker.
    pub headers: Headers,
    /// The message, byte for byte.
    pub payload: Bytes,
    /// The time at which it was set aside, on the store's clock; a store sets it on the first put.
    pub since: Timestamp,
}

impl Parked {
    /// The id of this message: one per operation if the operation is dead or in doubt, else one per
    /// delivery, so that a redelivery of the same bad message is the same entry. PRK-1.
    pub fn id(&self) -> ParkedId {
        let mut id = Identity::begin(&self.scope, &self.reason);
        match &self.key {
            Some(key) if matches!(&*self.reason, "dead" | "in-doubt") => id.part(key.as_bytes()),
            Some(_) | None => {
                id.part(
                    self.transport
                        .as_deref()
                        .unwrap_or(self.coordinates.as_bytes()),
                );
                id.part(&self.payload);
            }
        }
        id.finish()
    }

    /// A copy in memory of its own; see [`Record::detached`](crate::Record::detached).
    #[must_use]
    pub fn detached(&self) -> Self {
        let headers = self.headers.iter();
        let headers = headers.map(|(name, value)| ((**name).into(), Bytes::copy_from_slice(value)));
        Self {
            key: self.key.as_ref().map(Key::detached),
            transport: self.transport.as_deref().map(Bytes::copy_from_slice),
            coordinates: (*self.coordinates).into(),
            headers: headers.collect(),
            payload: Bytes::copy_from_slice(&self.payload),
            ..self.clone()
        }
    }

    /// The entry of the audit trail that records its drop. AUD-1.
    pub fn dropped(&self, note: &Note, at: Timestamp) -> Audited {
        Audited {
            at,
            note: note.clone(),
            action: "drop".into(),
            scope: Some(self.scope.clone()),
            key: self.key.as_ref().map(Key::detached),
            before: format!("message kept: {}", self.reason).into(),
            after: "message dropped".into(),
        }
    }
}

/// The digest from which a [`ParkedId`] is made.
struct Identity(blake3::Hasher);

impl Identity {
    fn begin(scope: &Scope, reason: &str) -> Self {
        let mut id = Self(blake3::Hasher::new_derive_key(
            "semel 2026-11 parked message id v1",
        ));
        id.part(scope.tenant().as_bytes());
        id.part(scope.operation().as_bytes());
        id.part(reason.as_bytes());
        id
    }

    fn part(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    fn finish(self) -> ParkedId {
        let mut id = [0; 16];
        self.0.finalize_xof().fill(&mut id);
        ParkedId(id)
    }
}

/// Headers as stores keep them: the length of each name and value in four bytes, least significant
/// first, and its bytes.
pub fn headers_to_bytes(headers: &[(ByteString, Bytes)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in headers {
        for part in [name.as_bytes(), value] {
            // No source hands over a header of four gigabytes.
            let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    bytes
}

/// The headers that [`headers_to_bytes`] wrote, or nothing if the bytes are none.
pub fn headers_from_bytes(mut bytes: &[u8]) -> Option<Headers> {
    let mut headers = Vec::new();
    while !bytes.is_empty() {
        let name = std::str::from_utf8(take_part(&mut bytes)?).ok()?.into();
        headers.push((name, Bytes::copy_from_slice(take_part(&mut bytes)?)));
    }
    Some(headers)
}

fn take_part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?)?;
    *bytes = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parked(reason: &str, key: Option<&str>, transport: Option<&'static [u8]>) -> Parked {
        Parked {
            scope: Scope::new("t", "charge").expect("a scope"),
            key: key.map(|key| Key::new(key).expect("a key")),
            reason: reason.into(),
            detail: "".into(),
            transport: transport.map(Bytes::from_static),
            coordinates: "orders/3/17".into(),
            headers: Vec::new(),
            payload: Bytes::from_static(b"{}"),
            since: Timestamp::EPOCH,
        }
    }

    #[test]
    fn a_detached_one_keeps_no_memory_of_what_it_was_cut_from() {
        let read = Bytes::from_static(b"pay-1 x 7");
        let text = |range| ByteString::try_from(read.slice(range)).expect("text");
        let message = Parked {
            key: Some(Key::shared(read.slice(..5)).expect("a key")),
            transport: Some(read.slice(..5)),
            coordinates: text(..5),
            headers: vec![(text(..5), read.slice(6..))],
            payload: read.slice(..),
            ..parked("dead", None, None)
        };
        let detached = message.detached();
        assert_eq!(detached, message);
        let (name, value) = &detached.headers[0];
        let key = detached.key.as_ref().map(Key::as_bytes);
        let parts = [
            key.expect("a key"),
            detached.transport.as_deref().expect("an id"),
            detached.coordinates.as_bytes(),
            name.as_bytes(),
            value,
            &detached.payload,
        ];
        for part in parts {
            assert!(!read.as_ptr_range().contains(&part.as_ptr()), "{part:?}");
        }
    }

    #[test]
    fn one_message_is_parked_for_an_operation_and_else_one_for_a_delivery() {
        for (reason, code) in [(Reason::Dead, "dead"), (Reason::InDoubt, "in-doubt")] {
            let of_operation = parked(code, Some("a"), Some(b"1")).id();
            assert_eq!(of_operation, parked(code, Some("a"), Some(b"2")).id());
            assert_ne!(of_operation, parked(code, Some("b"), Some(b"1")).id());
            let operation = Operation::new(
                Scope::new("t", "charge").expect("a scope"),
                Key::new("a").expect("a key"),
            );
            assert_eq!(of_operation, ParkedId::of(&operation, &reason));
        }
        let of_delivery = parked("conflict", Some("a"), Some(b"1")).id();
        assert_eq!(of_delivery, parked("conflict", Some("b"), Some(b"1")).id());
        assert_ne!(of_delivery, parked("conflict", Some("a"), Some(b"2")).id());
        // Without an id of the broker, the place identifies the message, together with its payload.
        let mut placed = parked("conflict", None, None);
        let of_place = placed.id();
        placed.payload = Bytes::from_static(b"[]");
        assert_ne!(of_place, placed.id());
        placed.payload = Bytes::from_static(b"{}");
        placed.coordinates = "orders/3/18".into();
        assert_ne!(of_place, placed.id());
    }

    #[test]
    fn what_is_dead_or_in_doubt_is_not_quarantined() {
        let quarantined = [
            Reason::Unusable(Unusable::KeyMissing {
                at: "json:/id".into(),
            }),
            Reason::Conflict,
            Reason::TooOld,
            Reason::LiveOnly,
        ];
        assert!(quarantined.iter().all(Reason::is_quarantined));
        for reason in [Reason::Dead, Reason::InDoubt] {
            assert!(!reason.is_quarantined(), "{reason:?}");
        }
    }

    #[test]
    fn an_id_reads_as_its_bytes() {
        let id = parked("dead", Some("a"), None).id();
        let text = id.to_string();
        let digits = id.to_bytes().into_iter().map(|byte| format!("{byte:02x}"));
        assert_eq!(text, digits.collect::<String>());
        assert_eq!(text.len(), 32);
    }

    #[test]
    fn headers_come_back_as_they_were() {
        let headers: Headers = vec![
            ("event-id".into(), Bytes::from_static(b"evt_1")),
            ("".into(), Bytes::new()),
            ("event-id".into(), Bytes::from_static(b"\xff\x00")),
        ];
        let bytes = headers_to_bytes(&headers);
        assert_eq!(headers_from_bytes(&bytes), Some(headers));
        assert_eq!(headers_from_bytes(&[]), Some(Vec::new()));
        for end in 1..bytes.len() {
            let cut = headers_from_bytes(&bytes[..end]);
            assert!(cut.is_none_or(|headers| headers.len() < 3), "cut at {end}");
        }
        assert_eq!(headers_from_bytes(&[9, 0, 0, 0, 1]), None);
    }
}
