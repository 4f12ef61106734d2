//! Load, decide, write: every step on a key within one transaction.
//!
//! The transaction belongs to the caller (the writer, or a user with a connection of their own).
//! Records are loaded once, decided upon in memory, and written once at the end in the order of the
//! index, so that a message claimed and completed in one batch costs one row. Not for reading
//! lists: that is `listing`.

mod audit;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use rusqlite::{CachedStatement, Connection, params};
use semel_core::audit::standing;
use semel_core::decide::{self, Change, Decision, Directed, Directive};
use semel_core::key::OpIdHasher;
use semel_core::{
    Admission, Audited, ClaimRequest, EntityRecord, Error, FencingToken, OpId, Operation, Record,
    Renewal, Renewed, Result, Scope, Settled, Settlement, Timestamp,
};

use crate::error::undone;
use crate::id_columns::tag;
use crate::lookup::{find_scope, load, load_entity};
use crate::{row, sql};

/// The numbers of scopes that are known to be stored. To be cleared when a transaction is undone.
pub(crate) type Scopes = HashMap<Scope, i64>;

/// Records that one job has loaded and decided within a transaction.
pub(crate) struct Ledger<'c> {
    pub(crate) connection: &'c Connection,
    pub(crate) now: Timestamp,
    scopes: &'c mut Scopes,
    load: CachedStatement<'c>,
    slots: Vec<Slot>,
    places: HashMap<OpId, usize, BuildHasherDefault<OpIdHasher>>,
    entities: HashMap<OpId, EntitySlot, BuildHasherDefault<OpIdHasher>>,
    token: Option<Token>,
    with_outcomes: bool,
}

/// One record as it will be.
struct Slot {
    id: OpId,
    operation: Operation,
    stored: Option<i64>,
    record: Option<Record>,
    corrupt: Option<Error>,
    changed: bool,
}

struct EntitySlot {
    record: Option<EntityRecord>,
    changed: bool,
    scope: Scope,
    entity: semel_core::Entity,
}

struct Token {
    stored: u64,
    last: u64,
}

impl<'c> Ledger<'c> {
    pub(crate) fn new(
        connection: &'c Connection,
        scopes: &'c mut Scopes,
        now: Timestamp,
    ) -> Result<Self> {
        Ok(Self {
            connection,
            now,
            scopes,
            load: connection.prepare_cached(sql::RECORD_GET).map_err(undone)?,
            slots: Vec::new(),
            places: HashMap::default(),
            entities: HashMap::default(),
            token: None,
            with_outcomes: false,
        })
    }

    /// Loads outcomes with their records from here on.
    pub(crate) fn want_outcomes(&mut self, wanted: bool) {
        self.with_outcomes |= wanted;
    }

    /// Makes room for `count` records.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.slots.reserve(count);
        self.places.reserve(count);
    }

    pub(crate) fn claim(&mut self, id: OpId, request: &ClaimRequest) -> Result<Admission> {
        let place = self.place(id, &request.operation)?;
        if let Some(error) = &self.slots[place].corrupt {
            return Ok(Admission::Failed(error.clone()));
        }
        let scope = &request.operation.scope;
        let entity = match &request.gate {
            Some(gate) => Some(self.entity(scope, &gate.entity)?),
            None => None,
        };
        let token = FencingToken::new(self.last_token()? + 1);
        let decision = decide::claim(
            self.slots[place].record.as_ref(),
            entity.and_then(|entity| self.entities[&entity].record.as_ref()),
            request,
            self.now,
            token,
        );
        if let (Admission::Granted(claim), Some(known)) = (&decision.answer, &mut self.token)
            && !claim.resumed
        {
            known.last = token.get();
        }
        Ok(self.take(place, entity, decision))
    }

    pub(crate) fn settle(&mut self, id: OpId, settlement: &Settlement) -> Result<Settled> {
        let place = self.place(id, &settlement.operation)?;
        if let Some(error) = &self.slots[place].corrupt {
            return Ok(Settled::Failed(error.clone()));
        }
        let entity = self.entity_of(place)?;
        let decision = decide::settle(
            self.slots[place].record.as_ref(),
            entity.and_then(|entity| self.entities[&entity].record.as_ref()),
            settlement,
            self.now,
        );
        Ok(self.take(place, entity, decision))
    }

    pub(crate) fn renew(&mut self, id: OpId, renewal: &Renewal) -> Result<Renewed> {
        let place = self.place(id, &renewal.operation)?;
        if let Some(error) = &self.slots[place].corrupt {
            return Ok(Renewed::Failed(error.clone()));
        }
        let entity = self.entity_of(place)?;
        let decision = decide::renew(
            self.slots[place].record.as_ref(),
            entity.and_then(|entity| self.entities[&entity].record.as_ref()),
            renewal,
            self.now,
        );
        Ok(self.take(place, entity, decision))
    }

    pub(crate) fn operate(&mut self, id: OpId, directive: &Directive) -> Result<Directed> {
        let place = self.place(id, &directive.operation)?;
        if let Some(error) = &self.slots[place].corrupt {
            return Ok(Directed::Failed(error.clone()));
        }
        let entity = self.entity_of(place)?;
        let decision = decide::operate(
            self.slots[place].record.as_ref(),
            entity.and_then(|entity| self.entities[&entity].record.as_ref()),
            &directive.order,
            self.now,
        );
        let before = standing(self.slots[place].record.as_ref());
        let directed = self.take(place, entity, decision);
        if let (Some(note), Directed::Now(_)) = (&directive.note, &directed) {
            let entry = Audited {
                at: self.now,
                note: note.clone(),
                action: directive.order.action().into(),
                scope: Some(directive.operation.scope.clone()),
                key: Some(directive.operation.key.clone()),
                before,
                after: standing(self.slots[place].record.as_ref()),
            };
            self.add_audited(&entry)?;
        }
        Ok(directed)
    }

    /// Returns the record of an operation, as decided so far.
    pub(crate) fn record(&mut self, id: OpId, operation: &Operation) -> Result<Option<&Record>> {
        let place = self.place(id, operation)?;
        Ok(self.slots[place].record.as_ref())
    }

    /// Returns the number of a scope, which is stored if it is not yet.
    pub(crate) fn scope(&mut self, scope: &Scope) -> Result<i64> {
        if let Some(number) = self.scopes.get(scope) {
            return Ok(*number);
        }
        let number = if let Some(number) = find_scope(self.connection, scope)? {
            number
        } else {
            let mut add = self
                .connection
                .prepare_cached(sql::SCOPE_ADD)
                .map_err(undone)?;
            add.insert([scope.tenant(), scope.operation()])
                .map_err(undone)?
        };
        self.scopes.insert(scope.clone(), number);
        Ok(number)
    }

    /// Gives out no token up to `token` from here on; returns whether that changes anything.
    pub(crate) fn raise_token(&mut self, token: u64) -> Result<bool> {
        let last = self.last_token()?;
        if let Some(known) = &mut self.token {
            known.last = last.max(token);
        }
        Ok(token > last)
    }

    /// Leaves everything as it is stored.
    pub(crate) fn forget_decisions(&mut self) {
        self.slots.clear();
        self.places.clear();
        self.entities.clear();
        self.token = None;
    }

    /// Writes the decisions, and begins anew.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let slots = std::mem::take(&mut self.slots);
        let mut changed: Vec<&Slot> = slots.iter().filter(|slot| slot.changed).collect();
        changed.sort_unstable_by_key(|slot| tag(slot.id));
        self.write_records(&changed)?;
        self.write_entities()?;
        if let Some(Token { stored, last }) = self.token
            && last > stored
        {
            let mut set = self
                .connection
                .prepare_cached(sql::TOKEN_SET)
                .map_err(undone)?;
            set.execute([last.cast_signed()]).map_err(undone)?;
        }
        self.forget_decisions();
        Ok(())
    }

    fn write_records(&mut self, changed: &[&Slot]) -> Result<()> {
        let connection = self.connection;
        let mut add = connection.prepare_cached(sql::RECORD_ADD).map_err(undone)?;
        let mut set = connection.prepare_cached(sql::RECORD_SET).map_err(undone)?;
        for slot in changed {
            match (slot.stored, &slot.record) {
                (None, None) => {}
                (None, Some(record)) => {
                    let scope = self.scope(&slot.operation.scope)?;
                    let key = &slot.operation.key;
                    row::insert(&mut add, slot.id, record, (scope, key)).map_err(undone)?;
                }
                (Some(seq), Some(record)) => {
                    row::update(&mut set, seq, record).map_err(undone)?;
                }
                (Some(seq), None) => {
                    let mut drop = connection
                        .prepare_cached(sql::RECORD_DROP)
                        .map_err(undone)?;
                    drop.execute([seq]).map_err(undone)?;
                }
            }
        }
        Ok(())
    }

    fn write_entities(&mut self) -> Result<()> {
        for (id, slot) in std::mem::take(&mut self.entities) {
            let (true, Some(record)) = (slot.changed, &slot.record) else {
                continue;
            };
            let scope = self.scope(&slot.scope)?;
            let mut set = self
                .connection
                .prepare_cached(sql::ENTITY_SET)
                .map_err(undone)?;
            set.execute(params![
                &id.as_bytes()[..],
                scope,
                slot.entity.as_str(),
                record.applied.map(u64::cast_signed),
                record.holder.map(|(claim, _)| claim.to_bytes()),
                record.holder.map(|(_, until)| row::millis(until)),
            ])
            .map_err(undone)?;
        }
        Ok(())
    }

    /// Returns the index of an operation's record; loads it the first time.
    fn place(&mut self, id: OpId, operation: &Operation) -> Result<usize> {
        if let Some(place) = self.places.get(&id) {
            return Ok(*place);
        }
        let mut slot = Slot {
            id,
            operation: operation.clone(),
            stored: None,
            record: None,
            corrupt: None,
            changed: false,
        };
        if let Some((seq, record)) = load(&mut self.load, id, self.with_outcomes)? {
            slot.stored = Some(seq);
            match record {
                Ok(record) => slot.record = Some(record),
                Err(error) => slot.corrupt = Some(error),
            }
        }
        self.slots.push(slot);
        let place = self.slots.len() - 1;
        self.places.insert(id, place);
        Ok(place)
    }

    /// Returns the entity that a record's gate names, loaded.
    fn entity_of(&mut self, place: usize) -> Result<Option<OpId>> {
        let slot = &self.slots[place];
        let Some(gate) = slot.record.as_ref().and_then(|record| record.gate.as_ref()) else {
            return Ok(None);
        };
        let (scope, entity) = (slot.operation.scope.clone(), gate.entity.clone());
        self.entity(&scope, &entity).map(Some)
    }

    fn entity(&mut self, scope: &Scope, entity: &semel_core::Entity) -> Result<OpId> {
        let id = OpId::of(scope, entity);
        if !self.entities.contains_key(&id) {
            let record = load_entity(self.connection, id)?;
            let (scope, entity) = (scope.clone(), entity.clone());
            self.entities.insert(
                id,
                EntitySlot {
                    record,
                    changed: false,
                    scope,
                    entity,
                },
            );
        }
        Ok(id)
    }

    fn last_token(&mut self) -> Result<u64> {
        if let Some(token) = &self.token {
            return Ok(token.last);
        }
        let mut get = self
            .connection
            .prepare_cached(sql::META_GET)
            .map_err(undone)?;
        let stored: i64 = get.query_row(["token"], |row| row.get(0)).map_err(undone)?;
        let stored = stored.cast_unsigned();
        self.token = Some(Token {
            stored,
            last: stored,
        });
        Ok(stored)
    }

    /// Takes over a decision and passes its answer on.
    fn take<A>(&mut self, place: usize, entity: Option<OpId>, decision: Decision<A>) -> A {
        let slot = &mut self.slots[place];
        match decision.change {
            Change::Keep => {}
            Change::Put(record) => {
                slot.record = Some(record);
                slot.changed = true;
            }
            Change::Remove => {
                slot.record = None;
                slot.changed = true;
            }
        }
        if let (Some(entity), Some(record)) = (entity, decision.entity)
            && let Some(slot) = self.entities.get_mut(&entity)
        {
            slot.record = Some(record);
            slot.changed = true;
        }
        decision.answer
    }
}
