//! The expected state: a few records, stepped by `decide` alone.

use std::collections::BTreeMap;

use semel_core::decide::{self, Change};
use semel_core::{
    Admission, ClaimRequest, EntityRecord, FencingToken, Key, Record, Timestamp, VersionGate, audit,
};

use super::call::{Answer, Call, Times};

/// The records of the keys of one history, as they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    records: BTreeMap<Key, Record>,
    entities: BTreeMap<Key, EntityRecord>,
    /// The highest token that was granted for each key, even if its record is gone.
    tokens: BTreeMap<Key, FencingToken>,
    times: Times,
}

impl Spec {
    pub(super) fn new(times: Times) -> Self {
        let (records, entities, tokens) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            records,
            entities,
            tokens,
            times,
        }
    }

    /// Takes the step of `call`. Returns whether `seen` is its answer; if not, the spec must be
    /// thrown away.
    pub(super) fn step(&mut self, call: &Call, seen: &Answer, now: Timestamp) -> bool {
        let expected = match call {
            Call::Claim(request) => {
                let Some(expected) = self.claim(request, seen, now) else {
                    return false;
                };
                expected
            }
            Call::Settle(it) => {
                let record = self.records.get(&it.operation.key);
                let entity = self.entity(record);
                let decision = decide::settle(record, entity, it, now);
                self.apply(&it.operation.key, decision.change, decision.entity);
                Answer::to_settle(&decision.answer)
            }
            Call::Renew(it) => {
                let record = self.records.get(&it.operation.key);
                let entity = self.entity(record);
                let decision = decide::renew(record, entity, it, now);
                self.apply(&it.operation.key, decision.change, decision.entity);
                Answer::to_renew(decision.answer, self.times)
            }
            Call::Operate(it) => {
                let record = self.records.get(&it.operation.key);
                let entity = self.entity(record);
                let decision = decide::operate(record, entity, &it.order, now);
                self.apply(&it.operation.key, decision.change, decision.entity);
                Answer::to_operate(decision.answer, self.times)
            }
            Call::Get(operation) => {
                let record = self.records.get(&operation.key);
                let record = record.filter(|record| !record.is_forgotten(now));
                Answer::to_get(record.cloned(), self.times)
            }
            Call::Sweep => {
                self.sweep(now);
                Answer::nothing()
            }
        };
        seen.text == expected.text
    }

    /// Forgets a record that has passed its window, as a store may at any time. Returns whether
    /// there was one.
    pub(super) fn forget_expired(&mut self, key: &Key, now: Timestamp) -> bool {
        let expires_at = self.records.get(key).and_then(Record::expires_at);
        let expired = expires_at.is_some_and(|expires_at| expires_at <= now);
        expired && self.records.remove(key).is_some()
    }

    /// The state of the record of `key`, as the audit trail puts it.
    pub(super) fn standing(&self, key: &Key) -> Box<str> {
        audit::standing(self.records.get(key))
    }

    /// The record that a call found, as text for people.
    pub(super) fn shown(&self, call: &Call) -> String {
        format!("{:?}", call.key().and_then(|key| self.records.get(key)))
    }

    /// The records that must be there, and those that may.
    pub(super) fn present(&self, now: Timestamp) -> (Vec<&Key>, Vec<&Key>) {
        let kept = self
            .records
            .iter()
            .filter(|(_, record)| !record.is_forgotten(now));
        let expired = |record: &Record| record.expires_at().is_some_and(|at| at <= now);
        let (may, must): (Vec<_>, Vec<_>) = kept.partition(|(_, record)| expired(record));
        let keys = |records: Vec<(_, &Record)>| records.into_iter().map(|(key, _)| key).collect();
        (keys(must), keys(may))
    }

    /// The answer to a claim, with the token that was seen; nothing if that token is wrong.
    fn claim(&mut self, request: &ClaimRequest, seen: &Answer, now: Timestamp) -> Option<Answer> {
        let key = &request.operation.key;
        let token = seen.granted.unwrap_or(FencingToken::new(0));
        let entity = request
            .gate
            .as_ref()
            .and_then(|gate| self.entities.get(&gate.entity));
        let decision = decide::claim(self.records.get(key), entity, request, now, token);
        let gate = request.gate.as_ref();
        if let Admission::Granted(claim) = &decision.answer
            && !claim.resumed
        {
            let last = self.tokens.insert(key.clone(), token);
            if last.is_some_and(|last| last >= token) {
                return None;
            }
        }
        self.apply_gated(key, gate, decision.change, decision.entity);
        Some(Answer::to_claim(decision.answer, self.times))
    }

    /// Sweeps: marks vanished parks as in doubt. A store may also leave the records that a sweep
    /// removes.
    fn sweep(&mut self, now: Timestamp) {
        for record in self.records.values_mut() {
            if let Change::Put(after) = decide::sweep(record, now) {
                *record = after;
            }
        }
    }

    /// The entity that the gate of `record` names.
    fn entity(&self, record: Option<&Record>) -> Option<&EntityRecord> {
        self.entities.get(&record?.gate.as_ref()?.entity)
    }

    fn apply(&mut self, key: &Key, change: Change, entity: Option<EntityRecord>) {
        let gate = self.records.get(key).and_then(|record| record.gate.clone());
        self.apply_gated(key, gate.as_ref(), change, entity);
    }

    fn apply_gated(
        &mut self,
        key: &Key,
        gate: Option<&VersionGate>,
        change: Change,
        entity: Option<EntityRecord>,
    ) {
        match change {
            Change::Keep => {}
            Change::Put(record) => {
                self.records.insert(key.clone(), record);
            }
            Change::Remove => {
                self.records.remove(key);
            }
        }
        if let (Some(gate), Some(entity)) = (gate, entity) {
            self.entities.insert(gate.entity.clone(), entity);
        }
    }
}
