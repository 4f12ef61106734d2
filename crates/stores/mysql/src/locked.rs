//! Decisions that change several rows together: version gates, orders with their audit entries, marks,
//! effects.
//!
//! Within a transaction, records are locked in the order of their ids, then entities in theirs; then
//! the time is read and tokens are drawn; what is decided is written once at the end. What is absent
//! cannot be locked without keeping others from its neighbours, so it is looked for again before the
//! commit, and a key that somebody else has inserted has the transaction undone and done again.

use std::collections::HashMap;

use semel_core::ledger::{EntityEntry, Found, Ledger};
use semel_core::{
    Audited, ClaimId, Entity, EntityRecord, Error, ErrorKind, FencingToken, OpId, Operation,
    Result, Scope, Timestamp,
};

use crate::answer::{Set, fixed, id, number, only, some_number, time};
use crate::error::{DUPLICATE, Failure};
use crate::pool::Lease;
use crate::row::{self, push_assignments, push_key, push_optional, push_row};
use crate::script::{Literal, Script, optional};
use crate::session::Session;
use crate::sql::Text;
use crate::tokens;
use crate::transaction::{Stop, commit, committed_or};

/// What is to be locked and read.
#[derive(Default)]
pub(crate) struct Wanted<'b> {
    /// The operations.
    pub(crate) operations: Vec<&'b Operation>,
    /// Entities that claims name. Where there are none, those that gate the records are locked.
    pub(crate) entities: Vec<(&'b Scope, &'b Entity)>,
    /// How many fencing tokens may be needed.
    pub(crate) tokens: usize,
    /// Whether outcomes are.
    pub(crate) outcomes: bool,
    /// A row of `meta` that lets one at a time through.
    pub(crate) turnstile: Option<&'static str>,
    /// Statements to run right after the begin.
    pub(crate) first: Script,
}

/// A ledger over locked rows, in an open transaction.
pub(crate) struct Locked<'t> {
    session: &'t Session,
    pub(crate) lease: &'t mut Lease,
    pub(crate) ledger: Ledger,
    pub(crate) tokens: std::vec::IntoIter<FencingToken>,
    /// The highest token of the records that were found.
    highest: u64,
}

impl<'t> Locked<'t> {
    /// Begins, locks and reads.
    pub(crate) async fn begin(
        session: &'t Session,
        lease: &'t mut Lease,
        wanted: Wanted<'_>,
    ) -> Result<Self, Stop> {
        let texts = &session.texts;
        let mut script = Script::default();
        script.add(&texts.begin, &[]);
        if let Some(name) = wanted.turnstile {
            script.add(&texts.meta_lock, &[&Literal::bytes(name.as_bytes())]);
        }
        script.append(&wanted.first);
        let ids = sorted(wanted.operations.iter().map(|it| it.id()));
        let outcomes = Literal::number(wanted.outcomes.into());
        let mut locked = Vec::new();
        for ids in ids.chunks(CHUNK) {
            let ids = Literal::list(ids.iter().map(OpId::as_bytes));
            locked.push(script.add(&texts.lock, &[&outcomes, &outcomes, &ids]));
        }
        let named: Vec<_> = wanted
            .entities
            .into_iter()
            .map(|(scope, entity)| (scope.clone(), entity.clone()))
            .collect();
        let entities = add_entity_locks(session, &mut script, &named);
        tokens::draw(session, &mut script, wanted.tokens);
        // After the locks: nobody who held one before can have been later than this.
        session.add_now(&mut script);
        let drawn = script.add(&texts.drawn, &[]);
        let sets = lease.run(&script).await?;
        let row = only(&sets[drawn])?;
        let (now, mut first) = (time(row, 0)?, number(row, 1)?);
        session.saw(now);
        let mut ledger = Ledger::new(now);
        ledger.reserve(ids.len());
        let (mut found, mut highest) = (HashMap::with_capacity(ids.len()), 0);
        for row in locked.iter().flat_map(|place| &sets[*place].rows) {
            let (id, record) = row::found(row)?;
            if let Found::Record(_, record) = &record {
                highest = highest.max(record.token.get());
            }
            found.insert(id, record);
        }
        if first.is_some_and(|first| first <= highest) {
            // Records may come from another store before its tokens do.
            first = draw_above(session, lease, wanted.tokens, highest).await?;
        }
        let tokens: Vec<_> = match first {
            Some(first) => (first..)
                .take(wanted.tokens)
                .map(FencingToken::new)
                .collect(),
            None => Vec::new(),
        };
        for operation in wanted.operations {
            let id = operation.id();
            if !ledger.knows(id) {
                let found = found.remove(&id).unwrap_or(Found::Absent);
                ledger.found(id, operation, found);
            }
        }
        let mut locked = Self {
            session,
            lease,
            ledger,
            tokens: tokens.into_iter(),
            highest,
        };
        if named.is_empty() {
            locked.lock_gating_entities().await?;
        } else {
            locked.tell_entities(&named, entities.iter().map(|place| &sets[*place]))?;
        }
        Ok(locked)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.ledger.now()
    }

    async fn lock_gating_entities(&mut self) -> Result<(), Stop> {
        let gating = self.ledger.gating_entities();
        if gating.is_empty() {
            return Ok(());
        }
        let mut script = Script::default();
        let places = add_entity_locks(self.session, &mut script, &gating);
        let sets = self.lease.run(&script).await?;
        self.tell_entities(&gating, places.iter().map(|place| &sets[*place]))
    }

    fn tell_entities<'s>(
        &mut self,
        entities: &[(Scope, Entity)],
        sets: impl Iterator<Item = &'s Set>,
    ) -> Result<(), Stop> {
        let mut found = HashMap::new();
        for row in sets.flat_map(|set| &set.rows) {
            found.insert(id(row, 0)?, entity_record(row)?);
        }
        for (scope, entity) in entities {
            let record = found.get(&OpId::of(scope, entity)).cloned();
            self.ledger.found_entity(scope, entity, record);
        }
        Ok(())
    }

    /// Writes what was decided, without committing it.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        self.writes().run(self.lease).await.map(drop)
    }

    /// Writes what was decided and commits it.
    pub(crate) async fn finish(self) -> Result<(), Stop> {
        self.writes().commit(self.lease).await
    }

    /// What was decided.
    pub(crate) fn writes(&self) -> Writes<'t> {
        let mut writes = Writes::new(self.session, self.lease.most_bytes());
        writes.add_records(&self.ledger, self.highest);
        for entity in self.ledger.entity_changes() {
            writes.add_entity(entity);
        }
        writes.add_audited(self.ledger.audited());
        writes.add_probes(&self.ledger);
        writes
    }
}

/// Tokens above all that were found.
async fn draw_above(
    session: &Session,
    lease: &mut Lease,
    count: usize,
    highest: u64,
) -> Result<Option<u64>, Stop> {
    let mut script = Script::default();
    tokens::raise(session, &mut script, highest);
    tokens::draw(session, &mut script, count);
    let drawn = script.add(&session.texts.drawn, &[]);
    let sets = lease.run(&script).await?;
    Ok(number(only(&sets[drawn])?, 1)?)
}

/// Statements that write, cut into scripts that fit into packets, with what must be true of each.
pub(crate) struct Writes<'s> {
    session: &'s Session,
    most_bytes: usize,
    scripts: Vec<(Script, Vec<Check>)>,
}

/// What must be true of a result, or the transaction begins anew.
enum Check {
    /// The statement at this place has changed so many rows.
    Changed(usize, u64),
    /// The one at this place has found nothing.
    Nothing(usize),
    /// The number found at this place is below this token.
    Below(usize, u64),
}

impl<'s> Writes<'s> {
    pub(crate) fn new(session: &'s Session, most_bytes: usize) -> Self {
        Self {
            session,
            most_bytes,
            scripts: Vec::new(),
        }
    }

    fn add_records(&mut self, ledger: &Ledger, highest: u64) {
        let session = self.session;
        let texts = &session.texts;
        let mut rows = Rows::default();
        let (mut least, mut removes) = (u64::MAX, false);
        let mut changes: Vec<_> = ledger.changes().collect();
        changes.sort_unstable_by_key(|entry| entry.id);
        for entry in changes {
            match (entry.revision, &entry.record) {
                (Some(revision), Some(record)) => {
                    let mut set = Literal::default();
                    push_assignments(&mut set, record);
                    let id = Literal::bytes(entry.id.as_bytes());
                    let place = self.add(&texts.update, &[&set, &id, &Literal::number(revision)]);
                    self.check(Check::Changed(place, 1));
                }
                (None, Some(record)) => {
                    least = least.min(record.token.get());
                    let push =
                        |out: &mut Literal| push_row(out, &entry.id, &entry.operation, record);
                    rows.push(push, |rows, count| self.add_rows(rows, count));
                }
                (Some(revision), None) => {
                    removes = true;
                    let id = Literal::bytes(entry.id.as_bytes());
                    let place = self.add(&texts.delete, &[&id, &Literal::number(revision)]);
                    self.check(Check::Changed(place, 1));
                }
                (None, None) => {}
            }
        }
        rows.end(|rows, count| self.add_rows(rows, count));
        if removes {
            let token = Literal::number(highest);
            self.add(&texts.floor, &[&token, &token]);
        }
        if least < u64::MAX {
            // Read after the insertion: whoever was there before is gone, and its token is told here.
            let floor = Literal::bytes(b"floor");
            let place = self.add(&texts.meta_get, &[&floor]);
            self.check(Check::Below(place, least));
        }
    }

    fn add_entity(&mut self, it: &EntityEntry) {
        let session = self.session;
        let texts = &session.texts;
        if it.is_stored {
            let [applied, holder, until] = entity_columns(&it.record);
            let id = Literal::bytes(it.id.as_bytes());
            self.add(&texts.entity_update, &[&applied, &holder, &until, &id]);
        } else {
            let mut row = Literal::default();
            push_entity(&mut row, &it.scope, &it.entity, &it.record);
            let place = self.add(&texts.entity_insert, &[&row]);
            self.check(Check::Changed(place, 1));
        }
    }

    /// Adds rows of records that are not there yet.
    pub(crate) fn add_rows(&mut self, rows: &Literal, count: u64) {
        let session = self.session;
        let place = self.add(&session.texts.insert, &[rows]);
        self.check(Check::Changed(place, count));
    }

    /// Adds entries to the audit trail.
    pub(crate) fn add_audited(&mut self, entries: &[Audited]) {
        let session = self.session;
        let texts = &session.texts;
        let mut rows = Rows::default();
        for entry in entries {
            rows.push(
                |out| push_audited(out, entry),
                |rows, _| {
                    self.add(&texts.audit_add, &[rows]);
                },
            );
        }
        rows.end(|rows, _| {
            self.add(&texts.audit_add, &[rows]);
        });
    }

    /// What was decided on an absent record without writing it rests on its being absent still: there
    /// was no row to lock, and others may have come while this one waited for its locks.
    fn add_probes(&mut self, ledger: &Ledger) {
        let session = self.session;
        let absent: Vec<_> = ledger.absent().collect();
        for ids in absent.chunks(CHUNK) {
            let ids = Literal::list(ids.iter().map(OpId::as_bytes));
            let place = self.add(&session.texts.probe, &[&ids]);
            self.check(Check::Nothing(place));
        }
    }

    /// Adds a statement; answers with its place in the last script.
    pub(crate) fn add(&mut self, text: &Text, values: &[&Literal]) -> usize {
        let mut script = Script::default();
        script.add(text, values);
        self.add_script(&script)
    }

    /// Adds the statements of a script; answers with the place of the first in the last script.
    pub(crate) fn add_script(&mut self, some: &Script) -> usize {
        let is_full = |(script, _): &(Script, Vec<Check>)| {
            script.text.len() + some.text.len() > self.most_bytes / 2
        };
        if self.scripts.last().is_none_or(is_full) {
            self.scripts.push(Default::default());
        }
        let Some((script, _)) = self.scripts.last_mut() else {
            return 0;
        };
        let place = script.statements;
        script.append(some);
        place
    }

    fn check(&mut self, check: Check) {
        if let Some((_, checks)) = self.scripts.last_mut() {
            checks.push(check);
        }
    }

    /// How many scripts there are; the last statement that was added is in the last of them.
    pub(crate) fn scripts(&self) -> usize {
        self.scripts.len()
    }

    /// Runs everything and compares; answers with the results of each script.
    pub(crate) async fn run(self, lease: &mut Lease) -> Result<Vec<Vec<Set>>, Stop> {
        let mut results = Vec::with_capacity(self.scripts.len());
        for (script, checks) in self.scripts {
            let sets = lease.run(&script).await.map_err(again_if_duplicate)?;
            compare(&sets, checks)?;
            results.push(sets);
        }
        Ok(results)
    }

    /// Runs everything, compares and commits; all at once where no answer is waited for.
    pub(crate) async fn commit(mut self, lease: &mut Lease) -> Result<(), Stop> {
        let session = self.session;
        let mut last = self.scripts.pop().unwrap_or_default();
        self.run(lease).await?;
        let (script, checks) = &mut last;
        // A row that is locked and a key that is not there yet are changed, or the statement fails.
        let is_sure = |check: &Check| matches!(check, Check::Changed(..));
        if !checks.iter().all(is_sure) {
            let sets = lease.run(script).await.map_err(again_if_duplicate)?;
            compare(&sets, std::mem::take(checks))?;
            return commit(session, lease).await;
        }
        let commit = script.add(&session.texts.commit, &[]);
        let ran = match lease.run(script).await {
            Err(failure) if failure.refusal().is_some() && failure.at < commit => {
                return Err(again_if_duplicate(failure));
            }
            ran => ran,
        };
        let sets = committed_or(ran, lease)?;
        compare(&sets, std::mem::take(checks)).map_err(|_| {
            let message = "a row that was locked could not be written";
            Stop::Failed(Error::new(ErrorKind::Internal, message))
        })
    }
}

fn compare(sets: &[Set], checks: Vec<Check>) -> Result<(), Stop> {
    for check in checks {
        let holds = match check {
            Check::Changed(place, count) => sets[place].affected == count,
            Check::Nothing(place) => sets[place].rows.is_empty(),
            Check::Below(place, token) => some_number(only(&sets[place])?, 0)? < token,
        };
        if !holds {
            return Err(Stop::Again);
        }
    }
    Ok(())
}

/// Rows of one statement, which is added whenever enough have come together.
#[derive(Default)]
pub(crate) struct Rows {
    rows: Literal,
    count: u64,
}

impl Rows {
    pub(crate) fn push(
        &mut self,
        push: impl FnOnce(&mut Literal),
        add: impl FnOnce(&Literal, u64),
    ) {
        push(&mut self.rows);
        self.count += 1;
        if self.rows.len() >= ROWS_BYTES {
            self.end(add);
        }
    }

    pub(crate) fn end(&mut self, add: impl FnOnce(&Literal, u64)) {
        let Self { rows, count } = std::mem::take(self);
        if count > 0 {
            add(&rows, count);
        }
    }
}

/// What somebody else inserted since it was found absent has the transaction done again.
fn again_if_duplicate(failure: Failure) -> Stop {
    match failure.refusal() {
        Some(error) if error.code == DUPLICATE => Stop::Again,
        Some(_) | None => Stop::Server(failure),
    }
}

fn push_audited(out: &mut Literal, entry: &Audited) {
    out.comma();
    out.push_code("(");
    out.push_number(entry.at.as_millis());
    let scope = entry.scope.as_ref();
    for text in [
        Some(&*entry.note.by),
        Some(&*entry.note.reason),
        Some(&*entry.action),
        scope.map(Scope::tenant),
        scope.map(Scope::operation),
    ] {
        out.push_code(",");
        push_optional(out, text);
    }
    out.push_code(",");
    push_key(out, entry.key.as_ref());
    for text in [&*entry.before, &*entry.after] {
        out.push_code(",");
        out.push_text(text);
    }
    out.push_code(")");
}

/// Adds a row of `entity_insert.sql`.
pub(crate) fn push_entity(
    out: &mut Literal,
    scope: &Scope,
    entity: &Entity,
    record: &EntityRecord,
) {
    out.comma();
    out.push_code("(");
    out.push_bytes(OpId::of(scope, entity).as_bytes());
    for column in entity_columns(record) {
        out.push_code(",");
        out.push(&column);
    }
    row::push_operation(out, &Operation::new(scope.clone(), entity.clone()));
    out.push_code(")");
}

/// Applied version, holder, and until when.
pub(crate) fn entity_columns(record: &EntityRecord) -> [Literal; 3] {
    let millis = |(_, until): (ClaimId, Timestamp)| Literal::number(until.as_millis());
    [
        optional(record.applied, Literal::number),
        optional(record.holder, |(claim, _)| {
            Literal::bytes(&claim.to_bytes())
        }),
        optional(record.holder, millis),
    ]
}

/// Adds statements that lock entities, and answers with their places.
pub(crate) fn add_entity_locks(
    session: &Session,
    script: &mut Script,
    entities: &[(Scope, Entity)],
) -> Vec<usize> {
    let ids = sorted(entities.iter().map(|(scope, it)| OpId::of(scope, it)));
    let lock = |ids: &[OpId]| {
        let ids = Literal::list(ids.iter().map(OpId::as_bytes));
        script.add(&session.texts.entity_lock, &[&ids])
    };
    ids.chunks(CHUNK).map(lock).collect()
}

/// An entity from the columns behind the first of a row.
pub(crate) fn entity_record(row: &mysql_async::Row) -> Result<EntityRecord> {
    let holder = fixed(row, 2)?.map(ClaimId::from_bytes);
    let until = number(row, 3)?.map(Timestamp::from_millis);
    Ok(EntityRecord {
        applied: number(row, 1)?,
        holder: holder.zip(until),
    })
}

/// Ids in the order in which everybody locks them, each once.
pub(crate) fn sorted(ids: impl Iterator<Item = OpId>) -> Vec<OpId> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// How many ids a statement names at most: servers give up on the index for very many.
pub(crate) const CHUNK: usize = 1_000;
/// How much of rows a statement has before the next one begins.
const ROWS_BYTES: usize = 1 << 20;
