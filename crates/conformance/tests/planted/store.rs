//! A store that keeps the laws, but for one defect.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use semel_conformance::{CheckpointSubject, Subject, TestClock, TransferSubject};
use semel_core::decide::{Change, Decision};
use semel_core::port::store::Listed;
use semel_core::{
    Admission, AttemptEnd, Audited, ClaimRequest, Clock, EntityRecord, FencingToken, Key, OpId,
    Operation, Parked, ParkedId, PastAttempt, Record, Scope, Timestamp,
};

use super::Bug;

/// A store with one planted defect.
pub(crate) struct Planted {
    pub(super) bug: Bug,
    pub(super) clock: TestClock,
    memory: Mutex<Memory>,
}

/// Everything that it remembers.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) records: BTreeMap<OpId, Listed>,
    pub(super) entities: BTreeMap<OpId, (Scope, Key, EntityRecord)>,
    pub(super) parked: BTreeMap<ParkedId, Parked>,
    pub(super) audit: Vec<Audited>,
    pub(super) marks: BTreeMap<String, u64>,
    pub(super) token: u64,
}

/// The data that a step on one key works with.
pub(super) struct Loaded {
    pub(super) record: Option<Record>,
    pub(super) entity: Option<EntityRecord>,
    pub(super) token: FencingToken,
}

impl Planted {
    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().expect("nobody panics under the lock")
    }

    pub(super) fn id(&self, operation: &Operation) -> OpId {
        let text = operation.key.as_str();
        let changed = match self.bug {
            Bug::KeysIgnoreCase => text.to_lowercase(),
            Bug::KeysAreTrimmed => text.trim_end().to_owned(),
            Bug::NumbersAreText => text.trim_start_matches("json:").to_owned(),
            Bug::TenantsMeet => {
                let scope = Scope::new("", operation.scope.operation());
                return OpId::of(&scope.expect("the name was one"), &operation.key);
            }
            Bug::PartsRunTogether => {
                let scope = &operation.scope;
                let joined = format!("{}{}{text}", scope.tenant(), scope.operation());
                return OpId::of(&Scope::new("", "all").expect("a name"), &key(joined));
            }
            _ => return operation.id(),
        };
        OpId::of(&operation.scope, &key(changed))
    }

    pub(super) fn load(&self, memory: &Memory, id: OpId, entity: Option<OpId>) -> Loaded {
        let record = memory.records.get(&id).map(|listed| listed.record.clone());
        let token = match (&record, self.bug) {
            (record, Bug::TokensPerKey) => record.as_ref().map_or(1, |it| it.token.get() + 1),
            (Some(record), Bug::TokenReused) => record.token.get(),
            _ => memory.token + 1,
        };
        Loaded {
            record,
            entity: entity.and_then(|entity| Some(memory.entities.get(&entity)?.2.clone())),
            token: FencingToken::new(token),
        }
    }

    pub(super) fn entity_of(memory: &Memory, id: OpId) -> Option<OpId> {
        let listed = memory.records.get(&id)?;
        let gate = listed.record.gate.as_ref()?;
        Some(OpId::of(&listed.operation.scope, &gate.entity))
    }

    pub(super) fn store(
        &self,
        memory: &mut Memory,
        (operation, id, entity): (&Operation, OpId, Option<OpId>),
        change: Change,
        known: Option<EntityRecord>,
    ) {
        match change {
            Change::Keep => {}
            Change::Put(mut record) => {
                let before = memory.records.get(&id).map(|listed| &listed.record);
                self.mistell(&mut record, before);
                if let (Some(entity), Some(known), Some(gate)) = (entity, known, &record.gate) {
                    let scope = operation.scope.clone();
                    memory
                        .entities
                        .insert(entity, (scope, gate.entity.clone(), known));
                }
                if self.has(Bug::Forgets) && memory.records.len() >= 3 {
                    memory.records.pop_first();
                }
                memory.records.insert(
                    id,
                    Listed {
                        operation: operation.clone(),
                        record,
                    },
                );
            }
            Change::Remove => {
                memory.records.remove(&id);
            }
        }
    }

    /// Changes the past attempts of a record that is written, as the bug requires.
    fn mistell(&self, record: &mut Record, before: Option<&Record>) {
        match self.bug {
            Bug::PastForgotten => record.past.clear(),
            Bug::PastWithoutReason => record.past.iter_mut().for_each(|past| past.error = None),
            Bug::VanishedUntold => record.past.retain(|past| past.end != AttemptEnd::Vanished),
            Bug::PastDropsOldest => dropped_from_full(record, before, |_| 0),
            Bug::PastDropsLater => {
                dropped_from_full(record, before, |pair| pair.map_or(0, |earlier| earlier + 1));
            }
            Bug::ClaimedAtFrozen => record.claimed_at = record.created_at,
            _ => {}
        }
    }

    pub(super) fn claim_one(&self, memory: &Memory, request: &ClaimRequest) -> (Loaded, Timestamp) {
        let entity = request.gate.as_ref();
        let entity = entity.map(|gate| OpId::of(&request.operation.scope, &gate.entity));
        (
            self.load(memory, self.id(&request.operation), entity),
            self.clock.now(),
        )
    }

    pub(super) fn write_claim(
        &self,
        memory: &mut Memory,
        request: &ClaimRequest,
        decision: Decision<Admission>,
    ) -> Admission {
        let entity = request.gate.as_ref();
        let entity = entity.map(|gate| OpId::of(&request.operation.scope, &gate.entity));
        if let Admission::Granted(claim) = &decision.answer
            && !claim.resumed
        {
            memory.token += 1;
        }
        let at = (&request.operation, self.id(&request.operation), entity);
        self.store(memory, at, decision.change, decision.entity);
        decision.answer
    }
}

/// A planted store as a subject.
pub(crate) struct Fixture {
    clock: TestClock,
    store: Arc<Planted>,
}

impl Subject for Fixture {
    type Store = Planted;

    async fn open() -> Self {
        let clock = TestClock::new();
        let bug = super::planted();
        let store = Planted {
            bug,
            clock: clock.clone(),
            memory: Mutex::default(),
        };
        Self {
            clock,
            store: Arc::new(store),
        }
    }

    fn store(&self) -> &Arc<Planted> {
        &self.store
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}

impl CheckpointSubject for Fixture {
    type Checkpoint = Planted;

    fn checkpoint(&self) -> Arc<Planted> {
        Arc::clone(&self.store)
    }
}

impl TransferSubject for Fixture {
    type Transfer = Planted;

    fn transfer(&self) -> Arc<Planted> {
        Arc::clone(&self.store)
    }
}

/// Adds the latest end of `record` to a past that was full before. Drops the attempt that `pick` chooses, which
/// gets the place of the first two in a row that were given back.
fn dropped_from_full(
    record: &mut Record,
    before: Option<&Record>,
    pick: impl Fn(Option<usize>) -> usize,
) {
    let full = before.filter(|before| before.past.len() == Record::MAX_PAST);
    let (Some(before), Some(latest)) = (full, record.past.last()) else {
        return;
    };
    if before.past.last() == Some(latest) {
        return;
    }
    let mut past = before.past.clone();
    past.push(latest.clone());
    let is_given_back = |past: &PastAttempt| past.end == AttemptEnd::GivenBack;
    let pair = past
        .windows(2)
        .position(|two| two.iter().all(is_given_back));
    past.remove(pick(pair));
    record.past = past;
}

fn key(text: String) -> Key {
    Key::from_canonical(Bytes::from(text)).expect("a string is UTF-8")
}
