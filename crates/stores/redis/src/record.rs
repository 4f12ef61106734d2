//! Records as they are stored: stamps and times of the scripts, then what never moves, then the state.
//!
//! The offsets of the first part are known to the scripts; docs/spec/redis.md draws it. Every time but
//! `created_at` and `at` is kept relative to one of these two, so that a record can be made ready before the
//! server says what time it is. Not for deciding: that is `semel_core::decide`.

use std::time::Duration;

use semel_core::attempt::{past_from_bytes, past_to_bytes};
use semel_core::{
    ClaimId, FencingToken, Fingerprint, Key, Operation, Outcome, Record, Recovery, Result, Scope,
    State, StateKind, Timestamp, VersionGate, Window,
};

use crate::error::corrupt;
use crate::wire::{In, Out, owned};

/// A record as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Tells this writing of the record from every other.
    pub(crate) revision: u64,
    /// Stamp of the script that added it; orders lists.
    pub(crate) created: u64,
    pub(crate) operation: Operation,
    pub(crate) record: Record,
    /// The script left out the bytes of its outcome.
    pub(crate) is_cut: bool,
}

/// Reads a stored value.
pub(crate) fn decode(value: &[u8]) -> Result<Stored> {
    parse(value).ok_or_else(|| corrupt("record"))
}

/// A new record as `claim.lua` takes it, claimed at the epoch: its lease, state and flags, and what follows the
/// times.
pub(crate) fn fresh(operation: &Operation, record: &Record) -> ([u8; MOVING_BYTES], Vec<u8>) {
    let mut moving = Out::with_capacity(MOVING_BYTES);
    moving_part(&mut moving, record, Timestamp::EPOCH);
    let mut out = Out::with_capacity(256);
    rest(&mut out, operation, record);
    let moving = moving.0.try_into().unwrap_or([0; MOVING_BYTES]);
    (moving, out.0)
}

/// A record as `commit.lua` takes it, written at `now`.
pub(crate) fn put(operation: &Operation, record: &Record, now: Timestamp) -> Vec<u8> {
    let mut out = Out::with_capacity(320);
    out.u64(now.as_millis());
    moving_part(&mut out, record, now);
    out.u64(record.token.get() >> NUMBER_BITS);
    out.u64(record.created_at.as_millis());
    rest(&mut out, operation, record);
    out.0
}

/// How long a completion is to be kept, and what follows the part that never moves: for `complete.lua`.
/// Nothing where the window is longer than scripts can count.
pub(crate) fn completion(outcome: &Outcome, window: Window) -> Option<(u64, Vec<u8>)> {
    let keep = keep(window)?;
    let at = Timestamp::EPOCH;
    let mut out = Out::with_capacity(96);
    state_part(
        &mut out,
        &State::Completed { at, window },
        None,
        None,
        Some(outcome),
    );
    Some((keep, out.0))
}

/// When the record may be forgotten, in milliseconds; zero where never, or later than scripts can count.
pub(crate) fn forget(record: &Record) -> u64 {
    match record.state {
        State::Completed { at, window } | State::Dead { at, window } if !record.held => {
            Some(window.forgotten_at(at).as_millis())
                .filter(|_| keep(window).is_some())
                .filter(|millis| *millis < COUNTABLE)
                .unwrap_or(0)
        }
        State::Completed { .. }
        | State::Dead { .. }
        | State::Claimed { .. }
        | State::Started { .. }
        | State::Released { .. }
        | State::InDoubt { .. } => 0,
    }
}

/// Until when a sweep waits for the record, in milliseconds; zero where it need not look at it.
pub(crate) fn watch(record: &Record) -> u64 {
    match record.state {
        State::Started {
            lease_until,
            recovery: Recovery::Park,
        } => lease_until.as_millis().clamp(1, COUNTABLE),
        // What expires by itself leaves its place in the index behind.
        State::Completed { .. } | State::Dead { .. } if is_listed(record) => forget(record),
        State::Completed { .. }
        | State::Dead { .. }
        | State::Started { .. }
        | State::Claimed { .. }
        | State::Released { .. }
        | State::InDoubt { .. } => 0,
    }
}

/// Whether scripts can count this far: some 140,000 years.
pub(crate) fn is_countable(duration: Duration) -> bool {
    duration.as_millis() < u128::from(COUNTABLE)
}

/// The number of a state in a stored record.
pub(crate) fn state_number(kind: StateKind) -> u8 {
    match kind {
        StateKind::Claimed => 0,
        StateKind::Started => 1,
        StateKind::Released => 2,
        StateKind::Completed => 3,
        StateKind::Dead => 4,
        StateKind::InDoubt => 5,
    }
}

/// The state that has this number.
pub(crate) fn state_kind(number: u8) -> Option<StateKind> {
    StateKind::ALL
        .into_iter()
        .find(|kind| state_number(*kind) == number)
}

/// A fencing token: the stamp of its script, and a number within it.
pub(crate) fn token(stamp: u64, number: u16) -> FencingToken {
    FencingToken::new((stamp << NUMBER_BITS) | u64::from(number) & NUMBERS)
}

/// A fencing token as the counter keeps it, if it can.
pub(crate) fn token_parts(token: FencingToken) -> Option<(u64, u16)> {
    let stamp = token.get() >> NUMBER_BITS;
    let number = u16::try_from(token.get() & NUMBERS).ok()?;
    (stamp < COUNTABLE << 1).then_some((stamp, number))
}

/// What changes most: the time of the state, when it is forgotten, state and flags.
fn moving_part(out: &mut Out, record: &Record, at: Timestamp) {
    out.u64(relative(time_of(&record.state), at));
    out.u64(forget(record));
    out.u8(state_number(record.state.kind()));
    out.u8(flags(record));
}

/// What follows the stamps and times.
fn rest(out: &mut Out, operation: &Operation, record: &Record) {
    out.u16(u16::try_from(record.token.get() & NUMBERS).unwrap_or(0));
    out.raw(&record.claim_id.to_bytes());
    let length_at = out.0.len();
    out.u32(0);
    let kept = out.0.len();
    out.u32(record.attempts);
    out.u32(record.vanished);
    out.u32(record.possible_repeats);
    out.u64(relative(record.claimed_at, record.created_at));
    out.u8(record.first_started_at.is_some().into());
    out.u64(
        record
            .first_started_at
            .map_or(0, |at| relative(at, record.created_at)),
    );
    out.maybe(
        record
            .fingerprint
            .map(Fingerprint::to_bytes)
            .as_ref()
            .map(|bytes| &bytes[..]),
    );
    out.maybe(record.transport.as_deref());
    out.bytes(operation.scope.tenant().as_bytes());
    out.bytes(operation.scope.operation().as_bytes());
    out.bytes(operation.key.as_bytes());
    out.maybe(record.gate.as_ref().map(|gate| gate.entity.as_bytes()));
    out.u64(record.gate.as_ref().map_or(0, |gate| gate.version));
    if !record.past.is_empty() {
        out.raw(&past_to_bytes(&record.past));
    }
    out.set_u32(length_at, out.0.len() - kept);
    let error = record.last_error.as_deref();
    state_part(
        out,
        &record.state,
        record.doubt,
        error,
        record.outcome.as_ref(),
    );
}

/// Everything about a state but its times, behind its length, and the bytes of the outcome behind both.
fn state_part(
    out: &mut Out,
    state: &State,
    doubt: Option<Recovery>,
    error: Option<&str>,
    outcome: Option<&Outcome>,
) {
    let length_at = out.0.len();
    out.u32(0);
    state_head(out, state, doubt, error);
    outcome_head(out, outcome);
    out.set_u32(length_at, out.0.len() - length_at - 4);
    if let Some(Outcome::Kept { bytes, .. }) = outcome {
        out.raw(bytes);
    }
}

/// Whether it is more than simply under way or done.
fn is_listed(record: &Record) -> bool {
    match record.state.kind() {
        StateKind::Released | StateKind::Dead | StateKind::InDoubt => true,
        StateKind::Claimed | StateKind::Started | StateKind::Completed => {
            record.held || record.possible_repeats > 0
        }
    }
}

fn flags(record: &Record) -> u8 {
    u8::from(record.gate.is_some()) * GATED
        | u8::from(record.held) * HELD
        | u8::from(is_listed(record)) * LISTED
        | u8::from(watch(record) > 0) * WATCHED
}

fn state_head(out: &mut Out, state: &State, doubt: Option<Recovery>, error: Option<&str>) {
    match *state {
        State::Started { recovery, .. } => put_recovery(out, Some(recovery)),
        State::Completed { window, .. } | State::Dead { window, .. } => {
            out.duration(window.duration());
            out.duration(window.margin());
        }
        State::Claimed { .. } | State::Released { .. } | State::InDoubt { .. } => {}
    }
    put_recovery(out, doubt);
    out.maybe(error.map(str::as_bytes));
}

fn time_of(state: &State) -> Timestamp {
    match *state {
        State::Claimed { lease_until: time }
        | State::Started {
            lease_until: time, ..
        }
        | State::Released { not_before: time }
        | State::Completed { at: time, .. }
        | State::Dead { at: time, .. }
        | State::InDoubt { since: time } => time,
    }
}

fn outcome_head(out: &mut Out, outcome: Option<&Outcome>) {
    match outcome {
        None => out.u8(0),
        Some(Outcome::Kept { codec, bytes }) => {
            out.u8(1);
            out.u16(*codec);
            out.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        Some(Outcome::TooLarge { len_bytes, digest }) => {
            out.u8(2);
            out.u64(*len_bytes);
            out.raw(digest);
        }
    }
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
    let fingerprint = match kept.maybe()? {
        None => None,
        Some(bytes) => Some(Fingerprint::from_bytes(bytes.try_into().ok()?)),
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

/// The outcome, and whether its bytes were left out.
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

fn put_recovery(out: &mut Out, recovery: Option<Recovery>) {
    match recovery {
        None => out.u8(0),
        Some(Recovery::Rerun) => out.u8(1),
        Some(Recovery::Park) => out.u8(2),
        Some(Recovery::RerunWithin(window)) => {
            out.u8(3);
            out.duration(window);
        }
    }
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

/// From finishing to being forgotten, in milliseconds, if scripts can count it.
fn keep(window: Window) -> Option<u64> {
    let keep = window.forgotten_at(Timestamp::EPOCH).as_millis();
    (keep < COUNTABLE).then_some(keep)
}

fn relative(time: Timestamp, to: Timestamp) -> u64 {
    time.as_millis().wrapping_sub(to.as_millis())
}

/// The bytes of the moving part.
pub(crate) const MOVING_BYTES: usize = 18;
/// The first byte of every value.
pub(crate) const FORMAT_BYTE: u8 = 1;
/// Whether the latest claim passed a version gate.
const GATED: u8 = 1;
const HELD: u8 = 2;
/// Whether it is in the index of what is not simply done.
const LISTED: u8 = 4;
/// Whether a sweep waits for it.
const WATCHED: u8 = 8;
/// How many claims a script grants at most, and the bits of a token that number them.
pub(crate) const NUMBER_BITS: u32 = 10;
const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;
/// Where doubles of scripts stop counting by ones, halved.
const COUNTABLE: u64 = 1 << 52;

#[cfg(test)]
mod tests;
