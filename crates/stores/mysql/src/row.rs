//! Records as rows: the columns that the statements under `schema/` name, in their order.

use std::time::Duration;

use semel_core::attempt::{past_from_bytes, past_to_bytes};
use semel_core::ledger::{Found, first_revision};
use semel_core::{
    ClaimId, ClaimRequest, Error, ErrorKind, FencingToken, Fingerprint, Key, Members, OpId,
    Operation, Outcome, Record, Recovery, Result, Start, State, StateKind, Timestamp, VersionGate,
    Window,
};

use crate::answer::{Cells, bytes, fixed, id, key, number, owned, parsed, some_number, text, time};
use crate::error::corrupt;
use crate::script::{Literal, addend, seconds};

/// Columns of a record, which come first in every query; then come its revision and its id.
pub(crate) const COLUMNS: usize = 24;

/// Column of the revision in queries.
pub(crate) const REVISION: usize = COLUMNS;

/// Column of the operation id in queries.
pub(crate) const ID: usize = COLUMNS + 1;

/// Reads a row's record and operation id, for a ledger.
pub(crate) fn found(row: &impl Cells) -> Result<(OpId, Found)> {
    let id = id(row, ID)?;
    match (some_number(row, REVISION), read(row)) {
        (Ok(revision), Ok(record)) => Ok((id, Found::Record(revision, record))),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::Corrupt => {
            Ok((id, Found::Damaged(error)))
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// Reads the record in the first [`COLUMNS`] columns.
pub(crate) fn read(row: &impl Cells) -> Result<Record> {
    let at = time(row, 1)?;
    let window = || -> Result<Window> {
        let window = Window::new(span(row, 2)?.ok_or_else(lie)?);
        Ok(span(row, 3)?.map_or(window, |margin| window.with_margin(margin)))
    };
    let state = match some_number(row, 0)? {
        0 => State::Claimed { lease_until: at },
        1 => State::Started {
            lease_until: at,
            recovery: recovery(row, 4)?.ok_or_else(lie)?,
        },
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
        _ => return Err(lie()),
    };
    let created_at = time(row, 11)?;
    let optional_time = |column| -> Result<Option<Timestamp>> {
        Ok(number(row, column)?.map(Timestamp::from_millis))
    };
    let count = |column| -> Result<u32> { parsed(row, column)?.ok_or_else(lie) };
    let gate = match (key(row, 16)?, number(row, 17)?) {
        (Some(entity), Some(version)) => Some(VersionGate { entity, version }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => return Err(lie()),
    };
    let past = bytes(row, 20)?.map_or(Some(Vec::new()), past_from_bytes);
    let members = bytes(row, 21)?.map(|bytes| Members::from_bytes(bytes).ok_or_else(lie));
    Ok(Record {
        state,
        fingerprint: fixed(row, 14)?.map(Fingerprint::from_bytes),
        members: members.transpose()?,
        transport: owned(row, 15)?,
        claim_id: ClaimId::from_bytes(fixed(row, 5)?.ok_or_else(lie)?),
        token: FencingToken::new(some_number(row, 6)?),
        attempts: count(7)?,
        vanished: count(8)?,
        possible_repeats: count(9)?,
        doubt: recovery(row, 10)?,
        claimed_at: optional_time(19)?.unwrap_or(created_at),
        past: past.ok_or_else(lie)?,
        created_at,
        first_started_at: optional_time(12)?,
        last_error: text(row, 13)?.map(Into::into),
        gate,
        held: some_number(row, 18)? != 0,
        outcome: outcome(row)?,
    })
}

/// Reads the operation of a row that has tenant, name and key after its id.
pub(crate) fn operation(row: &impl Cells) -> Result<Operation> {
    let scope = crate::answer::scope(row, ID + 1)?.ok_or_else(|| corrupt("scope"))?;
    let key = key(row, ID + 3)?.ok_or_else(|| corrupt("key"))?;
    Ok(Operation::new(scope, key))
}

/// Adds the assignments of `update.sql`.
pub(crate) fn push_assignments(out: &mut Literal, record: &Record) {
    let mut names = NAMES.into_iter();
    push_columns(record, out, |out| {
        if let Some(name) = names.next() {
            out.push_code(name);
            out.push_code("=");
        }
    });
}

/// Adds a row of `insert.sql`.
pub(crate) fn push_row(out: &mut Literal, id: &OpId, operation: &Operation, record: &Record) {
    out.comma();
    out.push_code("(");
    push_columns(record, out, |_| {});
    out.push_code(",");
    out.push_number(first_revision(record.token));
    out.push_code(",");
    out.push_bytes(id.as_bytes());
    push_operation(out, operation);
    out.push_code(")");
}

/// Adds tenant, name and key.
pub(crate) fn push_operation(out: &mut Literal, operation: &Operation) {
    let scope = &operation.scope;
    for part in [scope.tenant(), scope.operation(), operation.key.as_str()] {
        out.push_code(",");
        out.push_text(part);
    }
}

/// Adds a text or NULL.
pub(crate) fn push_optional(out: &mut Literal, text: Option<&str>) {
    match text {
        Some(text) => out.push_text(text),
        None => out.push_code("NULL"),
    }
}

/// Adds the columns of a record and `due`, each after the text that `before` adds.
fn push_columns(record: &Record, out: &mut Literal, mut before: impl FnMut(&mut Literal)) {
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
    let past = (!record.past.is_empty()).then(|| past_to_bytes(&record.past));
    let fingerprint = record.fingerprint.map(Fingerprint::to_bytes);
    let gate = record.gate.as_ref();
    let mut is_first = true;
    let mut next = |out: &mut Literal, push: &dyn Fn(&mut Literal)| {
        if !std::mem::take(&mut is_first) {
            out.push_code(",");
        }
        before(out);
        push(out);
    };
    let number = |number: u64| move |out: &mut Literal| out.push_number(number);
    let instant = |at: Option<Timestamp>| {
        move |out: &mut Literal| match at {
            Some(at) => out.push_number(at.as_millis()),
            None => out.push_code("NULL"),
        }
    };
    let blob = |out: &mut Literal, bytes: Option<&[u8]>| match bytes {
        Some(bytes) => out.push_bytes(bytes),
        None => out.push_code("NULL"),
    };
    next(out, &number(state_column(record.state.kind())));
    next(out, &instant(Some(at)));
    next(out, &|out| push_span(out, window.map(Window::duration)));
    next(out, &|out| push_span(out, margin.map(Window::margin)));
    next(out, &|out| push_recovery(out, recovery));
    next(out, &|out| out.push_bytes(&record.claim_id.to_bytes()));
    next(out, &number(record.token.get()));
    next(out, &number(record.attempts.into()));
    next(out, &number(record.vanished.into()));
    next(out, &number(record.possible_repeats.into()));
    next(out, &|out| push_recovery(out, record.doubt));
    next(out, &instant(Some(record.created_at)));
    next(out, &instant(record.first_started_at));
    next(out, &|out| push_optional(out, record.last_error.as_deref()));
    next(out, &|out| {
        blob(out, fingerprint.as_ref().map(|it| &it[..]));
    });
    next(out, &|out| blob(out, record.transport.as_deref()));
    next(out, &|out| {
        push_optional(out, gate.map(|gate| gate.entity.as_str()));
    });
    next(out, &|out| match gate {
        Some(gate) => out.push_number(gate.version),
        None => out.push_code("NULL"),
    });
    next(out, &number(record.held.into()));
    next(out, &instant(claimed_at));
    next(out, &|out| blob(out, past.as_deref()));
    next(out, &|out| {
        blob(out, record.members.as_ref().map(Members::as_bytes));
    });
    next(out, &|out| out.push(&codec));
    next(out, &|out| blob(out, outcome.as_deref()));
    next(out, &instant(due(record)));
}

/// Adds the row of `claim.sql` for a first claim, which costs less than writing the decided record: the server knows
/// its time and its token. `attempts` is code, so that it may be a guard.
///
/// Returns `false` where a server's integers might not hold the end of the lease.
pub(crate) fn push_claim(
    out: &mut Literal,
    id: &OpId,
    request: &ClaimRequest,
    token: &str,
    attempts: &str,
) -> bool {
    let Some(lease) = addend(request.lease) else {
        return false;
    };
    let recovery = match request.start {
        Start::Unmarked => None,
        Start::Marked(recovery) => Some(recovery),
    };
    out.push_bytes(id.as_bytes());
    out.push_code(",(");
    out.push_code(token);
    out.push_code(if recovery.is_some() {
        ")<<20,1,"
    } else {
        ")<<20,0,"
    });
    out.push_code("@semel.now+");
    out.push_number(lease);
    if recovery == Some(Recovery::Park) {
        out.push_code(",@semel.now+");
        out.push_number(lease);
        out.push_code(",");
    } else {
        out.push_code(",NULL,");
    }
    push_recovery(out, recovery);
    out.push_code(",");
    out.push_bytes(&request.claim_id.to_bytes());
    for code in [
        token,
        attempts,
        "@semel.now",
        if recovery.is_some() {
            "@semel.now"
        } else {
            "NULL"
        },
    ] {
        out.push_code(",");
        out.push_code(code);
    }
    push_operation(out, &request.operation);
    for bytes in [
        request
            .fingerprint
            .map(Fingerprint::to_bytes)
            .as_ref()
            .map(|it| &it[..]),
        request.transport.as_deref(),
        // As `decide` keeps them.
        request
            .members
            .as_ref()
            .filter(|_| request.fingerprint.is_some())
            .map(Members::as_bytes),
    ] {
        out.push_code(",");
        match bytes {
            Some(bytes) => out.push_bytes(bytes),
            None => out.push_code("NULL"),
        }
    }
    true
}

/// Returns the last instant at which a message of this birth is young enough to be new.
pub(crate) fn young_until(request: &ClaimRequest) -> Option<Timestamp> {
    let age = request
        .window
        .duration()
        .saturating_sub(request.window.margin());
    // The fraction of a millisecond beyond whole ones makes no difference to an age.
    let age = Duration::from_millis(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    request.birth.map(|birth| birth.plus(age))
}

/// Returns the time from which a sweep has something to do with a record.
fn due(record: &Record) -> Option<Timestamp> {
    match record.state {
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
    }
}

/// Returns the column of a state.
pub(crate) const fn state_column(kind: StateKind) -> u64 {
    match kind {
        StateKind::Claimed => 0,
        StateKind::Started => 1,
        StateKind::Released => 2,
        StateKind::Completed => 3,
        StateKind::Dead => 4,
        StateKind::InDoubt => 5,
    }
}

/// Returns codec and bytes of an outcome, as they are stored.
pub(crate) fn outcome_columns(outcome: Option<&Outcome>) -> (Literal, Option<bytes::Bytes>) {
    match outcome {
        None => (Literal::null(), None),
        Some(Outcome::Kept { codec, bytes }) => {
            let bytes = Some(bytes.clone()).filter(|bytes| !bytes.is_empty());
            (Literal::number((*codec).into()), bytes)
        }
        Some(Outcome::TooLarge { len_bytes, digest }) => {
            let mut column = len_bytes.to_be_bytes().to_vec();
            column.extend_from_slice(digest);
            (Literal::code(TOO_LARGE.to_string()), Some(column.into()))
        }
    }
}

fn outcome(row: &impl Cells) -> Result<Option<Outcome>> {
    let Some(codec) = parsed::<i64>(row, 22)? else {
        return Ok(None);
    };
    let bytes = owned(row, 23)?.unwrap_or_default();
    if codec != TOO_LARGE {
        let codec = u16::try_from(codec).map_err(|_| lie())?;
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
        _ => Err(lie()),
    }
}

fn push_span(out: &mut Literal, duration: Option<Duration>) {
    match duration {
        Some(duration) => out.push(&seconds(duration)),
        None => out.push_code("NULL"),
    }
}

fn push_recovery(out: &mut Literal, recovery: Option<Recovery>) {
    match recovery {
        None => out.push_code("NULL"),
        Some(Recovery::Rerun) => out.push_code(RERUN),
        Some(Recovery::Park) => out.push_code(PARK),
        Some(Recovery::RerunWithin(window)) => push_span(out, Some(window)),
    }
}

fn recovery(row: &impl Cells, column: usize) -> Result<Option<Recovery>> {
    match text(row, column)?.map(|text| text.split_once('.').map_or(text, |(whole, _)| whole)) {
        Some(RERUN) => Ok(Some(Recovery::Rerun)),
        Some(PARK) => Ok(Some(Recovery::Park)),
        Some(_) | None => Ok(span(row, column)?.map(Recovery::RerunWithin)),
    }
}

/// Reads a duration: whole seconds, a point, nine digits.
fn span(row: &impl Cells, column: usize) -> Result<Option<Duration>> {
    let Some(text) = text(row, column)? else {
        return Ok(None);
    };
    let (secs, nanos) = text.split_once('.').unwrap_or((text, "0"));
    let (Ok(secs), Ok(nanos)) = (secs.parse(), format!("{nanos:0<9}").parse::<u32>()) else {
        return Err(lie());
    };
    if nanos >= 1_000_000_000 {
        return Err(lie());
    }
    Ok(Some(Duration::new(secs, nanos)))
}

fn lie() -> Error {
    corrupt("record")
}

/// The columns that [`push_columns`] adds, in its order. `key` is no name here.
const NAMES: [&str; COLUMNS + 1] = [
    "state",
    "at",
    "kept",
    "margin",
    "recovery",
    "claim",
    "token",
    "attempts",
    "vanished",
    "repeats",
    "doubt",
    "created_at",
    "started_at",
    "error",
    "fingerprint",
    "transport",
    "entity",
    "version",
    "held",
    "claimed_at",
    "past",
    "members",
    "codec",
    "outcome",
    "due",
];
const RERUN: &str = "-1";
const PARK: &str = "-2";
const TOO_LARGE: i64 = -1;

/// Adds a key as it is shown to people, where there is one.
pub(crate) fn push_key(out: &mut Literal, key: Option<&Key>) {
    push_optional(out, key.map(Key::as_str));
}
