//! Records as rows: the columns that the statements under `schema/` name, in their order.

use std::time::Duration;

use bytes::Bytes;
use semel_core::attempt::past_from_bytes;
use semel_core::{
    ClaimId, Error, FencingToken, Fingerprint, Key, Members, Outcome, Record, Recovery, State,
    StateKind, Timestamp, VersionGate, Window,
};

use crate::connection::Cells;
use crate::error::{corrupt, undone};
use crate::failure::Failure;

/// Columns of a record, which come first in every query; then comes the revision.
pub(crate) const COLUMNS: usize = 24;

/// Reads a row of a query that begins with a record: its revision and the record, or `None` where
/// the query found none.
pub(crate) fn found(row: &impl Cells) -> Result<Option<(u64, Record)>, Error> {
    let revision: Option<i64> = row.try_get(COLUMNS).map_err(undone)?;
    let Some(revision) = revision else {
        return Ok(None);
    };
    let record = read(row)?;
    Ok(Some((revision.cast_unsigned(), record)))
}

/// Reads the record in the first [`COLUMNS`] columns.
pub(crate) fn read(row: &impl Cells) -> Result<Record, Error> {
    parse(row).map_err(|fault| match fault {
        Fault::Column(failure) => failure.because(corrupt("record")),
        Fault::Lie => corrupt("record"),
    })
}

fn parse(row: &impl Cells) -> Result<Record, Fault> {
    let at = timestamp(row.try_get(1)?);
    let kept: Option<i64> = row.try_get(2)?;
    let margin: Option<i64> = row.try_get(3)?;
    let window = || -> Result<Window, Fault> {
        let window = Window::new(span(kept.ok_or(Fault::Lie)?)?);
        let margin = margin.map(span).transpose()?;
        Ok(margin.map_or(window, |margin| window.with_margin(margin)))
    };
    let state = match row.try_get::<i16>(0)? {
        0 => State::Claimed { lease_until: at },
        1 => {
            let column: Option<i64> = row.try_get(4)?;
            State::Started {
                lease_until: at,
                recovery: recovery(column.ok_or(Fault::Lie)?)?,
            }
        }
        2 => State::Released { not_before: at },
        3 => State::Completed {
            at,
            window: window()?,
        },
        4 => State::Dead {
            at,
            window: window()?,
        },
        5 => State::InDoubt { since: at },
        _ => return Err(Fault::Lie),
    };
    let created_at = timestamp(row.try_get(11)?);
    let claimed_at: Option<i64> = row.try_get(19)?;
    let entity = bytes(row, 16)?.map(|text| Key::from_canonical(text).ok_or(Fault::Lie));
    let version: Option<i64> = row.try_get(17)?;
    Ok(Record {
        state,
        fingerprint: slice(row, 14)?
            .map(|bytes| bytes.try_into().map(Fingerprint::from_bytes))
            .transpose()
            .map_err(|_| Fault::Lie)?,
        members: slice(row, 21)?
            .map(|bytes| Members::from_bytes(bytes).ok_or(Fault::Lie))
            .transpose()?,
        transport: bytes(row, 15)?,
        claim_id: claim_id(slice(row, 5)?.ok_or(Fault::Lie)?).ok_or(Fault::Lie)?,
        token: FencingToken::new(row.try_get::<i64>(6)?.cast_unsigned()),
        attempts: row.try_get::<i32>(7)?.cast_unsigned(),
        vanished: row.try_get::<i32>(8)?.cast_unsigned(),
        possible_repeats: row.try_get::<i32>(9)?.cast_unsigned(),
        doubt: row.try_get::<Option<i64>>(10)?.map(recovery).transpose()?,
        claimed_at: claimed_at.map_or(created_at, timestamp),
        past: slice(row, 20)?
            .map_or_else(|| Some(Vec::new()), past_from_bytes)
            .ok_or(Fault::Lie)?,
        created_at,
        first_started_at: row.try_get::<Option<i64>>(12)?.map(timestamp),
        last_error: row.try_get::<Option<String>>(13)?.map(Into::into),
        gate: entity
            .transpose()?
            .zip(version)
            .map(|(entity, version)| VersionGate {
                entity,
                version: version.cast_unsigned(),
            }),
        held: row.try_get(18)?,
        outcome: outcome(row)?,
    })
}

/// Reason why a row cannot be read.
enum Fault {
    Column(Failure),
    Lie,
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Column(failure)
    }
}

fn slice(row: &impl Cells, column: usize) -> Result<Option<&[u8]>, Fault> {
    Ok(row.try_get(column)?)
}

fn bytes(row: &impl Cells, column: usize) -> Result<Option<Bytes>, Fault> {
    Ok(slice(row, column)?.map(Bytes::copy_from_slice))
}

fn outcome(row: &impl Cells) -> Result<Option<Outcome>, Fault> {
    let Some(codec) = row.try_get::<Option<i32>>(22)? else {
        return Ok(None);
    };
    let bytes = slice(row, 23)?.unwrap_or_default();
    if codec != TOO_LARGE {
        return Ok(Some(Outcome::Kept {
            codec: u16::try_from(codec).map_err(|_| Fault::Lie)?,
            bytes: Bytes::copy_from_slice(bytes),
        }));
    }
    let (len, digest) = bytes.split_first_chunk().ok_or(Fault::Lie)?;
    Ok(Some(Outcome::TooLarge {
        len_bytes: u64::from_be_bytes(*len),
        digest: digest.try_into().map_err(|_| Fault::Lie)?,
    }))
}

/// Returns the columns of an outcome: its codec and its bytes.
pub(crate) fn outcome_columns(outcome: Option<&Outcome>) -> (Option<i32>, Option<Bytes>) {
    match outcome {
        None => (None, None),
        Some(Outcome::Kept { codec, bytes }) => {
            let bytes = Some(bytes.clone()).filter(|bytes| !bytes.is_empty());
            (Some(i32::from(*codec)), bytes)
        }
        Some(Outcome::TooLarge { len_bytes, digest }) => {
            let mut column = len_bytes.to_be_bytes().to_vec();
            column.extend_from_slice(digest);
            (Some(TOO_LARGE), Some(column.into()))
        }
    }
}

/// Returns the columns of a window: its length, and its margin where that is not the usual one.
pub(crate) fn window_columns(window: Window) -> (i64, Option<i64>) {
    let usual = Window::new(window.duration());
    let margin = Some(window.margin()).filter(|_| usual != window);
    (span_column(window.duration()), margin.map(span_column))
}

/// Returns the time from which a sweep has something to do with a record.
pub(crate) fn due(record: &Record) -> Option<i64> {
    let due = match record.state {
        State::Started {
            lease_until,
            recovery: Recovery::Park,
        } => Some(lease_until),
        State::Claimed { .. }
        | State::Started { .. }
        | State::Released { .. }
        | State::Completed { .. }
        | State::Dead { .. }
        | State::InDoubt { .. } => record.expires_at(),
    };
    due.map(millis)
}

/// Returns the column of a time; a time beyond its range is its last.
pub(crate) fn millis(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Returns the time of a column.
pub(crate) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Returns the column of a duration: whole milliseconds, rounded up. One beyond 2^62 lasts for
/// ever.
pub(crate) fn span_column(duration: Duration) -> i64 {
    const FOR_EVER: i64 = 1 << 62;
    let millis = duration.as_nanos().div_ceil(1_000_000);
    i64::try_from(millis).map_or(FOR_EVER, |millis| millis.min(FOR_EVER))
}

fn span(millis: i64) -> Result<Duration, Fault> {
    let millis = u64::try_from(millis).map_err(|_| Fault::Lie)?;
    Ok(Duration::from_millis(millis))
}

/// Returns the column of a recovery.
pub(crate) fn recovery_column(recovery: Recovery) -> i64 {
    match recovery {
        Recovery::Rerun => RERUN,
        Recovery::Park => PARK,
        Recovery::RerunWithin(window) => span_column(window),
    }
}

fn recovery(column: i64) -> Result<Recovery, Fault> {
    match column {
        RERUN => Ok(Recovery::Rerun),
        PARK => Ok(Recovery::Park),
        millis => Ok(Recovery::RerunWithin(span(millis)?)),
    }
}

/// Returns the column of a state.
pub(crate) const fn state_column(kind: StateKind) -> i16 {
    match kind {
        StateKind::Claimed => 0,
        StateKind::Started => 1,
        StateKind::Released => 2,
        StateKind::Completed => 3,
        StateKind::Dead => 4,
        StateKind::InDoubt => 5,
    }
}

/// Reads a stored claim id.
pub(crate) fn claim_id(bytes: &[u8]) -> Option<ClaimId> {
    bytes.try_into().ok().map(ClaimId::from_bytes)
}

/// Returns the text without the one character that PostgreSQL's texts cannot hold.
pub(crate) fn text(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

const RERUN: i64 = -1;
const PARK: i64 = -2;
const TOO_LARGE: i32 = -1;
