//! Encoding of everything but records: entities, parked messages, entries of the audit trail.

use semel_core::parked::{headers_from_bytes, headers_to_bytes};
use semel_core::{
    Audited, ClaimId, Entity, EntityRecord, Key, Note, Parked, ParkedId, Result, Scope, Timestamp,
};

use crate::error::corrupt;
use crate::record::FORMAT_BYTE;
use crate::wire::{In, Out, owned};

/// An entity as it was found: its revision, which tells this writing from others, and its contents.
pub(crate) struct StoredEntity {
    pub(crate) revision: u64,
    pub(crate) scope: Scope,
    pub(crate) entity: Entity,
    pub(crate) record: EntityRecord,
}

/// Encodes an entity as `commit.lua` takes it.
pub(crate) fn entity(scope: &Scope, entity: &Entity, record: &EntityRecord) -> Vec<u8> {
    let mut out = Out::default();
    out.u8(record.applied.is_some().into());
    out.u64(record.applied.unwrap_or(0));
    out.u8(record.holder.is_some().into());
    if let Some((claim, until)) = record.holder {
        out.raw(&claim.to_bytes());
        out.u64(until.as_millis());
    }
    out.bytes(scope.tenant().as_bytes());
    out.bytes(scope.operation().as_bytes());
    out.bytes(entity.as_bytes());
    out.0
}

/// Reads a stored entity.
pub(crate) fn decode_entity(value: &[u8]) -> Result<StoredEntity> {
    let parse = || {
        let mut input = In(value);
        if input.u8()? != FORMAT_BYTE {
            return None;
        }
        let revision = input.u64()?;
        let (is_applied, applied) = (input.u8()? != 0, input.u64()?);
        let holder = match input.u8()? {
            0 => None,
            1 => Some((
                ClaimId::from_bytes(input.array()?),
                Timestamp::from_millis(input.u64()?),
            )),
            _ => return None,
        };
        let scope = Scope::new(input.text()?, input.text()?).ok()?;
        let entity = Key::from_canonical(owned(input.bytes()?))?;
        input.is_empty().then_some(StoredEntity {
            revision,
            scope,
            entity,
            record: EntityRecord {
                applied: is_applied.then_some(applied),
                holder,
            },
        })
    };
    parse().ok_or_else(|| corrupt("entity"))
}

/// Encodes a message as `park.lua` takes it; without `since` it is set aside now.
pub(crate) fn parked(id: ParkedId, message: &Parked, since: Option<Timestamp>) -> Vec<u8> {
    let mut out = Out::with_capacity(message.payload.len() + 256);
    out.raw(&id.to_bytes());
    out.u8(since.is_some().into());
    out.u64(since.map_or(0, Timestamp::as_millis));
    out.bytes(message.scope.tenant().as_bytes());
    out.bytes(message.scope.operation().as_bytes());
    out.maybe(message.key.as_ref().map(Key::as_bytes));
    out.bytes(message.reason.as_bytes());
    out.bytes(message.detail.as_bytes());
    out.maybe(message.transport.as_deref());
    out.bytes(message.coordinates.as_bytes());
    out.bytes(&headers_to_bytes(&message.headers));
    out.raw(&message.payload);
    out.0
}

/// Reads a stored message.
pub(crate) fn decode_parked(value: &[u8]) -> Result<Parked> {
    let parse = || {
        let mut input = In(value);
        let since = Timestamp::from_millis(input.u64()?);
        Some(Parked {
            since,
            scope: Scope::new(input.text()?, input.text()?).ok()?,
            key: take_key(&mut input)?,
            reason: input.text()?.into(),
            detail: input.text()?.into(),
            transport: input.maybe()?.map(owned),
            coordinates: input.text()?.into(),
            headers: headers_from_bytes(input.bytes()?)?,
            payload: owned(input.0),
        })
    };
    parse().ok_or_else(|| corrupt("parked message"))
}

/// Encodes an entry of the audit trail: its digest, and its text.
pub(crate) fn audited(entry: &Audited) -> ([u8; 16], Vec<u8>) {
    let mut out = Out::default();
    out.u64(entry.at.as_millis());
    out.bytes(entry.note.by.as_bytes());
    out.bytes(entry.note.reason.as_bytes());
    out.bytes(entry.action.as_bytes());
    out.u8(entry.scope.is_some().into());
    if let Some(scope) = &entry.scope {
        out.bytes(scope.tenant().as_bytes());
        out.bytes(scope.operation().as_bytes());
    }
    out.maybe(entry.key.as_ref().map(Key::as_bytes));
    out.bytes(entry.before.as_bytes());
    out.bytes(entry.after.as_bytes());
    let mut digest = [0; 16];
    blake3::Hasher::new_derive_key("semel 2026-11 audit entry digest v1")
        .update(&out.0)
        .finalize_xof()
        .fill(&mut digest);
    (digest, out.0)
}

/// Reads a stored entry.
pub(crate) fn decode_audited(value: &[u8]) -> Result<Audited> {
    let parse = || {
        let mut input = In(value);
        let at = Timestamp::from_millis(input.u64()?);
        let note = Note {
            by: input.text()?.into(),
            reason: input.text()?.into(),
        };
        let action = input.text()?.into();
        let scope = match input.u8()? {
            0 => None,
            1 => Some(Scope::new(input.text()?, input.text()?).ok()?),
            _ => return None,
        };
        let key = take_key(&mut input)?;
        let (before, after) = (input.text()?.into(), input.text()?.into());
        input.is_empty().then_some(Audited {
            at,
            note,
            action,
            scope,
            key,
            before,
            after,
        })
    };
    parse().ok_or_else(|| corrupt("entry of the audit trail"))
}

#[expect(clippy::option_option, reason = "the outer one is a fault")]
fn take_key(input: &mut In<'_>) -> Option<Option<Key>> {
    match input.maybe()? {
        None => Some(None),
        Some(key) => Key::from_canonical(owned(key)).map(Some),
    }
}
