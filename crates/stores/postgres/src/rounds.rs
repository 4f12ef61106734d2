//! Batches whose records are not gated by a version: one statement where nothing is in the way, then
//! compare and set.
//!
//! The server inserts absent records, completes and extends those that belong to the caller, and returns the rest with
//! their revisions. The rest is decided here, and written on the condition that the revision still stands. The loser of
//! such a race asks again. Nobody holds a lock while it thinks, so nobody waits for a worker that stands still.
//!
//! # Guarantee   those of `claim`, `settle` and `renew`; BAT-2

mod claim;
mod settle;

use std::collections::{HashMap, HashSet};

use deadpool_postgres::Object;
use deadpool_postgres::tokio_postgres::Row;
use semel_core::ledger::{Found, Ledger};
use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, OpId, Operation, Renewal, Renewed, Result, Scope,
    Settled, Settlement, Timestamp,
};

use crate::columns::Columns;
use crate::connection::{Cells, Runs};
use crate::error::{contended, undone};
use crate::row::{self, timestamp};
use crate::session::{Session, pause};

/// Rounds after which an item that is still open is given up.
const ROUNDS: u32 = 32;
/// Round from which on a caller waits a little before it asks again.
const PATIENT: u32 = 4;

/// Claims that are not gated.
pub(crate) async fn claim(session: &Session, batch: &[ClaimRequest]) -> Result<Vec<Admission>> {
    let client = session.client().await?;
    let operations: Vec<_> = batch.iter().map(|request| &request.operation).collect();
    let mut rounds = Rounds::new(session, &client, &operations, Admission::Failed);
    rounds.store_scopes().await?;
    while rounds.goes_on().await {
        if let Err(error) = rounds.claim(batch).await {
            rounds.give_up(error)?;
        }
    }
    Ok(rounds.finish())
}

/// Settles a batch; returns the answers, and the places of the items left out because their records are gated.
pub(crate) async fn settle(
    session: &Session,
    batch: &[Settlement],
) -> Result<(Vec<Settled>, Vec<usize>)> {
    let client = session.client().await?;
    let operations: Vec<_> = batch.iter().map(|it| &it.operation).collect();
    let mut rounds = Rounds::new(session, &client, &operations, Settled::Failed);
    while rounds.goes_on().await {
        if let Err(error) = rounds.settle(batch).await {
            rounds.give_up(error)?;
        }
    }
    let gated = std::mem::take(&mut rounds.gated);
    Ok((rounds.finish(), gated))
}

/// Renews a batch; returns the answers, and the places of the items left out because their records are gated.
pub(crate) async fn renew(
    session: &Session,
    batch: &[Renewal],
) -> Result<(Vec<Renewed>, Vec<usize>)> {
    let client = session.client().await?;
    let operations: Vec<_> = batch.iter().map(|it| &it.operation).collect();
    let mut rounds = Rounds::new(session, &client, &operations, Renewed::Failed);
    while rounds.goes_on().await {
        if let Err(error) = rounds.renew(batch).await {
            rounds.give_up(error)?;
        }
    }
    let gated = std::mem::take(&mut rounds.gated);
    Ok((rounds.finish(), gated))
}

/// One batch in progress.
struct Rounds<'b, A> {
    session: &'b Session,
    client: &'b Object,
    operations: &'b [&'b Operation],
    ids: Vec<OpId>,
    answers: Vec<Option<A>>,
    /// The answer to an item that could not be decided or written.
    failed: fn(Error) -> A,
    /// Places of items that have no answer yet, in order.
    open: Vec<usize>,
    /// For each item, `true` if its answer is written already, whatever becomes of the later ones.
    is_written: Vec<bool>,
    /// Places of items that are left to a transaction, since records of theirs are gated.
    gated: Vec<usize>,
    scopes: HashMap<Scope, i32>,
    round: u32,
}

impl<'b, A: Clone + Send + Sync> Rounds<'b, A> {
    fn new(
        session: &'b Session,
        client: &'b Object,
        operations: &'b [&'b Operation],
        failed: fn(Error) -> A,
    ) -> Self {
        Self {
            failed,
            session,
            client,
            ids: operations.iter().map(|it| it.id()).collect(),
            answers: vec![None; operations.len()],
            open: (0..operations.len()).collect(),
            is_written: vec![false; operations.len()],
            gated: Vec::new(),
            scopes: HashMap::new(),
            operations,
            round: 0,
        }
    }

    async fn store_scopes(&mut self) -> Result<()> {
        for operation in self.operations {
            if !self.scopes.contains_key(&operation.scope) {
                let number = self.session.scope(self.client, &operation.scope).await?;
                self.scopes.insert(operation.scope.clone(), number);
            }
        }
        Ok(())
    }

    /// Returns whether there is another round, after a pause if there were many.
    async fn goes_on(&mut self) -> bool {
        if self.open.is_empty() || self.round == ROUNDS {
            return false;
        }
        if self.round >= PATIENT {
            pause(self.round - PATIENT + 1).await;
        }
        self.round += 1;
        true
    }

    fn finish(self) -> Vec<A> {
        let answer = |answer: Option<A>| answer.unwrap_or_else(|| (self.failed)(contended()));
        self.answers.into_iter().map(answer).collect()
    }

    /// Ends the batch with an error. Items that were written before keep their answers, for the error is not true of
    /// them; only if there are none is it the error of the whole call.
    fn give_up(&mut self, error: Error) -> Result<()> {
        if self.open.len() == self.answers.len() && !self.is_written.contains(&true) {
            return Err(error);
        }
        for item in std::mem::take(&mut self.open) {
            if !self.is_written[item] {
                self.answers[item] = Some((self.failed)(error.clone()));
            }
        }
        Ok(())
    }

    /// Returns the first open item of each key, in the order of the ids.
    fn keys(&self) -> Vec<usize> {
        let mut keys = self.open.clone();
        keys.sort_by_key(|item| (self.ids[*item], *item));
        keys.dedup_by_key(|item| self.ids[*item]);
        keys
    }

    /// Writes the decisions. Items of keys that another process has written meanwhile stay open, beside those of
    /// `again`.
    async fn write(&mut self, ledger: &Ledger, mut again: Vec<usize>) -> Result<()> {
        let mut lost = HashSet::new();
        let written = write(self.session, self.client, ledger, &self.scopes, &mut lost).await;
        let is_lost = |item: &usize| lost.contains(&self.ids[*item]);
        let (mut open, kept): (Vec<usize>, Vec<usize>) = self
            .open
            .iter()
            .filter(|item| !self.is_written[**item])
            .partition(|item| is_lost(item));
        if let Err(error) = written {
            // Some may have been written before the statement that failed.
            for item in kept {
                self.is_written[item] |= self.answers[item].is_some();
            }
            return Err(error);
        }
        for item in &open {
            self.answers[*item] = None;
        }
        again.append(&mut open);
        again.sort_unstable();
        again.dedup();
        self.open = again;
        Ok(())
    }

    /// Hands the record in a row to the ledger, for an item's key.
    fn tell(&self, ledger: &mut Ledger, item: usize, row: &Row) -> Result<()> {
        let found = match row::found(row) {
            Ok(None) => Found::Absent,
            Ok(Some((revision, record))) => Found::Record(revision, record),
            Err(error) if error.kind() == ErrorKind::Corrupt => Found::Damaged(error),
            Err(error) => return Err(error),
        };
        ledger.found(self.ids[item], self.operations[item], found);
        Ok(())
    }

    /// Sets the open items aside if some of their records are gated: an entity ties them together, so that they are
    /// decided in their order.
    fn put_gated_aside(&mut self, ledger: &Ledger) {
        let is_gated = |item: &usize| {
            let record = ledger.record(self.ids[*item]);
            record.is_some_and(|record| record.gate.is_some())
        };
        if self.open.iter().any(is_gated) {
            self.gated.append(&mut self.open);
        }
    }

    /// Reads the records of these keys.
    async fn read(&self, keys: &[usize], ledger: &mut Option<Ledger>) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = keys
            .iter()
            .map(|item| &self.ids[*item].as_bytes()[..])
            .collect();
        let now = self.session.given_now();
        let text = &self.session.texts.read;
        let rows = self
            .session
            .run(self.client, text, &[&now, &false, &ids])
            .await?;
        for row in &rows {
            if let (Some(item), now) = line(row, row::COLUMNS + 1, keys)? {
                let ledger = ledger.get_or_insert_with(|| Ledger::new(now));
                self.tell(ledger, item, row)?;
            }
        }
        Ok(())
    }
}

impl<A> Rounds<'_, A> {
    /// Returns the open items whose key no other open item has.
    fn alone(&self) -> HashSet<usize> {
        let mut counts: HashMap<OpId, usize> = HashMap::with_capacity(self.open.len());
        for item in &self.open {
            *counts.entry(self.ids[*item]).or_default() += 1;
        }
        let is_alone = |item: &usize| counts[&self.ids[*item]] == 1;
        self.open.iter().copied().filter(is_alone).collect()
    }
}

/// Writes the changes of a ledger, each record on the condition that its revision still stands; puts those that did not
/// stand into `lost`, also after an error.
async fn write(
    session: &Session,
    client: &impl Runs,
    ledger: &Ledger,
    scopes: &HashMap<Scope, i32>,
    lost: &mut HashSet<OpId>,
) -> Result<()> {
    let (mut updates, mut inserts) = (Columns::default(), Columns::default());
    let (mut dropped, mut revisions) = (Vec::new(), Vec::new());
    for entry in ledger.changes() {
        lost.insert(entry.id);
        match (entry.revision, &entry.record) {
            (Some(revision), Some(record)) => updates.push_stored(&entry.id, revision, record),
            (None, Some(record)) => {
                let scope = scopes
                    .get(&entry.operation.scope)
                    .copied()
                    .unwrap_or_default();
                inserts.push_new(&entry.id, scope, &entry.operation.key, record);
            }
            (Some(revision), None) => {
                dropped.push(&entry.id.as_bytes()[..]);
                revisions.push(revision.cast_signed());
            }
            (None, None) => {}
        }
    }
    let texts = &session.texts;
    for (text, parameters, is_empty) in [
        (&texts.update, updates.update(), updates.is_empty()),
        (&texts.insert, inserts.insert(false), inserts.is_empty()),
        (
            &texts.delete,
            vec![&dropped as _, &revisions as _],
            dropped.is_empty(),
        ),
    ] {
        if is_empty {
            continue;
        }
        for row in &session.run(client, text, &parameters).await? {
            lost.remove(&id_at(row, 0)?);
        }
    }
    Ok(())
}

/// Reads the id in a column.
pub(crate) fn id_at(row: &impl Cells, column: usize) -> Result<OpId> {
    let bytes: &[u8] = row.try_get(column).map_err(undone)?;
    let id = bytes.try_into().map(OpId::from_bytes);
    id.map_err(|_| crate::error::corrupt("operation id"))
}

/// Returns the item that a line of an answer belongs to, and the time at which it was read. Line 0 has no item: it
/// names all that the statement has written.
fn line(row: &Row, column: usize, keys: &[usize]) -> Result<(Option<usize>, Timestamp)> {
    let number: i64 = row.try_get(column).map_err(undone)?;
    let now: i64 = row.try_get(column + 1).map_err(undone)?;
    let item = (number != 0).then(|| item(number, keys)).transpose()?;
    Ok((item, timestamp(now)))
}

/// Returns the items that line 0 names as written.
fn written(row: &Row, column: usize, keys: &[usize]) -> Result<Vec<usize>> {
    let places: Option<Vec<i64>> = row.try_get(column).map_err(undone)?;
    let places = places.unwrap_or_default();
    places.into_iter().map(|place| item(place, keys)).collect()
}

/// Returns the item of a place, which is counted from 1.
fn item(place: i64, keys: &[usize]) -> Result<usize> {
    let at = usize::try_from(place - 1).ok();
    at.and_then(|at| keys.get(at)).copied().ok_or_else(unasked)
}

fn unasked() -> Error {
    let message = "an answer to something that was not asked";
    Error::new(ErrorKind::Internal, message)
}
