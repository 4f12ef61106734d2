//! Records as they are stored: stamps and times of the scripts, then the part that never moves, then the state.
//!
//! The offsets of the first part are known to the scripts; docs/spec/redis.md draws it. Every time but `created_at` and
//! `at` is kept relative to one of these two, so that a record can be made ready before the server says what time it
//! is. Not for deciding: that is `semel_core::decide`.

mod read;

use std::time::Duration;

use semel_core::attempt::past_to_bytes;
use semel_core::{
    FencingToken, Fingerprint, Members, Operation, Outcome, Record, Recovery, State, StateKind,
    Timestamp, Window,
};

use crate::wire::Out;

pub(crate) use read::decode;

/// A record as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// Number that tells this writing of the record from every other.
    pub(crate) revision: u64,
    /// Stamp of the script that added it; orders lists.
    pub(crate) created: u64,
    pub(crate) operation: Operation,
    pub(crate) record: Record,
    /// Set if the script left out the bytes of its outcome.
    pub(crate) is_cut: bool,
}

/// Encodes a new record as `claim.lua` takes it, claimed at the epoch: its lease, state and flags, and the part behind
/// the times.
pub(crate) fn fresh(operation: &Operation, record: &Record) -> ([u8; MOVING_BYTES], Vec<u8>) {
    let mut moving = Out::with_capacity(MOVING_BYTES);
    moving_part(&mut moving, record, Timestamp::EPOCH);
    let mut out = Out::with_capacity(256);
    rest(&mut out, operation, record);
    let moving = moving.0.try_into().unwrap_or([0; MOVING_BYTES]);
    (moving, out.0)
}

/// Encodes a record as `commit.lua` takes it, written at `now`.
pub(crate) fn put(operation: &Operation, record: &Record, now: Timestamp) -> Vec<u8> {
    let mut out = Out::with_capacity(320);
    out.u64(now.as_millis());
    moving_part(&mut out, record, now);
    out.u64(record.token.get() >> NUMBER_BITS);
    out.u64(record.created_at.as_millis());
    rest(&mut out, operation, record);
    out.0
}

/// Encodes a completion for `complete.lua`: the time for which it is kept, and the bytes behind the part that never
/// moves. `None` where the window is longer than scripts can count.
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

/// Returns when the record may be forgotten, in milliseconds; zero where never, or later than scripts can count.
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

/// Returns until when a sweep waits for the record, in milliseconds; zero where it need not look at it.
pub(crate) fn watch(record: &Record) -> u64 {
    match record.state {
        State::Started {
            lease_until,
            recovery: Recovery::Park,
        } => lease_until.as_millis().clamp(1, COUNTABLE),
        // A record that expires by itself leaves its place in the index behind.
        State::Completed { .. } | State::Dead { .. } if is_listed(record) => forget(record),
        State::Completed { .. }
        | State::Dead { .. }
        | State::Started { .. }
        | State::Claimed { .. }
        | State::Released { .. }
        | State::InDoubt { .. } => 0,
    }
}

/// Returns whether scripts can count this far: some 140,000 years.
pub(crate) fn is_countable(duration: Duration) -> bool {
    duration.as_millis() < u128::from(COUNTABLE)
}

/// Returns the number of a state in a stored record.
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

/// Returns the state that has this number.
pub(crate) fn state_kind(number: u8) -> Option<StateKind> {
    StateKind::ALL
        .into_iter()
        .find(|kind| state_number(*kind) == number)
}

/// Returns a fencing token: the stamp of its script, and a number within it.
pub(crate) fn token(stamp: u64, number: u16) -> FencingToken {
    FencingToken::new((stamp << NUMBER_BITS) | u64::from(number) & NUMBERS)
}

/// Returns a fencing token as the counter keeps it, if it can.
pub(crate) fn token_parts(token: FencingToken) -> Option<(u64, u16)> {
    let stamp = token.get() >> NUMBER_BITS;
    let number = u16::try_from(token.get() & NUMBERS).ok()?;
    (stamp < COUNTABLE << 1).then_some((stamp, number))
}

/// Writes the part that changes most: the time of the state, when it is forgotten, state and flags.
fn moving_part(out: &mut Out, record: &Record, at: Timestamp) {
    out.u64(relative(time_of(&record.state), at));
    out.u64(forget(record));
    out.u8(state_number(record.state.kind()));
    out.u8(flags(record));
}

/// Writes the part behind the stamps and times.
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
    let members = record.members.as_ref().map_or(&[][..], Members::as_bytes);
    let fingerprint = record.fingerprint.map(Fingerprint::to_bytes);
    let fingerprint = fingerprint.map(|bytes| [&bytes[..], members].concat());
    out.maybe(fingerprint.as_deref());
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

/// Writes everything about a state but its times, behind its length, and the bytes of the outcome behind both.
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

/// Returns whether it is more than simply under way or done.
fn is_listed(record: &Record) -> bool {
    match record.state.kind() {
        StateKind::Released | StateKind::Dead | StateKind::InDoubt => true,
        StateKind::Claimed | StateKind::Started | StateKind::Completed => {
            record.held || record.possible_repeats > 0
        }
    }
}

fn flags(record: &Record) -> u8 {
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    flag(record.gate.is_some(), GATED)
        | flag(record.held, HELD)
        | flag(is_listed(record), LISTED)
        | flag(watch(record) > 0, WATCHED)
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

/// Returns the milliseconds from finishing to being forgotten, if scripts can count them.
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
/// Flag: the latest claim passed a version gate.
const GATED: u8 = 1;
const HELD: u8 = 2;
/// Flag: it is in the index of records that are more than simply under way or done.
const LISTED: u8 = 4;
/// Flag: a sweep waits for it.
const WATCHED: u8 = 8;
/// Bits of a token that number the claims of a script, and so limit the claims that a script grants.
pub(crate) const NUMBER_BITS: u32 = 10;
const NUMBERS: u64 = (1 << NUMBER_BITS) - 1;
/// Half of the number at which doubles of scripts stop counting by ones.
const COUNTABLE: u64 = 1 << 52;

#[cfg(test)]
mod tests;
