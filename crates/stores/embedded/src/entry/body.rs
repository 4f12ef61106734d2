//! Encoding of everything but records.

use bytes::Bytes;
use semel_core::parked::{headers_from_bytes, headers_to_bytes};
use semel_core::{ClaimId, EntityRecord, Key, Mark, Parked, ParkedId, Scope, Timestamp};

use super::identity::put_identity;
use crate::wire::{Put, Take};

/// Contents of a segment's first entry.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SegmentBody {
    /// Id of the store that it belongs to.
    pub(crate) store_id: [u8; 16],
    /// Time at which the segment was begun, on the store's clock.
    pub(crate) created_at: Timestamp,
    /// Number of entries in the segment before that replaced a finished record; unknown in segments
    /// that do not say. Where it is 0, a reader of older segments need not look there.
    pub(crate) revised_before: Option<u64>,
}

impl SegmentBody {
    pub(crate) fn decode(meta: &[u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        let (store_id, created_at) = (take.array()?, take.timestamp()?);
        let revised_before = if take.is_empty() {
            None
        } else {
            Some(take.number()?)
        };
        take.is_empty().then_some(Self {
            store_id,
            created_at,
            revised_before,
        })
    }
}

pub(crate) fn put_segment(buffer: &mut Vec<u8>, body: &SegmentBody) {
    buffer.extend_from_slice(&body.store_id);
    buffer.put_number(body.created_at.as_millis());
    if let Some(revised) = body.revised_before {
        buffer.put_number(revised);
    }
}

/// An entity record with its identity.
#[derive(Debug)]
pub(crate) struct EntityBody {
    pub(crate) scope: Scope,
    pub(crate) entity: Key,
    pub(crate) record: EntityRecord,
    /// Set if another store gave out the lease of its holder.
    pub(crate) has_foreign_lease: bool,
}

impl EntityBody {
    pub(crate) fn decode(meta: &[u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        let scope = Scope::new(take.text()?, take.text()?).ok()?;
        let entity = Key::from_canonical(Bytes::copy_from_slice(take.bytes()?))?;
        let flags = take.byte()?;
        let mut record = EntityRecord::default();
        if flags & 1 != 0 {
            record.applied = Some(take.number()?);
        }
        if flags & 2 != 0 {
            record.holder = Some((ClaimId::from_bytes(take.array()?), take.timestamp()?));
        }
        (take.is_empty() && flags < 8).then_some(Self {
            scope,
            entity,
            record,
            has_foreign_lease: flags & 4 != 0,
        })
    }
}

pub(crate) fn put_entity(
    buffer: &mut Vec<u8>,
    scope: &Scope,
    entity: &Key,
    record: &EntityRecord,
    has_foreign_lease: bool,
) {
    put_identity(buffer, scope, entity);
    let is_held = record.holder.is_some();
    buffer.push(
        u8::from(record.applied.is_some())
            | u8::from(is_held) << 1
            | u8::from(is_held && has_foreign_lease) << 2,
    );
    if let Some(applied) = record.applied {
        buffer.put_number(applied);
    }
    if let Some((claim_id, until)) = record.holder {
        buffer.extend_from_slice(&claim_id.to_bytes());
        buffer.put_number(until.as_millis());
    }
}

/// A mark.
#[derive(Debug)]
pub(crate) struct MarkBody<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: u64,
}

impl<'a> MarkBody<'a> {
    pub(crate) fn decode(meta: &'a [u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        let body = Self {
            name: take.text()?,
            value: take.number()?,
        };
        take.is_empty().then_some(body)
    }
}

pub(crate) fn put_mark(buffer: &mut Vec<u8>, mark: &Mark) {
    buffer.put_bytes(mark.name.as_bytes());
    buffer.put_number(mark.value);
}

/// A parked message without its payload, which is the tail.
#[derive(Debug)]
pub(crate) struct ParkedBody {
    pub(crate) id: ParkedId,
    /// Number that rises with every message that is parked; lists are in this order.
    pub(crate) order: u64,
    /// The message; its payload is empty.
    pub(crate) message: Parked,
}

impl ParkedBody {
    pub(crate) fn decode(meta: &[u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        let id = ParkedId::from_bytes(take.array()?);
        let order = take.number()?;
        let scope = Scope::new(take.text()?, take.text()?).ok()?;
        let flags = take.byte()?;
        let mut bytes_if = |flag: u8| {
            if flags & flag == 0 {
                return Some(None);
            }
            take.bytes()
                .map(|bytes| Some(Bytes::copy_from_slice(bytes)))
        };
        let key = match bytes_if(1)? {
            None => None,
            Some(text) => Some(Key::from_canonical(text)?),
        };
        let transport = bytes_if(2)?;
        let headers = match bytes_if(4)? {
            None => Vec::new(),
            Some(bytes) => headers_from_bytes(&bytes)?,
        };
        let message = Parked {
            scope,
            key,
            reason: take.text()?.into(),
            detail: take.text()?.into(),
            transport,
            coordinates: take.text()?.into(),
            headers,
            payload: Bytes::new(),
            since: take.timestamp()?,
        };
        (take.is_empty() && flags < 8).then_some(Self { id, order, message })
    }
}

pub(crate) fn put_parked(
    buffer: &mut Vec<u8>,
    id: ParkedId,
    order: u64,
    message: &Parked,
    since: Timestamp,
) {
    buffer.extend_from_slice(&id.to_bytes());
    buffer.put_number(order);
    buffer.put_bytes(message.scope.tenant().as_bytes());
    buffer.put_bytes(message.scope.operation().as_bytes());
    let flags = [
        message.key.is_some(),
        message.transport.is_some(),
        !message.headers.is_empty(),
    ];
    buffer.push(
        flags
            .iter()
            .rev()
            .fold(0, |bits, flag| bits << 1 | u8::from(*flag)),
    );
    if let Some(key) = &message.key {
        buffer.put_bytes(key.as_bytes());
    }
    if let Some(transport) = &message.transport {
        buffer.put_bytes(transport);
    }
    if !message.headers.is_empty() {
        buffer.put_bytes(&headers_to_bytes(&message.headers));
    }
    buffer.put_bytes(message.reason.as_bytes());
    buffer.put_bytes(message.detail.as_bytes());
    buffer.put_bytes(message.coordinates.as_bytes());
    buffer.put_number(since.as_millis());
}

/// Reads the id of a parked message alone.
pub(crate) fn take_parked_id(meta: &[u8]) -> Option<ParkedId> {
    Take::new(meta).array().map(ParkedId::from_bytes)
}

pub(crate) fn put_dropped(buffer: &mut Vec<u8>, id: ParkedId) {
    buffer.extend_from_slice(&id.to_bytes());
}

pub(crate) fn take_dropped(meta: &[u8]) -> Option<ParkedId> {
    Some(ParkedId::from_bytes(meta.try_into().ok()?))
}
