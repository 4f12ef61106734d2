//! Encoding of records.

use bytes::Bytes;
use semel_core::attempt::{past_from_bytes, past_to_bytes};
use semel_core::{
    ClaimId, FencingToken, Fingerprint, Key, Members, Outcome, Record, Recovery, State, StateKind,
    VersionGate, Window,
};

use super::identity::Identity;
use crate::wire::{Put, Take};

/// Writes the meta part of a record; returns the bytes that belong into the tail.
/// `has_foreign_lease`: another store gave out its lease, so no lock here proves that its holder is
/// gone.
#[inline]
pub(crate) fn put_record<'r>(
    buffer: &mut Vec<u8>,
    identity: Identity<'_>,
    record: &'r Record,
    has_foreign_lease: bool,
) -> &'r [u8] {
    buffer.extend_from_slice(identity.0);
    put_record_body(buffer, record, has_foreign_lease)
}

/// Writes the part behind the identity; returns the bytes that belong into the tail.
#[inline]
pub(crate) fn put_record_body<'r>(
    buffer: &mut Vec<u8>,
    record: &'r Record,
    has_foreign_lease: bool,
) -> &'r [u8] {
    let more = more_of(record, has_foreign_lease);
    let flags = flags_of(record) | if more == 0 { 0 } else { MORE };
    buffer.extend_from_slice(&flags.to_le_bytes());
    if more != 0 {
        buffer.push(more);
    }
    match record.state {
        State::Claimed { lease_until } => buffer.put_number(lease_until.as_millis()),
        State::Started {
            lease_until,
            recovery,
        } => {
            buffer.put_number(lease_until.as_millis());
            buffer.push(recovery_code(recovery));
            put_provider_window(buffer, recovery);
        }
        State::Released { not_before } => buffer.put_number(not_before.as_millis()),
        State::Completed { at, window } | State::Dead { at, window } => {
            buffer.put_number(at.as_millis());
            buffer.put_duration(window.duration());
            if !has_default_margin(window) {
                buffer.put_duration(window.margin());
            }
        }
        State::InDoubt { since } => buffer.put_number(since.as_millis()),
    }
    buffer.extend_from_slice(&record.claim_id.to_bytes());
    buffer.put_number(record.token.get());
    buffer.put_number(u64::from(record.attempts));
    buffer.put_number(u64::from(record.vanished));
    buffer.put_number(u64::from(record.possible_repeats));
    buffer.put_number(record.created_at.as_millis());
    if record.claimed_at != record.created_at {
        buffer.put_number(record.claimed_at.as_millis());
    }
    if let Some(recovery) = record.doubt {
        put_provider_window(buffer, recovery);
    }
    if let Some(at) = record.first_started_at {
        buffer.put_number(at.as_millis());
    }
    if let Some(fingerprint) = record.fingerprint {
        buffer.extend_from_slice(&fingerprint.to_bytes());
    }
    if let Some(members) = &record.members {
        buffer.put_bytes(members.as_bytes());
    }
    if let Some(transport) = &record.transport {
        buffer.put_bytes(transport);
    }
    if let Some(error) = &record.last_error {
        buffer.put_bytes(error.as_bytes());
    }
    if let Some(gate) = &record.gate {
        buffer.put_bytes(gate.entity.as_bytes());
        buffer.put_number(gate.version);
    }
    if !record.past.is_empty() {
        buffer.put_bytes(&past_to_bytes(&record.past));
    }
    match &record.outcome {
        None => &[],
        Some(Outcome::Kept { codec, bytes }) => {
            buffer.put_number(u64::from(*codec));
            bytes
        }
        Some(Outcome::TooLarge { len_bytes, digest }) => {
            buffer.put_number(*len_bytes);
            buffer.extend_from_slice(digest);
            &[]
        }
    }
}

/// A record as read from disk: everything but the bytes of a kept outcome, which are the tail.
#[derive(Debug)]
pub(crate) struct RecordBody<'a> {
    pub(crate) identity: Identity<'a>,
    rest: Take<'a>,
}

impl<'a> RecordBody<'a> {
    /// Splits off the identity, which is all that a comparison needs.
    pub(crate) fn new(meta: &'a [u8]) -> Option<Self> {
        let mut take = Take::new(meta);
        for _ in 0..3 {
            take.bytes()?;
        }
        let identity = Identity(&meta[..meta.len() - take.len()]);
        Some(Self {
            identity,
            rest: take,
        })
    }

    /// Returns whether there is an outcome, read or not.
    pub(crate) fn has_outcome(&self) -> bool {
        let mut take = self.rest;
        take.u16()
            .is_some_and(|flags| (flags >> OUTCOME_SHIFT) & 3 != 0)
    }

    /// Returns whether this version may have replaced a finished one.
    pub(crate) fn may_revise(&self) -> bool {
        let mut take = self.rest;
        take.u16().is_none_or(|flags| {
            let is_finished = matches!(flags & STATE, 3 | 4);
            !is_finished || flags & HELD != 0
        })
    }

    /// Returns whether another store gave out its lease.
    pub(crate) fn has_foreign_lease(&self) -> bool {
        let mut take = self.rest;
        take.u16()
            .and_then(|flags| take_more(&mut take, flags))
            .is_some_and(|more| more & FOREIGN_LEASE != 0)
    }

    /// Returns the state alone, and whether the record is held.
    #[inline]
    pub(crate) fn state(&self) -> Option<(State, bool)> {
        let mut take = self.rest;
        let flags = take.u16()?;
        take_more(&mut take, flags)?;
        Some((take_state(&mut take, flags)?, flags & HELD != 0))
    }

    /// Returns the record. Its outcome has the bytes of `tail`, or is left out where no tail was
    /// read.
    pub(crate) fn record(&self, tail: Option<&[u8]>) -> Option<Record> {
        let mut take = self.rest;
        let flags = take.u16()?;
        let more = take_more(&mut take, flags)?;
        let state = take_state(&mut take, flags)?;
        let claim_id = ClaimId::from_bytes(take.array()?);
        let token = FencingToken::new(take.number()?);
        let attempts = take.small()?;
        let vanished = take.small()?;
        let possible_repeats = take.small()?;
        let created_at = take.timestamp()?;
        let claimed_at = take_if(flags & CLAIMED_AGAIN, || take.timestamp()).ok()?;
        let doubt = match (flags >> DOUBT_SHIFT) & 3 {
            0 => None,
            code => Some(take_recovery(&mut take, u8::try_from(code - 1).ok()?)?),
        };
        let first_started_at = take_if(flags & FIRST_STARTED, || take.timestamp()).ok()?;
        let fingerprint = take_if(flags & FINGERPRINT, || {
            take.array().map(Fingerprint::from_bytes)
        })
        .ok()?;
        let members = take_if(u16::from(more & MEMBERS), || {
            Members::from_bytes(take.bytes()?)
        })
        .ok()?;
        let transport = take_if(flags & TRANSPORT, || {
            take.bytes().map(Bytes::copy_from_slice)
        })
        .ok()?;
        let last_error = take_if(flags & LAST_ERROR, || take.text().map(Box::from)).ok()?;
        let gate = take_if(flags & GATE, || {
            let entity = Key::from_canonical(Bytes::copy_from_slice(take.bytes()?))?;
            Some(VersionGate {
                entity,
                version: take.number()?,
            })
        })
        .ok()?;
        let past = take_if(u16::from(more & PAST), || past_from_bytes(take.bytes()?)).ok()?;
        let outcome = match (flags >> OUTCOME_SHIFT) & 3 {
            0 => None,
            1 => {
                let codec = u16::try_from(take.number()?).ok()?;
                tail.map(|tail| Outcome::Kept {
                    codec,
                    bytes: Bytes::copy_from_slice(tail),
                })
            }
            2 => Some(Outcome::TooLarge {
                len_bytes: take.number()?,
                digest: take.array()?,
            }),
            _ => return None,
        };
        take.is_empty().then_some(Record {
            claimed_at: claimed_at.unwrap_or(created_at),
            past: past.unwrap_or_default(),
            state,
            fingerprint,
            members,
            transport,
            claim_id,
            token,
            attempts,
            vanished,
            possible_repeats,
            doubt,
            created_at,
            first_started_at,
            last_error,
            gate,
            held: flags & HELD != 0,
            outcome: outcome.filter(|_| tail.is_some()),
        })
    }
}

/// Takes a field that is there only with its flag.
fn take_if<T>(flag: u16, take: impl FnOnce() -> Option<T>) -> Result<Option<T>, Cut> {
    if flag == 0 {
        Ok(None)
    } else {
        take().map(Some).ok_or(Cut)
    }
}

/// Error of a meta part that ends too early.
struct Cut;

/// Takes the further flags; unknown ones are refused.
fn take_more(take: &mut Take<'_>, flags: u16) -> Option<u8> {
    if flags & MORE == 0 {
        return Some(0);
    }
    take.byte()
        .filter(|more| more & !(PAST | FOREIGN_LEASE | MEMBERS) == 0)
}

fn take_state(take: &mut Take<'_>, flags: u16) -> Option<State> {
    let at = take.timestamp()?;
    let state = match StateKind::ALL.get(usize::from(flags & STATE))? {
        StateKind::Claimed => State::Claimed { lease_until: at },
        StateKind::Started => {
            let code = take.byte()?;
            State::Started {
                lease_until: at,
                recovery: take_recovery(take, code)?,
            }
        }
        StateKind::Released => State::Released { not_before: at },
        StateKind::Completed => State::Completed {
            at,
            window: take_window(take, flags)?,
        },
        StateKind::Dead => State::Dead {
            at,
            window: take_window(take, flags)?,
        },
        StateKind::InDoubt => State::InDoubt { since: at },
    };
    Some(state)
}

fn take_window(take: &mut Take<'_>, flags: u16) -> Option<Window> {
    let window = Window::new(take.duration()?);
    if flags & OWN_MARGIN == 0 {
        return Some(window);
    }
    Some(window.with_margin(take.duration()?))
}

fn take_recovery(take: &mut Take<'_>, code: u8) -> Option<Recovery> {
    match code {
        0 => Some(Recovery::Rerun),
        1 => take.duration().map(Recovery::RerunWithin),
        2 => Some(Recovery::Park),
        _ => None,
    }
}

const fn recovery_code(recovery: Recovery) -> u8 {
    match recovery {
        Recovery::Rerun => 0,
        Recovery::RerunWithin(_) => 1,
        Recovery::Park => 2,
    }
}

fn put_provider_window(buffer: &mut Vec<u8>, recovery: Recovery) {
    if let Recovery::RerunWithin(window) = recovery {
        buffer.put_duration(window);
    }
}

fn has_default_margin(window: Window) -> bool {
    Window::new(window.duration()) == window
}

fn flags_of(record: &Record) -> u16 {
    let (state, own_margin) = match record.state {
        State::Claimed { .. } => (0, false),
        State::Started { .. } => (1, false),
        State::Released { .. } => (2, false),
        State::Completed { window, .. } => (3, !has_default_margin(window)),
        State::Dead { window, .. } => (4, !has_default_margin(window)),
        State::InDoubt { .. } => (5, false),
    };
    let doubt = record
        .doubt
        .map_or(0, |recovery| u16::from(recovery_code(recovery)) + 1);
    let outcome = match record.outcome {
        None => 0,
        Some(Outcome::Kept { .. }) => 1,
        Some(Outcome::TooLarge { .. }) => 2,
    };
    let when = |is: bool, flag: u16| if is { flag } else { 0 };
    state
        | doubt << DOUBT_SHIFT
        | outcome << OUTCOME_SHIFT
        | when(own_margin, OWN_MARGIN)
        | when(record.first_started_at.is_some(), FIRST_STARTED)
        | when(record.fingerprint.is_some(), FINGERPRINT)
        | when(record.transport.is_some(), TRANSPORT)
        | when(record.last_error.is_some(), LAST_ERROR)
        | when(record.gate.is_some(), GATE)
        | when(record.held, HELD)
        | when(record.claimed_at != record.created_at, CLAIMED_AGAIN)
}

fn more_of(record: &Record, has_foreign_lease: bool) -> u8 {
    let has_past = !record.past.is_empty();
    let is_leased = matches!(record.state, State::Claimed { .. } | State::Started { .. });
    (if has_past { PAST } else { 0 })
        | (if has_foreign_lease && is_leased {
            FOREIGN_LEASE
        } else {
            0
        })
        | (if record.members.is_some() { MEMBERS } else { 0 })
}

const STATE: u16 = 7;
const DOUBT_SHIFT: u16 = 3;
const OUTCOME_SHIFT: u16 = 5;
const OWN_MARGIN: u16 = 1 << 7;
const FIRST_STARTED: u16 = 1 << 8;
const FINGERPRINT: u16 = 1 << 9;
const TRANSPORT: u16 = 1 << 10;
const LAST_ERROR: u16 = 1 << 11;
const GATE: u16 = 1 << 12;
const HELD: u16 = 1 << 13;
const CLAIMED_AGAIN: u16 = 1 << 14;
const MORE: u16 = 1 << 15;
/// Further flags.
const PAST: u8 = 1;
const FOREIGN_LEASE: u8 = 1 << 1;
const MEMBERS: u8 = 1 << 2;

#[cfg(test)]
mod tests;
