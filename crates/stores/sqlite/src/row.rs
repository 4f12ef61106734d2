//! Records as rows: the columns that `schema/record_*.sql` name, in their order.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Row, Statement, ToSql};
use semel_core::attempt::{past_from_bytes, past_to_bytes};
use semel_core::{
    ClaimId, Error, FencingToken, Fingerprint, Key, Members, OpId, Outcome, PastAttempt, Record,
    Recovery, State, StateKind, Timestamp, VersionGate, Window,
};

use crate::error::{corrupt, undone};
use crate::id_columns::{halves, tag};

/// Columns of a record, which come first in every query; the rest are the query's own.
pub(crate) const COLUMNS: usize = 24;

/// Parameters that [`bind`] fills; the rest are the statement's own.
pub(crate) const PARAMETERS: usize = 25;

/// Binds a record to the first [`PARAMETERS`] parameters.
pub(crate) fn bind(statement: &mut Statement<'_>, record: &Record) -> rusqlite::Result<()> {
    let (at, window, recovery) = match record.state {
        State::Claimed { lease_until } => (lease_until, None, None),
        State::Started {
            lease_until,
            recovery,
        } => (lease_until, None, Some(recovery)),
        State::Released { not_before } => (not_before, None, None),
        State::Completed { at, window } | State::Dead { at, window } => (at, Some(window), None),
        State::InDoubt { since } => (since, None, None),
    };
    let margin = window.filter(|window| Window::new(window.duration()) != *window);
    let (codec, outcome) = outcome_columns(record.outcome.as_ref());
    // The usual record was claimed once and has no past.
    let claimed_at = Some(record.claimed_at).filter(|at| *at != record.created_at);
    let claimed_at = claimed_at.map(millis);
    let past = (!record.past.is_empty()).then(|| past_to_bytes(&record.past));
    let gate = record.gate.as_ref();
    let fingerprint = record.fingerprint.map(Fingerprint::to_bytes);
    let mut next = 0;
    let mut bind = |value: &dyn ToSql| {
        next += 1;
        statement.raw_bind_parameter(next, value)
    };
    bind(&state_column(record.state.kind()))?;
    bind(&millis(at))?;
    bind(&window.map(|window| Span(window.duration())))?;
    bind(&margin.map(|window| Span(window.margin())))?;
    bind(&recovery.map(RecoveryColumn))?;
    bind(&&record.claim_id.to_bytes()[..])?;
    bind(&record.token.get().cast_signed())?;
    bind(&record.attempts)?;
    bind(&record.vanished)?;
    bind(&record.possible_repeats)?;
    bind(&record.doubt.map(RecoveryColumn))?;
    bind(&millis(record.created_at))?;
    bind(&record.first_started_at.map(millis))?;
    bind(&record.last_error.as_deref())?;
    bind(&fingerprint.as_ref().map(|bytes| &bytes[..]))?;
    bind(&record.transport.as_deref())?;
    bind(&gate.map(|gate| Text(gate.entity.as_bytes())))?;
    bind(&gate.map(|gate| gate.version.cast_signed()))?;
    bind(&record.held)?;
    bind(&claimed_at)?;
    bind(&past)?;
    bind(&record.members.as_ref().map(Members::as_bytes))?;
    bind(&codec)?;
    bind(&outcome.as_deref())?;
    bind(&due(record))?;
    Ok(())
}

/// Appends a row.
pub(crate) fn insert(
    add: &mut Statement<'_>,
    id: OpId,
    record: &Record,
    (scope, key): (i64, &Key),
) -> rusqlite::Result<()> {
    bind(add, record)?;
    add.raw_bind_parameter(PARAMETERS + 1, tag(id))?;
    add.raw_bind_parameter(PARAMETERS + 2, halves(&id).1)?;
    add.raw_bind_parameter(PARAMETERS + 3, scope)?;
    add.raw_bind_parameter(PARAMETERS + 4, Text(key.as_bytes()))?;
    add.raw_execute().map(drop)
}

/// Rewrites a row.
pub(crate) fn update(set: &mut Statement<'_>, seq: i64, record: &Record) -> rusqlite::Result<()> {
    bind(set, record)?;
    set.raw_bind_parameter(PARAMETERS + 1, seq)?;
    set.raw_execute().map(drop)
}

/// Reads a record from the first [`COLUMNS`] columns.
pub(crate) fn read(row: &Row<'_>) -> Result<Record, Error> {
    parse(row).map_err(|error| match error {
        Fault::Sql(
            error @ (rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::FromSqlConversionFailure(..)),
        ) => corrupt("record").with_source(error),
        Fault::Sql(error) => undone(error),
        Fault::Lie => corrupt("record"),
    })
}

fn parse(row: &Row<'_>) -> Result<Record, Fault> {
    let at = timestamp(row.get(1)?);
    let window = || -> Result<Window, Fault> {
        let window = Window::new(span(row.get_ref(2)?)?.ok_or(Fault::Lie)?);
        let margin = span(row.get_ref(3)?)?;
        Ok(margin.map_or(window, |margin| window.with_margin(margin)))
    };
    let state = match row.get::<_, i64>(0)? {
        0 => State::Claimed { lease_until: at },
        1 => {
            let recovery = recovery(row.get_ref(4)?)?.ok_or(Fault::Lie)?;
            State::Started {
                lease_until: at,
                recovery,
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
    let entity: Option<Key> = text_key(row.get_ref(16)?)?;
    let version: Option<i64> = row.get(17)?;
    let created_at = timestamp(row.get(11)?);
    let claimed_at: Option<i64> = row.get(19)?;
    Ok(Record {
        state,
        fingerprint: row
            .get::<_, Option<[u8; 20]>>(14)?
            .map(Fingerprint::from_bytes),
        members: members(row.get_ref(21)?)?,
        transport: blob(row.get_ref(15)?)?,
        claim_id: ClaimId::from_bytes(row.get(5)?),
        token: FencingToken::new(row.get::<_, i64>(6)?.cast_unsigned()),
        attempts: row.get(7)?,
        vanished: row.get(8)?,
        possible_repeats: row.get(9)?,
        doubt: recovery(row.get_ref(10)?)?,
        claimed_at: claimed_at.map_or(created_at, timestamp),
        past: past(row.get_ref(20)?)?,
        created_at,
        first_started_at: row.get::<_, Option<i64>>(12)?.map(timestamp),
        last_error: row.get::<_, Option<Box<str>>>(13)?,
        gate: entity.zip(version).map(|(entity, version)| VersionGate {
            entity,
            version: version.cast_unsigned(),
        }),
        held: row.get(18)?,
        outcome: outcome(row.get(22)?, row.get_ref(23)?)?,
    })
}

fn members(value: ValueRef<'_>) -> Result<Option<Members>, Fault> {
    let Some(bytes) = blob(value)? else {
        return Ok(None);
    };
    Members::from_bytes(&bytes).map(Some).ok_or(Fault::Lie)
}

/// Reason why a row cannot be read: the query failed, or the row is wrong.
enum Fault {
    Sql(rusqlite::Error),
    Lie,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Returns the time from which a sweep has something to do with a record, on the scale of SQLite's
/// integers.
fn due(record: &Record) -> Option<i64> {
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
    due.map(ordered_millis)
}

/// Returns a time that compares in SQL: one beyond SQLite's integers is their last.
pub(crate) fn ordered_millis(time: Timestamp) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Returns a time that is only ever read back.
pub(crate) const fn millis(time: Timestamp) -> i64 {
    time.as_millis().cast_signed()
}

/// Returns the time that [`millis`] wrote.
pub(crate) const fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis.cast_unsigned())
}

/// Returns the column of a state.
pub(crate) const fn state_column(kind: StateKind) -> i64 {
    match kind {
        StateKind::Claimed => 0,
        StateKind::Started => 1,
        StateKind::Released => 2,
        StateKind::Completed => 3,
        StateKind::Dead => 4,
        StateKind::InDoubt => 5,
    }
}

/// Reads a key that was stored as text.
pub(crate) fn key(value: ValueRef<'_>) -> Result<Option<Key>, Error> {
    text_key(value).map_err(|_: Fault| corrupt("key"))
}

/// Reads bytes of a row, in memory of their own.
pub(crate) fn bytes(value: ValueRef<'_>) -> Result<Option<Bytes>, Error> {
    blob(value).map_err(|_: Fault| corrupt("value"))
}

fn text_key(value: ValueRef<'_>) -> Result<Option<Key>, Fault> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(text) => Key::from_canonical(Bytes::copy_from_slice(text))
            .map(Some)
            .ok_or(Fault::Lie),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => Err(Fault::Lie),
    }
}

fn blob(value: ValueRef<'_>) -> Result<Option<Bytes>, Fault> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) => Ok(Some(Bytes::copy_from_slice(bytes))),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => Err(Fault::Lie),
    }
}

fn past(value: ValueRef<'_>) -> Result<Vec<PastAttempt>, Fault> {
    match value {
        ValueRef::Null => Ok(Vec::new()),
        ValueRef::Blob(bytes) => past_from_bytes(bytes).ok_or(Fault::Lie),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Text(_) => Err(Fault::Lie),
    }
}

/// Text that is known to be UTF-8, without looking again.
pub(crate) struct Text<'t>(pub(crate) &'t [u8]);

impl ToSql for Text<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0)))
    }
}

/// A duration: whole milliseconds as an integer, anything finer or longer as twelve bytes.
struct Span(Duration);

impl ToSql for Span {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(span_column(self.0)))
    }
}

fn span_column(duration: Duration) -> Value {
    let whole = duration.subsec_nanos().is_multiple_of(1_000_000);
    match i64::try_from(duration.as_millis()) {
        Ok(millis) if whole => Value::Integer(millis),
        Ok(_) | Err(_) => {
            let mut exact = duration.as_secs().to_be_bytes().to_vec();
            exact.extend_from_slice(&duration.subsec_nanos().to_be_bytes());
            Value::Blob(exact)
        }
    }
}

fn span(value: ValueRef<'_>) -> Result<Option<Duration>, Fault> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(millis) => {
            let millis = u64::try_from(millis).map_err(|_| Fault::Lie)?;
            Ok(Some(Duration::from_millis(millis)))
        }
        ValueRef::Blob(bytes) => {
            let (secs, nanos) = bytes.split_first_chunk().ok_or(Fault::Lie)?;
            let secs = u64::from_be_bytes(*secs);
            let nanos = u32::from_be_bytes(nanos.try_into().map_err(|_| Fault::Lie)?);
            if nanos >= 1_000_000_000 {
                return Err(Fault::Lie);
            }
            Ok(Some(Duration::new(secs, nanos)))
        }
        ValueRef::Real(_) | ValueRef::Text(_) => Err(Fault::Lie),
    }
}

struct RecoveryColumn(Recovery);

impl ToSql for RecoveryColumn {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Owned(match self.0 {
            Recovery::Rerun => Value::Integer(RERUN),
            Recovery::Park => Value::Integer(PARK),
            Recovery::RerunWithin(window) => span_column(window),
        }))
    }
}

fn recovery(value: ValueRef<'_>) -> Result<Option<Recovery>, Fault> {
    match value {
        ValueRef::Integer(RERUN) => Ok(Some(Recovery::Rerun)),
        ValueRef::Integer(PARK) => Ok(Some(Recovery::Park)),
        other => Ok(span(other)?.map(Recovery::RerunWithin)),
    }
}

fn outcome_columns(outcome: Option<&Outcome>) -> (Option<i64>, Option<Cow<'_, [u8]>>) {
    match outcome {
        None => (None, None),
        Some(Outcome::Kept { codec, bytes }) => {
            let bytes = Some(&**bytes).filter(|bytes| !bytes.is_empty());
            (Some(i64::from(*codec)), bytes.map(Cow::Borrowed))
        }
        Some(Outcome::TooLarge { len_bytes, digest }) => {
            let mut column = len_bytes.to_be_bytes().to_vec();
            column.extend_from_slice(digest);
            (Some(TOO_LARGE), Some(Cow::Owned(column)))
        }
    }
}

fn outcome(codec: Option<i64>, value: ValueRef<'_>) -> Result<Option<Outcome>, Fault> {
    let Some(codec) = codec else { return Ok(None) };
    let bytes = blob(value)?.unwrap_or_default();
    if codec != TOO_LARGE {
        let codec = u16::try_from(codec).map_err(|_| Fault::Lie)?;
        return Ok(Some(Outcome::Kept { codec, bytes }));
    }
    match (
        bytes.first_chunk::<8>(),
        bytes.last_chunk::<32>(),
        bytes.len(),
    ) {
        (Some(len), Some(digest), 40) => Ok(Some(Outcome::TooLarge {
            len_bytes: u64::from_be_bytes(*len),
            digest: *digest,
        })),
        _ => Err(Fault::Lie),
    }
}

const RERUN: i64 = -1;
const PARK: i64 = -2;
const TOO_LARGE: i64 = -1;
