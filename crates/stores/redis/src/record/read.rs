//! Decodes a stored record.

use semel_core::attempt::past_from_bytes;
use semel_core::{
    ClaimId, Fingerprint, Key, Members, Operation, Outcome, Record, Recovery, Result, Scope, State,
    StateKind, Timestamp, VersionGate, Window,
};

use super::{FORMAT_BYTE, HELD, Stored, state_kind, token};
use crate::error::corrupt;
use crate::wire::{In, owned};

/// Reads a stored value.
pub(crate) fn decode(value: &[u8]) -> Result<Stored> {
    parse(value).ok_or_else(|| corrupt("record"))
}

fn parse(value: &[u8]) -> Option<Stored> {
    let mut input = In(value);
    if input.u8()? != FORMAT_BYTE {
        return None;
    }
    let (revision, at) = (input.u64()?, input.u64()?);
    let time = Timestamp::from_millis(at.wrapping_add(input.u64()?));
    let _forget = input.u64()?;
    let (state, flags) = (input.u8()?, input.u8()?);
    let (created, granted) = (input.u64()?, input.u64()?);
    let created_at = Timestamp::from_millis(input.u64()?);
    let number = input.u16()?;
    let claim_id = ClaimId::from_bytes(input.array()?);
    let mut kept = In(input.bytes()?);
    let mut head = In(input.bytes()?);
    let (attempts, vanished, possible_repeats) = (kept.u32()?, kept.u32()?, kept.u32()?);
    let absolute = |span: u64| Timestamp::from_millis(created_at.as_millis().wrapping_add(span));
    let claimed_at = absolute(kept.u64()?);
    let (is_started, started) = (kept.u8()? != 0, kept.u64()?);
    let (fingerprint, members) = match kept.maybe()? {
        None => (None, None),
        Some(bytes) => {
            let (fingerprint, members) = bytes.split_first_chunk()?;
            let members = match members {
                [] => None,
                members => Some(Members::from_bytes(members)?),
            };
            (Some(Fingerprint::from_bytes(*fingerprint)), members)
        }
    };
    let transport = kept.maybe()?.map(owned);
    let scope = Scope::new(kept.text()?, kept.text()?).ok()?;
    let key = Key::from_canonical(owned(kept.bytes()?))?;
    let entity = match kept.maybe()? {
        None => None,
        Some(entity) => Some(Key::from_canonical(owned(entity))?),
    };
    let version = kept.u64()?;
    let past = past_from_bytes(kept.0)?;
    let state = take_state(&mut head, state_kind(state)?, time)?;
    let doubt = take_recovery(&mut head)?;
    let last_error = match head.maybe()? {
        None => None,
        Some(error) => Some(std::str::from_utf8(error).ok()?.into()),
    };
    let (outcome, is_cut) = take_outcome(&mut head, input.0)?;
    head.is_empty().then(|| Stored {
        revision,
        created,
        operation: Operation::new(scope, key),
        record: Record {
            state,
            fingerprint,
            members,
            transport,
            claim_id,
            token: token(granted, number),
            claimed_at,
            attempts,
            vanished,
            possible_repeats,
            doubt,
            past,
            created_at,
            first_started_at: is_started.then(|| absolute(started)),
            last_error,
            gate: entity.map(|entity| VersionGate { entity, version }),
            held: flags & HELD != 0,
            outcome,
        },
        is_cut,
    })
}

fn take_state(head: &mut In<'_>, kind: StateKind, time: Timestamp) -> Option<State> {
    let mut window = || {
        let window = Window::new(head.duration()?);
        Some(window.with_margin(head.duration()?))
    };
    Some(match kind {
        StateKind::Claimed => State::Claimed { lease_until: time },
        StateKind::Started => State::Started {
            lease_until: time,
            recovery: take_recovery(head)??,
        },
        StateKind::Released => State::Released { not_before: time },
        StateKind::Completed => State::Completed {
            at: time,
            window: window()?,
        },
        StateKind::Dead => State::Dead {
            at: time,
            window: window()?,
        },
        StateKind::InDoubt => State::InDoubt { since: time },
    })
}

/// Reads the outcome, and whether its bytes were left out.
fn take_outcome(head: &mut In<'_>, rest: &[u8]) -> Option<(Option<Outcome>, bool)> {
    let outcome = match head.u8()? {
        0 => None,
        1 => {
            let (codec, len) = (head.u16()?, usize::try_from(head.u32()?).ok()?);
            if rest.is_empty() && len > 0 {
                return Some((None, true));
            }
            let bytes = (rest.len() == len).then(|| owned(rest))?;
            Some(Outcome::Kept { codec, bytes })
        }
        2 => Some(Outcome::TooLarge {
            len_bytes: head.u64()?,
            digest: head.array()?,
        }),
        _ => return None,
    };
    Some((outcome, false))
}

#[expect(clippy::option_option, reason = "the outer one is a fault")]
fn take_recovery(input: &mut In<'_>) -> Option<Option<Recovery>> {
    Some(match input.u8()? {
        0 => None,
        1 => Some(Recovery::Rerun),
        2 => Some(Recovery::Park),
        3 => Some(Recovery::RerunWithin(input.duration()?)),
        _ => return None,
    })
}
