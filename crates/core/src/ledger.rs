//! A batch decided in memory: the records that a store found, its answers, and the changes it has to write.
//!
//! For stores that read what a batch names, decide here, and write the changes on the condition that nobody
//! else has written since. Each item sees the decisions on the items before it (BAT-2); a record or entity is
//! read once and written once. Not for reading and writing: each store does that itself.
//!
//! ```
//! use semel_core::ledger::{Found, Ledger};
//! use semel_core::{Admission, ClaimId, ClaimRequest, FencingToken, Key, Scope, Timestamp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let first = ClaimRequest::new(Scope::new("", "payments")?, Key::parse("pay-1")?, ClaimId::from_u128(7));
//! let second = ClaimRequest { claim_id: ClaimId::from_u128(8), ..first.clone() };
//! let id = first.operation.id();
//!
//! let mut ledger = Ledger::new(Timestamp::from_millis(1_000));
//! ledger.found(id, &first.operation, Found::Absent);
//! let mut tokens = (1..).map(FencingToken::new);
//! let answers = [&first, &second].map(|request| ledger.claim(id, request, &mut tokens));
//!
//! assert!(matches!(answers[0], Some(Admission::Granted(_))));
//! assert!(matches!(answers[1], Some(Admission::Busy { .. })));
//! assert_eq!(ledger.changes().count(), 1);
//! # Ok(())
//! # }
//! ```

#[expect(clippy::disallowed_types, reason = "its hasher has no seed")]
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use crate::audit::{Audited, standing};
use crate::claim::{Admission, ClaimRequest, FencingToken};
use crate::decide::{self, Change, Decision, Directed, Directive};
use crate::entity::{Entity, EntityRecord};
use crate::error::Error;
use crate::key::{OpId, OpIdHasher, Scope};
use crate::operation::Operation;
use crate::record::Record;
use crate::settle::{Renewal, Renewed, Settled, Settlement};
use crate::time::Timestamp;

/// The record that a store found of one operation.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "short-lived; boxing would cost more than the copy"
)]
pub enum Found {
    /// No record.
    Absent,
    /// A record, and the revision that tells this writing of it from every other.
    Record(u64, Record),
    /// A record that does not check out: its items fail alone, with this error.
    Damaged(Error),
}

/// The first revision of a record whose first claim has `token`, for stores that count revisions up.
///
/// Tokens rise over the lives of a key, so none of its lives shares a revision with another one, whatever was
/// forgotten or swept in between: as long as none is written more than a million times.
pub const fn first_revision(token: FencingToken) -> u64 {
    token.get() << 20
}

/// The decisions on one batch at one instant.
#[derive(Debug)]
pub struct Ledger {
    now: Timestamp,
    entries: Vec<Entry>,
    places: Places,
    entities: Vec<EntityEntry>,
    entity_places: Places,
    audited: Vec<Audited>,
    /// A token that was drawn and not used up.
    spare: Option<FencingToken>,
}

#[expect(clippy::disallowed_types, reason = "its hasher has no seed")]
type Places = HashMap<OpId, usize, BuildHasherDefault<OpIdHasher>>;

/// One record as it was found and as it will be written.
#[derive(Debug)]
pub struct Entry {
    /// The identity of its operation.
    pub id: OpId,
    /// The operation.
    pub operation: Operation,
    /// The revision of the record that was found; `None` if there was none.
    pub revision: Option<u64>,
    /// The record as decided; `None` if it is to be removed, or was never there.
    pub record: Option<Record>,
    damage: Option<Error>,
    is_changed: bool,
    is_deferred: bool,
}

/// One entity as it will be written.
#[derive(Debug)]
pub struct EntityEntry {
    /// The identity of the entity in its scope.
    pub id: OpId,
    /// The scope.
    pub scope: Scope,
    /// The entity.
    pub entity: Entity,
    /// True if the store has a record of it.
    pub is_stored: bool,
    /// The entity's record, as decided.
    pub record: EntityRecord,
    is_changed: bool,
}

impl Ledger {
    /// A ledger with nothing found and nothing decided, at `now` on the store's clock.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            entries: Vec::new(),
            places: Places::default(),
            entities: Vec::new(),
            entity_places: Places::default(),
            audited: Vec::new(),
            spare: None,
        }
    }

    /// The instant of its decisions.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Makes room for `count` records.
    pub fn reserve(&mut self, count: usize) {
        self.entries.reserve(count);
        self.places.reserve(count);
    }

    /// Takes over the record that the store found of an operation, in place of anything found before.
    pub fn found(&mut self, id: OpId, operation: &Operation, found: Found) {
        let (revision, record, damage) = match found {
            Found::Absent => (None, None, None),
            Found::Record(revision, record) => (Some(revision), Some(record), None),
            Found::Damaged(error) => (None, None, Some(error)),
        };
        let entry = Entry {
            id,
            operation: operation.clone(),
            revision,
            record,
            damage,
            is_changed: false,
            is_deferred: false,
        };
        if let Some(place) = self.places.get(&id) {
            self.entries[*place] = entry;
        } else {
            self.places.insert(id, self.entries.len());
            self.entries.push(entry);
        }
    }

    /// Takes over the record that the store found of an entity; `None` if there is none.
    pub fn found_entity(&mut self, scope: &Scope, entity: &Entity, found: Option<EntityRecord>) {
        let id = OpId::of(scope, entity);
        let entry = EntityEntry {
            id,
            scope: scope.clone(),
            entity: entity.clone(),
            is_stored: found.is_some(),
            record: found.unwrap_or_default(),
            is_changed: false,
        };
        if let Some(place) = self.entity_places.get(&id) {
            self.entities[*place] = entry;
        } else {
            self.entity_places.insert(id, self.entities.len());
            self.entities.push(entry);
        }
    }

    /// Returns whether this operation's record was already found, or found absent.
    pub fn knows(&self, id: OpId) -> bool {
        self.places.contains_key(&id)
    }

    /// The record of an operation, as decided so far.
    pub fn record(&self, id: OpId) -> Option<&Record> {
        self.entries[self.place(id)].record.as_ref()
    }

    /// Returns whether the record that was found does not check out.
    pub fn is_damaged(&self, id: OpId) -> bool {
        self.entries[self.place(id)].damage.is_some()
    }

    /// The entities that gate the records found so far, each once. The store has to find their records before
    /// anything is settled, renewed or ordered.
    pub fn gating_entities(&self) -> Vec<(Scope, Entity)> {
        let mut gating: Vec<(Scope, Entity)> = Vec::new();
        let mut seen = Places::default();
        for entry in &self.entries {
            let gate = entry
                .record
                .as_ref()
                .and_then(|record| record.gate.as_ref());
            if let Some(gate) = gate {
                let scope = &entry.operation.scope;
                if seen.insert(OpId::of(scope, &gate.entity), 0).is_none() {
                    gating.push((scope.clone(), gate.entity.clone()));
                }
            }
        }
        gating
    }

    /// Decides a claim; see [`decide::claim`]. Draws on `tokens` if it is granted. If no token is left, this
    /// item and all that follow for its operation are undecided: `None`, to be asked again.
    pub fn claim(
        &mut self,
        id: OpId,
        request: &ClaimRequest,
        tokens: &mut impl Iterator<Item = FencingToken>,
    ) -> Option<Admission> {
        let place = self.place(id);
        if self.entries[place].is_deferred {
            return None;
        }
        if let Some(error) = &self.entries[place].damage {
            return Some(Admission::Failed(error.clone()));
        }
        let scope = &request.operation.scope;
        let gate = request.gate.as_ref();
        let entity = gate.map(|gate| OpId::of(scope, &gate.entity));
        let token = self.spare.take().or_else(|| tokens.next());
        let decision = decide::claim(
            self.entries[place].record.as_ref(),
            entity.and_then(|entity| self.entity(entity)),
            request,
            self.now,
            token.unwrap_or(FencingToken::new(0)),
        );
        match &decision.answer {
            Admission::Granted(claim) if !claim.resumed => {
                if token.is_none() {
                    self.entries[place].is_deferred = true;
                    return None;
                }
            }
            Admission::Granted(_)
            | Admission::Replay { .. }
            | Admission::Busy { .. }
            | Admission::Conflict { .. }
            | Admission::Stale { .. }
            | Admission::Parked { .. }
            | Admission::TooOld
            | Admission::Failed(_) => self.spare = token,
        }
        Some(self.take(place, entity, decision))
    }

    /// Decides a settlement; see [`decide::settle`].
    pub fn settle(&mut self, id: OpId, settlement: &Settlement) -> Settled {
        let place = self.place(id);
        if let Some(error) = &self.entries[place].damage {
            return Settled::Failed(error.clone());
        }
        let entity = self.entity_of(place);
        let decision = decide::settle(
            self.entries[place].record.as_ref(),
            entity.and_then(|entity| self.entity(entity)),
            settlement,
            self.now,
        );
        self.take(place, entity, decision)
    }

    /// Decides a renewal; see [`decide::renew`].
    pub fn renew(&mut self, id: OpId, renewal: &Renewal) -> Renewed {
        let place = self.place(id);
        if let Some(error) = &self.entries[place].damage {
            return Renewed::Failed(error.clone());
        }
        let entity = self.entity_of(place);
        let decision = decide::renew(
            self.entries[place].record.as_ref(),
            entity.and_then(|entity| self.entity(entity)),
            renewal,
            self.now,
        );
        self.take(place, entity, decision)
    }

    /// Decides an operator's order; see [`decide::operate`]. [`Ledger::audited`] has its entry for the audit
    /// trail.
    pub fn operate(&mut self, id: OpId, directive: &Directive) -> Directed {
        let place = self.place(id);
        if let Some(error) = &self.entries[place].damage {
            return Directed::Failed(error.clone());
        }
        let entity = self.entity_of(place);
        let decision = decide::operate(
            self.entries[place].record.as_ref(),
            entity.and_then(|entity| self.entity(entity)),
            &directive.order,
            self.now,
        );
        let before = standing(self.entries[place].record.as_ref());
        let directed = self.take(place, entity, decision);
        if let (Some(note), Directed::Now(_)) = (&directive.note, &directed) {
            self.audited.push(Audited {
                at: self.now,
                note: note.clone(),
                action: directive.order.action().into(),
                scope: Some(directive.operation.scope.clone()),
                key: Some(directive.operation.key.clone()),
                before,
                after: standing(self.entries[place].record.as_ref()),
            });
        }
        directed
    }

    /// The records to write, each on the condition that its revision still stands, in the order in which they
    /// were found.
    pub fn changes(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| {
            entry.is_changed && (entry.revision.is_some() || entry.record.is_some())
        })
    }

    /// The operations that were found absent and stay so: there was nothing to lock, and there is nothing to
    /// write.
    pub fn absent(&self) -> impl Iterator<Item = OpId> {
        let is_absent = |entry: &&Entry| {
            entry.revision.is_none() && entry.record.is_none() && entry.damage.is_none()
        };
        self.entries.iter().filter(is_absent).map(|entry| entry.id)
    }

    /// The entities to write together with the records.
    pub fn entity_changes(&self) -> impl Iterator<Item = &EntityEntry> {
        self.entities.iter().filter(|entity| entity.is_changed)
    }

    /// The entries of the audit trail to write together with the records, in order.
    pub fn audited(&self) -> &[Audited] {
        &self.audited
    }

    /// Notes that the store wrote the record of this operation as decided so far, under `revision`.
    pub fn wrote(&mut self, id: OpId, revision: u64) {
        let place = self.place(id);
        let entry = &mut self.entries[place];
        entry.revision = Some(revision);
        entry.is_changed = false;
    }

    /// Notes that the store wrote everything as decided so far: each record under the revision after the one
    /// that was found, or under its [`first_revision`] if there was none.
    pub fn wrote_all(&mut self) {
        for entry in &mut self.entries {
            if entry.is_changed {
                entry.revision = entry.record.as_ref().map(|record| match entry.revision {
                    Some(revision) => revision.wrapping_add(1),
                    None => first_revision(record.token),
                });
                entry.is_changed = false;
            }
        }
        for entity in &mut self.entities {
            entity.is_stored |= entity.is_changed;
            entity.is_changed = false;
        }
        self.audited.clear();
    }

    /// # Panics   if nothing was found of the operation: a fault of the store
    fn place(&self, id: OpId) -> usize {
        match self.places.get(&id) {
            Some(place) => *place,
            None => unreachable!("a store decides on what it has looked for"),
        }
    }

    fn entity(&self, id: OpId) -> Option<&EntityRecord> {
        let entry = &self.entities[*self.entity_places.get(&id)?];
        (entry.is_stored || entry.is_changed).then_some(&entry.record)
    }

    /// The entity that a record's gate names.
    fn entity_of(&self, place: usize) -> Option<OpId> {
        let entry = &self.entries[place];
        let gate = entry.record.as_ref()?.gate.as_ref()?;
        Some(OpId::of(&entry.operation.scope, &gate.entity))
    }

    /// Takes over a decision and returns its answer.
    fn take<A>(&mut self, place: usize, entity: Option<OpId>, decision: Decision<A>) -> A {
        let entry = &mut self.entries[place];
        match decision.change {
            Change::Keep => {}
            Change::Put(record) => {
                entry.record = Some(record);
                entry.is_changed = true;
            }
            Change::Remove => {
                entry.record = None;
                entry.is_changed = true;
            }
        }
        if let (Some(id), Some(record)) = (entity, decision.entity)
            && let Some(place) = self.entity_places.get(&id)
        {
            let entity = &mut self.entities[*place];
            entity.record = record;
            entity.is_changed = true;
        }
        decision.answer
    }
}

#[cfg(test)]
mod tests;
