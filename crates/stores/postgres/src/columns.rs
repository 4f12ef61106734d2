//! Many records as arrays, one per column: the parameters of `insert.sql` and `update.sql`.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use deadpool_postgres::tokio_postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};
use semel_core::attempt::past_to_bytes;
use semel_core::ledger::first_revision;
use semel_core::{FencingToken, Fingerprint, Key, Members, OpId, Record, State};

use crate::row::{
    due, millis, outcome_columns, recovery_column, span_column, state_column, text, window_columns,
};

/// Parameters of a statement, in their order.
pub(crate) type Parameters<'p> = Vec<&'p (dyn ToSql + Sync)>;

/// The columns that both statements share, but for the id.
#[derive(Default)]
pub(crate) struct Columns<'r> {
    ids: Vec<&'r [u8]>,
    revisions: Vec<i64>,
    scopes: Vec<i32>,
    keys: Vec<&'r [u8]>,
    state: Vec<i16>,
    at: Vec<i64>,
    kept: Vec<Option<i64>>,
    margin: Vec<Option<i64>>,
    recovery: Vec<Option<i64>>,
    claim: Vec<Vec<u8>>,
    token: Vec<i64>,
    attempts: Vec<i32>,
    vanished: Vec<i32>,
    repeats: Vec<i32>,
    doubt: Vec<Option<i64>>,
    created_at: Vec<i64>,
    started_at: Vec<Option<i64>>,
    error: Vec<Option<String>>,
    fingerprint: Vec<Option<Vec<u8>>>,
    transport: Vec<Option<&'r [u8]>>,
    entity: Vec<Option<&'r [u8]>>,
    version: Vec<Option<i64>>,
    held: Vec<bool>,
    claimed_at: Vec<Option<i64>>,
    past: Vec<Option<Vec<u8>>>,
    members: Vec<Option<&'r [u8]>>,
    codec: Vec<Option<i32>>,
    outcome: Vec<Option<Blob>>,
    due: Vec<Option<i64>>,
}

impl<'r> Columns<'r> {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Adds a record whose row has this revision.
    pub(crate) fn push_stored(&mut self, id: &'r OpId, revision: u64, record: &'r Record) {
        self.ids.push(id.as_bytes());
        self.revisions.push(revision.cast_signed());
        self.push(record);
    }

    /// Adds a record that has no row.
    pub(crate) fn push_new(&mut self, id: &'r OpId, scope: i32, key: &'r Key, record: &'r Record) {
        self.ids.push(id.as_bytes());
        self.scopes.push(scope);
        self.keys.push(key.as_bytes());
        self.push(record);
    }

    fn push(&mut self, record: &'r Record) {
        let (at, window, recovery) = match record.state {
            State::Claimed { lease_until } => (lease_until, None, None),
            State::Started {
                lease_until,
                recovery,
            } => (lease_until, None, Some(recovery)),
            State::Released { not_before } => (not_before, None, None),
            State::Completed { at, window } | State::Dead { at, window } => {
                (at, Some(window_columns(window)), None)
            }
            State::InDoubt { since } => (since, None, None),
        };
        let (codec, outcome) = outcome_columns(record.outcome.as_ref());
        // The usual record was claimed once and has no past.
        let claimed_at = Some(record.claimed_at).filter(|at| *at != record.created_at);
        let past = (!record.past.is_empty()).then(|| past_to_bytes(&record.past));
        let gate = record.gate.as_ref();
        self.state.push(state_column(record.state.kind()));
        self.at.push(millis(at));
        self.kept.push(window.map(|(kept, _)| kept));
        self.margin.push(window.and_then(|(_, margin)| margin));
        self.recovery.push(recovery.map(recovery_column));
        self.claim.push(record.claim_id.to_bytes().to_vec());
        self.token.push(record.token.get().cast_signed());
        self.attempts.push(record.attempts.cast_signed());
        self.vanished.push(record.vanished.cast_signed());
        self.repeats.push(record.possible_repeats.cast_signed());
        self.doubt.push(record.doubt.map(recovery_column));
        self.created_at.push(millis(record.created_at));
        self.started_at.push(record.first_started_at.map(millis));
        self.error.push(record.last_error.as_deref().map(text));
        let fingerprint = record.fingerprint.map(Fingerprint::to_bytes);
        self.fingerprint.push(fingerprint.map(Into::into));
        self.transport.push(record.transport.as_deref());
        self.entity.push(gate.map(|gate| gate.entity.as_bytes()));
        self.version
            .push(gate.map(|gate| gate.version.cast_signed()));
        self.held.push(record.held);
        self.claimed_at.push(claimed_at.map(millis));
        self.past.push(past);
        self.members
            .push(record.members.as_ref().map(Members::as_bytes));
        self.codec.push(codec);
        self.outcome.push(outcome.map(Blob));
        self.due.push(due(record));
    }

    /// Returns the parameters of `update.sql`.
    pub(crate) fn update(&self) -> Parameters<'_> {
        let mut parameters: Parameters<'_> = vec![&self.ids, &self.revisions];
        parameters.extend(self.shared());
        parameters
    }

    /// Returns the parameters of `insert.sql`. `are_drawn` says that the tokens are drawn for this insert, and must not
    /// have been overtaken.
    pub(crate) fn insert(&self, are_drawn: bool) -> Parameters<'_> {
        let mut parameters: Parameters<'_> = vec![&self.ids];
        parameters.extend(self.shared());
        parameters.push(&self.scopes);
        parameters.push(&self.keys);
        parameters.push(if are_drawn { &true } else { &false });
        parameters
    }

    /// Returns the ids of the inserted records, and their first revisions.
    pub(crate) fn begun(&self) -> (&[&'r [u8]], Vec<i64>) {
        let token = |token: &i64| FencingToken::new(token.cast_unsigned());
        let revisions = self.token.iter().map(token).map(first_revision);
        (&self.ids, revisions.map(u64::cast_signed).collect())
    }

    fn shared(&self) -> [&(dyn ToSql + Sync); 25] {
        [
            &self.state,
            &self.at,
            &self.kept,
            &self.margin,
            &self.recovery,
            &self.claim,
            &self.token,
            &self.attempts,
            &self.vanished,
            &self.repeats,
            &self.doubt,
            &self.created_at,
            &self.started_at,
            &self.error,
            &self.fingerprint,
            &self.transport,
            &self.entity,
            &self.version,
            &self.held,
            &self.claimed_at,
            &self.past,
            &self.members,
            &self.codec,
            &self.outcome,
            &self.due,
        ]
    }
}

/// Parameters of `claim.sql`, for each claimed key.
#[derive(Default)]
pub(crate) struct Asked<'r> {
    pub(crate) ids: Vec<&'r [u8]>,
    pub(crate) scopes: Vec<i32>,
    pub(crate) keys: Vec<&'r [u8]>,
    pub(crate) claims: Vec<Vec<u8>>,
    pub(crate) fingerprints: Vec<Option<Vec<u8>>>,
    pub(crate) transports: Vec<Option<&'r [u8]>>,
    pub(crate) members: Vec<Option<&'r [u8]>>,
    pub(crate) young_until: Vec<Option<i64>>,
    pub(crate) leases: Vec<i64>,
    pub(crate) recoveries: Vec<Option<i64>>,
    /// The scope and the lease of all keys, where they are the same; then their lists are empty.
    pub(crate) scope: Option<i32>,
    pub(crate) lease: Option<i64>,
}

impl<'r> Asked<'r> {
    pub(crate) fn push(&mut self, id: &'r OpId, scope: i32, request: &'r semel_core::ClaimRequest) {
        self.ids.push(id.as_bytes());
        self.scopes.push(scope);
        self.keys.push(request.operation.key.as_bytes());
        self.claims.push(request.claim_id.to_bytes().to_vec());
        let fingerprint = request.fingerprint.map(Fingerprint::to_bytes);
        self.fingerprints.push(fingerprint.map(Into::into));
        self.transports.push(request.transport.as_deref());
        // As `decide` keeps them.
        let members = request
            .members
            .as_ref()
            .filter(|_| request.fingerprint.is_some());
        self.members.push(members.map(Members::as_bytes));
        self.young_until.push(request.birth.map(|birth| {
            let age = request
                .window
                .duration()
                .saturating_sub(request.window.margin());
            // The fraction of a millisecond beyond whole ones makes no difference to an age.
            let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
            millis(birth).saturating_add(age)
        }));
        self.leases.push(span_column(request.lease));
        self.recoveries.push(match request.start {
            semel_core::Start::Unmarked => None,
            semel_core::Start::Marked(recovery) => Some(recovery_column(recovery)),
        });
    }

    /// Leaves out values that need not be sent for each key: each costs the server a tenth of a microsecond, of ten or
    /// so for the whole key.
    pub(crate) fn pack(&mut self) {
        self.scope = in_common(&mut self.scopes);
        self.lease = in_common(&mut self.leases);
        leave_out(&mut self.fingerprints);
        leave_out(&mut self.transports);
        leave_out(&mut self.members);
        leave_out(&mut self.young_until);
        leave_out(&mut self.recoveries);
    }
}

/// Returns the value of a list whose items are all equal, and empties the list.
fn in_common<T: Copy + PartialEq>(list: &mut Vec<T>) -> Option<T> {
    let first = *list.first()?;
    let is_even = list.iter().all(|value| *value == first);
    is_even.then(|| {
        list.clear();
        first
    })
}

/// Empties a list without a value in it.
fn leave_out<T>(list: &mut Vec<Option<T>>) {
    if list.iter().all(Option::is_none) {
        list.clear();
    }
}

/// Shared bytes as a `bytea`.
#[derive(Debug)]
pub(crate) struct Blob(pub(crate) Bytes);

impl ToSql for Blob {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    accepts!(BYTEA);
    to_sql_checked!();
}
