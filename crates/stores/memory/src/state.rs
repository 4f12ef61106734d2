//! The store's state, and each step on one key: load, decide, apply.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use semel_core::decide::{self, Change, Decision, Directed, Directive};
use semel_core::port::checkpoint::{Together, Write};
use semel_core::port::store::{Listed, Stats, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Entity, EntityRecord, FencingToken, Mark, Note, OpId,
    Operation, Outcome, Parked, ParkedId, Record, Renewal, Renewed, Result, Scope, Settled,
    Settlement, StateKind, Timestamp, VersionGate, audit,
};

/// Everything, in ordered maps.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) records: BTreeMap<OpId, Listed>,
    pub(crate) parked: BTreeMap<ParkedId, Parked>,
    pub(crate) entities: BTreeMap<OpId, (Scope, Entity, EntityRecord)>,
    pub(crate) marks: BTreeMap<Arc<str>, u64>,
    pub(crate) audit: Vec<Audited>,
    /// The last fencing token that was given out.
    pub(crate) token: u64,
    /// Id at which the last sweep stopped.
    swept_to: Option<OpId>,
}

impl State {
    pub(crate) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> Admission {
        let id = request.operation.id();
        let entity = request
            .gate
            .as_ref()
            .map(|gate| entity_id(&request.operation.scope, gate));
        let token = FencingToken::new(self.token + 1);
        let decision = decide::claim(self.record(id), self.entity(entity), request, now, token);
        if let Admission::Granted(claim) = &decision.answer
            && !claim.resumed
        {
            self.token += 1;
        }
        self.apply(&request.operation, id, entity, decision)
    }

    /// Decides on the record that an earlier look found: a bug.
    pub(crate) fn claim_as_seen(
        &mut self,
        request: &ClaimRequest,
        seen: Option<Record>,
        now: Timestamp,
    ) -> Admission {
        let id = request.operation.id();
        match seen {
            Some(record) => {
                if let Some(listed) = self.records.get_mut(&id) {
                    listed.record = record;
                }
            }
            None => drop(self.records.remove(&id)),
        }
        self.claim(request, now)
    }

    pub(crate) fn settle(&mut self, settlement: &Settlement, now: Timestamp) -> Settled {
        let id = settlement.operation.id();
        let entity = self.entity_of(id);
        let decision = decide::settle(self.record(id), self.entity(entity), settlement, now);
        self.apply(&settlement.operation, id, entity, decision)
    }

    pub(crate) fn renew(&mut self, renewal: &Renewal, now: Timestamp) -> Renewed {
        let id = renewal.operation.id();
        let entity = self.entity_of(id);
        let decision = decide::renew(self.record(id), self.entity(entity), renewal, now);
        self.apply(&renewal.operation, id, entity, decision)
    }

    pub(crate) fn operate(&mut self, directive: &Directive, now: Timestamp) -> Directed {
        let id = directive.operation.id();
        let entity = self.entity_of(id);
        let known = self.entity(entity);
        let decision = decide::operate(self.record(id), known, &directive.order, now);
        let before = audit::standing(self.record(id));
        let directed = self.apply(&directive.operation, id, entity, decision);
        if let (Some(note), Directed::Now(_)) = (&directive.note, &directed) {
            self.audit.push(Audited {
                at: now,
                note: note.clone(),
                action: directive.order.action().into(),
                scope: Some(directive.operation.scope.clone()),
                key: Some(directive.operation.key.detached()),
                before,
                after: audit::standing(self.record(id)),
            });
        }
        directed
    }

    /// Settles all of `batch`, or restores the keys that it touched.
    pub(crate) fn settle_with(
        &mut self,
        batch: &[Settlement],
        mark: &Mark,
        now: Timestamp,
    ) -> Together {
        let mut undo = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        for settlement in batch {
            let id = settlement.operation.id();
            undo.push(self.before(id, self.entity_of(id)));
            answers.push(self.settle(settlement, now));
        }
        if answers
            .iter()
            .all(|answer| matches!(answer, Settled::Now(_)))
        {
            self.marks.insert(Arc::clone(&mark.name), mark.value);
            return Together::Applied(answers);
        }
        self.take_back(undo);
        Together::Refused(answers)
    }

    /// Claims and completes all of `batch` with the mark that `write` returns, or restores the keys
    /// that it touched.
    pub(crate) fn admit_with(
        &mut self,
        batch: &[ClaimRequest],
        write: Write,
        now: Timestamp,
    ) -> Result<Vec<Admission>> {
        let mut undo = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        for request in batch {
            let id = request.operation.id();
            undo.push(self.before(id, self.entity_of(id)));
            if let Some(gate) = &request.gate {
                let entity = entity_id(&request.operation.scope, gate);
                undo.push(self.before(id, Some(entity)));
            }
            let admission = self.claim(request, now);
            if let Admission::Granted(claim) = &admission {
                let completion = claim.completion(Outcome::empty(), request.window);
                let _ = self.settle(&completion, now);
            }
            answers.push(admission);
        }
        match write(&answers) {
            Ok(mark) => {
                self.marks.insert(mark.name, mark.value);
                Ok(answers)
            }
            Err(error) => {
                self.take_back(undo);
                Err(error)
            }
        }
    }

    pub(crate) fn mark(&self, name: &str) -> Option<u64> {
        self.marks.get(name).copied()
    }

    /// Parks a message; returns whether it is new.
    pub(crate) fn park(&mut self, message: &Parked, now: Timestamp) -> bool {
        let id = message.id();
        if self.parked.contains_key(&id) {
            return false;
        }
        let message = Parked {
            since: now,
            ..message.detached()
        };
        self.parked.insert(id, message);
        true
    }

    /// Drops a message; returns whether it was there.
    pub(crate) fn drop_parked(
        &mut self,
        id: ParkedId,
        note: Option<&Note>,
        now: Timestamp,
    ) -> bool {
        let Some(message) = self.parked.remove(&id) else {
            return false;
        };
        if let Some(note) = note {
            self.audit.push(message.dropped(note, now));
        }
        true
    }

    /// Returns the record, unless it counts as absent.
    pub(crate) fn get(&self, operation: &Operation, now: Timestamp) -> Option<&Record> {
        self.record(operation.id())
            .filter(|record| !record.is_forgotten(now))
    }

    /// Visits at most `limit` records from where the last sweep stopped.
    pub(crate) fn sweep(&mut self, limit: usize, now: Timestamp) -> Swept {
        let from = self.swept_to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self
            .records
            .range((from, Bound::Unbounded))
            .map(|(id, _)| *id);
        let visited: Vec<OpId> = rest.by_ref().take(limit).collect();
        let more = rest.next().is_some();
        self.swept_to = visited.last().copied().filter(|_| more);
        let mut swept = Swept {
            more,
            ..Swept::default()
        };
        for id in visited {
            let Some(listed) = self.records.get_mut(&id) else {
                continue;
            };
            match decide::sweep(&listed.record, now) {
                Change::Keep => {
                    swept.abandoned += u64::from(decide::is_abandoned(&listed.record, now));
                }
                Change::Put(record) => {
                    listed.record = record;
                    swept.doubted += 1;
                }
                Change::Remove => {
                    self.records.remove(&id);
                    if semel_core::planted("M14") {
                        self.token = 0;
                    }
                    swept.removed += 1;
                }
            }
        }
        swept
    }

    pub(crate) fn stats(&self, now: Timestamp) -> Stats {
        let mut records = [0; StateKind::ALL.len()];
        for listed in self.records.values() {
            let kind = listed.record.state.kind();
            let place = StateKind::ALL.iter().position(|it| *it == kind);
            if let Some(place) = place.filter(|_| !listed.record.is_forgotten(now)) {
                records[place] += 1;
            }
        }
        let mut stats = Stats::new(records);
        stats.entities = self.entities.len() as u64;
        stats.parked = self.parked.len() as u64;
        stats.audited = self.audit.len() as u64;
        stats.remembered = Some(self.records.len() as u64 - records.iter().sum::<u64>());
        stats
    }

    fn record(&self, id: OpId) -> Option<&Record> {
        self.records.get(&id).map(|listed| &listed.record)
    }

    fn entity(&self, id: Option<OpId>) -> Option<&EntityRecord> {
        self.entities.get(&id?).map(|(_, _, record)| record)
    }

    /// Returns the present state of an operation and an entity, to be restored later.
    fn before(&self, id: OpId, entity: Option<OpId>) -> Before {
        let entity = entity.map(|entity| (entity, self.entities.get(&entity).cloned()));
        (id, self.records.get(&id).cloned(), entity)
    }

    fn take_back(&mut self, undo: Vec<Before>) {
        for (id, record, entity) in undo.into_iter().rev() {
            restore(&mut self.records, id, record);
            if let Some((entity, known)) = entity {
                restore(&mut self.entities, entity, known);
            }
        }
    }

    /// Returns the entity that the stored record's gate names.
    fn entity_of(&self, id: OpId) -> Option<OpId> {
        let listed = self.records.get(&id)?;
        let gate = listed.record.gate.as_ref()?;
        Some(entity_id(&listed.operation.scope, gate))
    }

    /// Writes the decision and passes the answer on.
    fn apply<A>(
        &mut self,
        operation: &Operation,
        id: OpId,
        entity: Option<OpId>,
        decision: Decision<A>,
    ) -> A {
        let gate = match &decision.change {
            Change::Put(record) => record.gate.clone(),
            Change::Keep | Change::Remove => None,
        };
        match decision.change {
            Change::Keep => {}
            Change::Put(record) => {
                let (operation, record) = (operation.detached(), record.detached());
                self.records.insert(id, Listed { operation, record });
            }
            Change::Remove => {
                self.records.remove(&id);
            }
        }
        if let (Some(entity), Some(record), Some(gate)) = (entity, decision.entity, gate) {
            let known = (operation.scope.clone(), gate.entity.detached(), record);
            self.entities.insert(entity, known);
        }
        decision.answer
    }
}

/// An operation and an entity as they were.
type Before = (
    OpId,
    Option<Listed>,
    Option<(OpId, Option<(Scope, Entity, EntityRecord)>)>,
);

fn entity_id(scope: &Scope, gate: &VersionGate) -> OpId {
    OpId::of(scope, &gate.entity)
}

fn restore<T>(map: &mut BTreeMap<OpId, T>, id: OpId, former: Option<T>) {
    match former {
        Some(former) => map.insert(id, former),
        None => map.remove(&id),
    };
}
