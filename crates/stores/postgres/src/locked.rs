//! Decisions that change several rows together: version gates, orders with their audit entries, marks,
//! effects, and the inbox.
//!
//! Within a transaction, records are locked in the order of their ids, then entities in theirs; the decisions are
//! written once at the end. A key that another transaction inserts meanwhile has this one undone and repeated.

use std::collections::HashMap;

use deadpool_postgres::tokio_postgres;
use semel_core::ledger::{Found, Ledger};
use semel_core::{
    Audited, ClaimId, Entity, EntityRecord, Error, ErrorKind, FencingToken, OpId, Operation,
    Result, Scope, Timestamp,
};

use crate::columns::Columns;
use crate::connection::{Cells, Runs};
use crate::error::{corrupt, uncommitted};
use crate::failure::Failure;
use crate::row::{self, millis, timestamp};
use crate::session::store_scope;
use crate::sql::Texts;

/// Reason why a transaction did not come to its commit.
#[derive(Debug)]
pub(crate) enum Stop {
    /// PostgreSQL refused.
    Server(Failure),
    /// Something else went wrong; surely nothing was applied.
    Failed(Error),
    /// Another transaction inserted a row that was absent: begin again.
    Again,
}

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error.into())
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Server(failure)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Stop {
    /// Returns the error of a transaction that is not tried again.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Server(error) => uncommitted(error),
            Self::Failed(error) => error,
            Self::Again => crate::error::contended(),
        }
    }
}

/// The rows to lock and read.
#[derive(Default)]
pub(crate) struct Wanted<'b> {
    /// The operations.
    pub(crate) operations: Vec<&'b Operation>,
    /// Entities that the batch itself names.
    pub(crate) entities: Vec<(&'b Scope, &'b Entity)>,
    /// Number of fencing tokens that may be needed.
    pub(crate) tokens: usize,
    /// Reads outcomes, too.
    pub(crate) outcomes: bool,
    /// The time of a clock that replaces the server's, for tests.
    pub(crate) given_now: Option<i64>,
}

/// A ledger over locked rows, in a transaction of the caller's.
pub(crate) struct Locked<'t, C> {
    client: &'t C,
    texts: &'t Texts,
    pub(crate) ledger: Ledger,
    pub(crate) tokens: std::vec::IntoIter<FencingToken>,
    scopes: HashMap<Scope, i32>,
}

impl<'t, C: Runs> Locked<'t, C> {
    /// Locks and reads.
    pub(crate) async fn begin(
        client: &'t C,
        texts: &'t Texts,
        wanted: Wanted<'_>,
    ) -> Result<Self, Stop> {
        let ids: Vec<_> = wanted.operations.iter().map(|it| it.id()).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let asked: Vec<_> = sorted.iter().map(|id| &id.as_bytes()[..]).collect();
        let rows = client
            .rows(&texts.lock, &[&wanted.outcomes, &asked])
            .await?;
        // After the locks: no earlier holder of a lock can have had a later time than this.
        let count = i64::try_from(wanted.tokens).unwrap_or(i64::MAX);
        let row = only(client.rows(&texts.now, &[&count]).await?)?;
        let now = wanted.given_now.map_or_else(|| row.try_get(0), Ok)?;
        let tokens: Vec<i64> = row.try_get(1)?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let record = match row::found(row) {
                Ok(Some((revision, record))) => Found::Record(revision, record),
                Ok(None) => Found::Absent,
                Err(error) if error.kind() == ErrorKind::Corrupt => Found::Damaged(error),
                Err(error) => return Err(error.into()),
            };
            found.insert(crate::rounds::id_at(row, row::COLUMNS + 1)?, record);
        }
        let mut ledger = Ledger::new(timestamp(now));
        ledger.reserve(sorted.len());
        for (id, operation) in ids.into_iter().zip(wanted.operations) {
            if !ledger.knows(id) {
                let found = found.remove(&id).unwrap_or(Found::Absent);
                ledger.found(id, operation, found);
            }
        }
        let tokens = tokens
            .into_iter()
            .map(|it| FencingToken::new(it.cast_unsigned()));
        let mut locked = Self {
            client,
            texts,
            ledger,
            tokens: tokens.collect::<Vec<_>>().into_iter(),
            scopes: HashMap::new(),
        };
        let mut entities = locked.ledger.gating_entities();
        let named = wanted.entities.into_iter();
        entities.extend(named.map(|(scope, entity)| (scope.clone(), entity.clone())));
        locked.lock_entities(entities).await?;
        Ok(locked)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ledger.now()
    }

    async fn lock_entities(&mut self, entities: Vec<(Scope, Entity)>) -> Result<(), Stop> {
        if entities.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = entities
            .iter()
            .map(|(scope, it)| OpId::of(scope, it))
            .collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let asked: Vec<_> = sorted.iter().map(|id| &id.as_bytes()[..]).collect();
        let rows = self.client.rows(&self.texts.entity_lock, &[&asked]).await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            found.insert(crate::rounds::id_at(row, 0)?, entity_record(row, 1)?);
        }
        for (id, (scope, entity)) in ids.into_iter().zip(entities) {
            let record = found.get(&id).cloned();
            self.ledger.found_entity(&scope, &entity, record);
        }
        Ok(())
    }

    /// Returns the number of a scope, which is stored if it is not yet.
    pub(crate) async fn scope(&mut self, scope: &Scope) -> Result<i32, Stop> {
        if let Some(number) = self.scopes.get(scope) {
            return Ok(*number);
        }
        let number = store_scope(self.client, &self.texts.scope, scope).await?;
        self.scopes.insert(scope.clone(), number);
        Ok(number)
    }

    /// Writes the decisions, at the end.
    pub(crate) async fn flush(mut self) -> Result<(), Stop> {
        self.write().await?;
        self.probe().await
    }

    /// Writes the decisions made so far.
    pub(crate) async fn write(&mut self) -> Result<(), Stop> {
        let absent = self
            .ledger
            .changes()
            .filter(|entry| entry.revision.is_none());
        let absent: Vec<_> = absent.map(|entry| entry.operation.scope.clone()).collect();
        for scope in &absent {
            self.scope(scope).await?;
        }
        let (mut updates, mut inserts) = (Columns::default(), Columns::default());
        let (mut dropped, mut revisions) = (Vec::new(), Vec::new());
        for entry in self.ledger.changes() {
            match (entry.revision, &entry.record) {
                (Some(revision), Some(record)) => updates.push_stored(&entry.id, revision, record),
                (None, Some(record)) => {
                    let scope = self.scopes[&entry.operation.scope];
                    inserts.push_new(&entry.id, scope, &entry.operation.key, record);
                }
                (Some(revision), None) => {
                    dropped.push(&entry.id.as_bytes()[..]);
                    revisions.push(revision.cast_signed());
                }
                (None, None) => {}
            }
        }
        if !inserts.is_empty() {
            let written = self
                .client
                .rows(&self.texts.insert, &inserts.insert(true))
                .await?;
            if written.len() < inserts.len() {
                // The inserted rows go, so that a retry does not find them where the transaction is not undone.
                let (ids, revisions) = inserts.begun();
                self.client
                    .rows(&self.texts.delete, &[&ids, &revisions])
                    .await?;
                return Err(Stop::Again);
            }
        }
        if !updates.is_empty() {
            let written = self
                .client
                .rows(&self.texts.update, &updates.update())
                .await?;
            if written.len() < updates.len() {
                return Err(Stop::Again);
            }
        }
        if !dropped.is_empty() {
            self.client
                .rows(&self.texts.delete, &[&dropped, &revisions])
                .await?;
        }
        self.write_entities().await?;
        let audited = self.ledger.audited().to_vec();
        self.add_audited(&audited).await?;
        self.ledger.wrote_all();
        Ok(())
    }

    /// Makes sure that the records decided on as absent are still absent. There was no row to lock, and others may have
    /// come first while this transaction waited for its locks.
    async fn probe(&self) -> Result<(), Stop> {
        let absent: Vec<_> = self.ledger.absent().collect();
        if absent.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = absent.iter().map(|id| &id.as_bytes()[..]).collect();
        let probed = self.client.rows(&self.texts.probe, &[&ids]).await?;
        if probed.len() < ids.len() {
            return Err(Stop::Again);
        }
        self.client.rows(&self.texts.unprobe, &[&ids]).await?;
        Ok(())
    }

    async fn write_entities(&mut self) -> Result<(), Stop> {
        let changes: Vec<_> = self
            .ledger
            .entity_changes()
            .map(|it| {
                (
                    it.id,
                    it.scope.clone(),
                    it.entity.clone(),
                    it.is_stored,
                    it.record.clone(),
                )
            })
            .collect();
        for is_stored in [false, true] {
            let some: Vec<_> = changes.iter().filter(|it| it.3 == is_stored).collect();
            if some.is_empty() {
                continue;
            }
            let mut scopes = Vec::new();
            for it in &some {
                scopes.push(self.scope(&it.1).await?);
            }
            let ids: Vec<_> = some.iter().map(|it| &it.0.as_bytes()[..]).collect();
            let entities: Vec<_> = some.iter().map(|it| it.2.as_bytes()).collect();
            let applied: Vec<_> = some
                .iter()
                .map(|it| it.4.applied.map(u64::cast_signed))
                .collect();
            let holders: Vec<_> = some
                .iter()
                .map(|it| it.4.holder.map(|(claim, _)| claim.to_bytes().to_vec()))
                .collect();
            let untils: Vec<_> = some
                .iter()
                .map(|it| it.4.holder.map(|(_, until)| millis(until)))
                .collect();
            if is_stored {
                self.client
                    .rows(
                        &self.texts.entity_update,
                        &[&ids, &applied, &holders, &untils],
                    )
                    .await?;
                continue;
            }
            let written = self
                .client
                .rows(
                    &self.texts.entity_insert,
                    &[&ids, &scopes, &entities, &applied, &holders, &untils],
                )
                .await?;
            if written.len() < ids.len() {
                return Err(Stop::Again);
            }
        }
        Ok(())
    }

    /// Adds entries to the audit trail.
    pub(crate) async fn add_audited(&mut self, entries: &[Audited]) -> Result<(), Stop> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut scopes = Vec::new();
        for entry in entries {
            scopes.push(match &entry.scope {
                Some(scope) => Some(self.scope(scope).await?),
                None => None,
            });
        }
        add_audited(self.client, self.texts, entries, &scopes).await?;
        Ok(())
    }
}

/// Adds entries to the audit trail, with the numbers of their scopes.
pub(crate) async fn add_audited(
    client: &impl Runs,
    texts: &Texts,
    entries: &[Audited],
    scopes: &[Option<i32>],
) -> Result<(), Failure> {
    let texts_of = |part: fn(&Audited) -> &str| -> Vec<String> {
        entries.iter().map(|entry| row::text(part(entry))).collect()
    };
    let at: Vec<_> = entries.iter().map(|entry| millis(entry.at)).collect();
    let keys: Vec<_> = entries
        .iter()
        .map(|entry| entry.key.as_ref().map(semel_core::Key::as_bytes))
        .collect();
    client
        .rows(
            &texts.audit_add,
            &[
                &at,
                &texts_of(|entry| &entry.note.by),
                &texts_of(|entry| &entry.note.reason),
                &texts_of(|entry| &entry.action),
                &scopes,
                &keys,
                &texts_of(|entry| &entry.before),
                &texts_of(|entry| &entry.after),
            ],
        )
        .await
        .map(drop)
}

/// Reads an entity from three columns of a row, from `first` on.
pub(crate) fn entity_record(row: &impl Cells, first: usize) -> Result<EntityRecord> {
    let column = |failure: Failure| failure.because(corrupt("entity"));
    let applied: Option<i64> = row.try_get(first).map_err(column)?;
    let holder: Option<&[u8]> = row.try_get(first + 1).map_err(column)?;
    let until: Option<i64> = row.try_get(first + 2).map_err(column)?;
    let holder: Option<ClaimId> = match holder {
        None => None,
        Some(bytes) => Some(row::claim_id(bytes).ok_or_else(|| corrupt("entity"))?),
    };
    Ok(EntityRecord {
        applied: applied.map(i64::cast_unsigned),
        holder: holder.zip(until.map(timestamp)),
    })
}

fn only<R>(rows: Vec<R>) -> Result<R, Error> {
    rows.into_iter().next().ok_or_else(|| {
        Error::new(
            ErrorKind::Internal,
            "PostgreSQL answered a question with nothing",
        )
    })
}
