//! Decisions that change several rows together: version gates, orders with their audit entries, marks,
//! effects.
//!
//! Within a transaction, records are locked in the order of their ids, then entities in theirs; then the time is read
//! and tokens are drawn; the decisions are written once at the end. An absent row cannot be locked without keeping
//! others from its neighbours, so it is looked for again before the commit, and a key that another session has inserted
//! has the transaction undone and repeated.

mod writes;

use std::collections::HashMap;

use semel_core::ledger::{Found, Ledger};
use semel_core::{
    ClaimId, Entity, EntityRecord, FencingToken, OpId, Operation, Result, Scope, Timestamp,
};

use crate::answer::{Cells, Set, fixed, id, number, only, time};
use crate::pool::PooledConnection;
use crate::row;
use crate::script::{Literal, Script, optional};
use crate::session::Session;
use crate::tokens;
use crate::transaction::Stop;

pub(crate) use self::writes::{Rows, Writes};

/// The rows to lock and read.
#[derive(Default)]
pub(crate) struct Wanted<'b> {
    /// The operations.
    pub(crate) operations: Vec<&'b Operation>,
    /// Entities that claims name. Where there are none, those that gate the records are locked.
    pub(crate) entities: Vec<(&'b Scope, &'b Entity)>,
    /// Number of fencing tokens that may be needed.
    pub(crate) tokens: usize,
    /// Reads outcomes, too.
    pub(crate) outcomes: bool,
    /// A row of `meta` that lets one transaction at a time through.
    pub(crate) turnstile: Option<&'static str>,
    /// Statements to run right after the begin.
    pub(crate) first: Script,
}

/// A ledger over locked rows, in an open transaction.
pub(crate) struct Locked<'t> {
    session: &'t Session,
    pub(crate) connection: &'t mut PooledConnection,
    pub(crate) ledger: Ledger,
    pub(crate) tokens: std::vec::IntoIter<FencingToken>,
    /// The highest token of the records that were found.
    highest: u64,
}

impl<'t> Locked<'t> {
    /// Begins, locks and reads.
    pub(crate) async fn begin(
        session: &'t Session,
        connection: &'t mut PooledConnection,
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
        tokens::draw(texts, &mut script, wanted.tokens);
        // After the locks: no earlier holder of a lock can have had a later time than this.
        session.add_now(&mut script);
        let drawn = script.add(&texts.drawn, &[]);
        let sets = connection.run(&script).await?;
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
            first = draw_above(session, connection, wanted.tokens, highest).await?;
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
            connection,
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
        let sets = self.connection.run(&script).await?;
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

    /// Writes the decisions, without committing them.
    pub(crate) async fn flush(&mut self) -> Result<(), Stop> {
        self.writes().run(self.connection).await.map(drop)
    }

    /// Writes the decisions and commits them.
    pub(crate) async fn finish(self) -> Result<(), Stop> {
        self.writes().commit(self.connection).await
    }

    /// Builds the statements that write the decisions.
    pub(crate) fn writes(&self) -> Writes<'t> {
        let mut writes = Writes::new(self.session, self.connection.most_bytes());
        writes.add_records(&self.ledger, self.highest);
        for entity in self.ledger.entity_changes() {
            writes.add_entity(entity);
        }
        writes.add_audited(self.ledger.audited());
        writes.add_probes(&self.ledger);
        writes
    }
}

/// Draws tokens above all that were found.
async fn draw_above(
    session: &Session,
    connection: &mut PooledConnection,
    count: usize,
    highest: u64,
) -> Result<Option<u64>, Stop> {
    let mut script = Script::default();
    tokens::raise(&session.texts, &mut script, highest);
    tokens::draw(&session.texts, &mut script, count);
    let drawn = script.add(&session.texts.drawn, &[]);
    let sets = connection.run(&script).await?;
    Ok(number(only(&sets[drawn])?, 1)?)
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

/// Returns the columns of an entity: applied version, holder, and until when.
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

/// Adds statements that lock entities; returns their places.
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

/// Reads an entity from the columns behind the first of a row.
pub(crate) fn entity_record(row: &impl Cells) -> Result<EntityRecord> {
    let holder = fixed(row, 2)?.map(ClaimId::from_bytes);
    let until = number(row, 3)?.map(Timestamp::from_millis);
    Ok(EntityRecord {
        applied: number(row, 1)?,
        holder: holder.zip(until),
    })
}

/// Returns the ids in the order in which every call locks them, each once.
pub(crate) fn sorted(ids: impl Iterator<Item = OpId>) -> Vec<OpId> {
    let mut ids: Vec<_> = ids.collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Ids that a statement names at most: servers give up on the index for very many.
pub(crate) const CHUNK: usize = 1_000;
