//! What the store remembers, and each step on one key: load, decide, apply.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use semel_core::decide::{self, Change, Decision, Directed, Directive};
use semel_core::port::checkpoint::Together;
use semel_core::port::store::{Listed, Stats, Swept};
use semel_core::{
    Admission, ClaimRequest, EntityRecord, FencingToken, Mark, OpId, Operation, Parked, ParkedId,
    Record, Renewal, Renewed, Scope, Settled, Settlement, StateKind, Timestamp, VersionGate,
};

/// Everything, in ordered maps.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) records: BTreeMap<OpId, Listed>,
    pub(crate) parked: BTreeMap<ParkedId, Parked>,
    entities: BTreeMap<OpId, EntityRecord>,
    marks: BTreeMap<Arc<str>, u64>,
    /// The last fencing token that was given out.
    token: u64,
    /// Where the last sweep stopped.
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
        let decision = decide::claim(
            self.record(id),
            entity.and_then(|entity| self.entities.get(&entity)),
            request,
            now,
            token,
        );
        if let Admission::Granted(claim) = &decision.answer
            && !claim.resumed
        {
            self.token += 1;
        }
        self.apply(&request.operation, id, entity, decision)
    }

    pub(crate) fn settle(&mut self, settlement: &Settlement, now: Timestamp) -> Settled {
        let id = settlement.operation.id();
        let entity = self.entity_of(id);
        let known = entity.and_then(|entity| self.entities.get(&entity));
        let decision = decide::settle(self.record(id), known, settlement, now);
        self.apply(&settlement.operation, id, entity, decision)
    }

    pub(crate) fn renew(&mut self, renewal: &Renewal, now: Timestamp) -> Renewed {
        let id = renewal.operation.id();
        let entity = self.entity_of(id);
        let known = entity.and_then(|entity| self.entities.get(&entity));
        let decision = decide::renew(self.record(id), known, renewal, now);
        self.apply(&renewal.operation, id, entity, decision)
    }

    pub(crate) fn operate(&mut self, directive: &Directive, now: Timestamp) -> Directed {
        let id = directive.operation.id();
        let entity = self.entity_of(id);
        let known = entity.and_then(|entity| self.entities.get(&entity));
        let decision = decide::operate(self.record(id), known, &directive.order, now);
        self.apply(&directive.operation, id, entity, decision)
    }

    /// Settles all of `batch` or puts back what it touched.
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
            let entity = self.entity_of(id);
            let entity = entity.map(|entity| (entity, self.entities.get(&entity).cloned()));
            undo.push((id, self.records.get(&id).cloned(), entity));
            answers.push(self.settle(settlement, now));
        }
        if answers
            .iter()
            .all(|answer| matches!(answer, Settled::Now(_)))
        {
            self.marks.insert(Arc::clone(&mark.name), mark.value);
            return Together::Applied(answers);
        }
        for (id, record, entity) in undo.into_iter().rev() {
            restore(&mut self.records, id, record);
            if let Some((entity, known)) = entity {
                restore(&mut self.entities, entity, known);
            }
        }
        Together::Refused(answers)
    }

    pub(crate) fn mark(&self, name: &str) -> Option<u64> {
        self.marks.get(name).copied()
    }

    /// Whether the message is new.
    pub(crate) fn park(&mut self, message: &Parked, now: Timestamp) -> bool {
        let id = message.id();
        if self.parked.contains_key(&id) {
            return false;
        }
        let message = Parked {
            key: message.key.as_ref().map(semel_core::Key::detached),
            payload: Bytes::copy_from_slice(&message.payload),
            since: now,
            ..message.clone()
        };
        self.parked.insert(id, message);
        true
    }

    /// Whether the message was there.
    pub(crate) fn drop_parked(&mut self, id: ParkedId) -> bool {
        self.parked.remove(&id).is_some()
    }

    /// The record, unless it counts as absent.
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
                    swept.removed += 1;
                }
            }
        }
        swept
    }

    pub(crate) fn stats(&self, now: Timestamp) -> Stats {
        let count = |kind: StateKind| {
            let records = self.records.values().map(|listed| &listed.record);
            let counted = records.filter(|it| it.state.kind() == kind && !it.is_forgotten(now));
            counted.count() as u64
        };
        Stats {
            records: StateKind::ALL.map(count),
            parked: self.parked.len() as u64,
            disk_bytes: None,
        }
    }

    fn record(&self, id: OpId) -> Option<&Record> {
        self.records.get(&id).map(|listed| &listed.record)
    }

    /// The entity that the stored record's gate names.
    fn entity_of(&self, id: OpId) -> Option<OpId> {
        let listed = self.records.get(&id)?;
        let gate = listed.record.gate.as_ref()?;
        Some(entity_id(&listed.operation.scope, gate))
    }

    /// Writes what was decided and hands on the answer.
    fn apply<A>(
        &mut self,
        operation: &Operation,
        id: OpId,
        entity: Option<OpId>,
        decision: Decision<A>,
    ) -> A {
        match decision.change {
            Change::Keep => {}
            Change::Put(record) => {
                let operation = Operation::new(operation.scope.clone(), operation.key.detached());
                self.records.insert(id, Listed { operation, record });
            }
            Change::Remove => {
                self.records.remove(&id);
            }
        }
        if let (Some(entity), Some(record)) = (entity, decision.entity) {
            self.entities.insert(entity, record);
        }
        decision.answer
    }
}

fn entity_id(scope: &Scope, gate: &VersionGate) -> OpId {
    OpId::of(scope, &gate.entity)
}

fn restore<T>(map: &mut BTreeMap<OpId, T>, id: OpId, former: Option<T>) {
    match former {
        Some(former) => map.insert(id, former),
        None => map.remove(&id),
    };
}
