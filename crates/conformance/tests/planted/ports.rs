//! The checkpoint and the transfer port over the planted store.

use std::sync::Arc;

use bytes::Bytes;
use semel_core::port::checkpoint::{CheckpointStore, Together, Write};
use semel_core::port::store::Page;
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, ClaimRequest, Clock, Error, ErrorKind, FencingToken, Mark, OpId, Outcome, Record,
    Result, Settled, Settlement, Start, State, Step,
};

use super::Bug;
use super::port::A_MOMENT;
use super::store::{Memory, Planted};

impl CheckpointStore for Planted {
    async fn settle_with(&self, batch: Arc<[Settlement]>, mark: &Mark) -> Result<Together> {
        let mut memory = self.memory();
        let (records, entities) = (memory.records.clone(), memory.entities.clone());
        let settle = |settlement: &Settlement| self.settle_one(&mut memory, settlement);
        let answers: Vec<_> = batch.iter().map(settle).collect();
        if answers.iter().all(|it| matches!(it, Settled::Now(_))) {
            memory.marks.insert(mark.name.to_string(), mark.value);
            return Ok(Together::Applied(answers));
        }
        (memory.records, memory.entities) = (records, entities);
        Ok(Together::Refused(answers))
    }

    async fn admit_with(&self, batch: Vec<ClaimRequest>, write: Write) -> Result<Vec<Admission>> {
        let marked = batch.iter().any(|it| it.start != Start::Unmarked);
        if marked && !self.has(Bug::AdmitTakesMarked) {
            return Err(Error::new(ErrorKind::InvalidInput, "marked"));
        }
        if self.has(Bug::AdmitUnlocked) {
            let answers = self.claim_all(&mut self.memory(), &batch);
            tokio::time::sleep(A_MOMENT).await;
            let mark = write(&answers)?;
            let mut memory = self.memory();
            self.complete_all(&mut memory, &batch, &answers);
            memory.marks.insert(mark.name.to_string(), mark.value);
            return Ok(answers);
        }
        let mut memory = self.memory();
        let (records, entities) = (memory.records.clone(), memory.entities.clone());
        let mut answers = Vec::new();
        for request in &batch {
            let one = std::slice::from_ref(request);
            let answer = self.claim_all(&mut memory, one);
            if !self.has(Bug::AdmitClaimsOnly) {
                self.complete_all(&mut memory, one, &answer);
            }
            answers.extend(answer);
        }
        match write(&answers) {
            Ok(mark) => {
                if !self.has(Bug::AdmitWithoutMark) {
                    memory.marks.insert(mark.name.to_string(), mark.value);
                }
                Ok(answers)
            }
            Err(error) => {
                if !self.has(Bug::AdmitKeepsFailed) {
                    memory.records = records;
                }
                if !self.has(Bug::AdmitKeepsVersion) {
                    memory.entities = entities;
                }
                Err(error)
            }
        }
    }

    async fn mark(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.memory().marks.get(name).copied())
    }
}

impl TransferStore for Planted {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let from = match after {
            None => 0,
            Some(bytes) => match <[u8; 8]>::try_from(bytes) {
                Ok(bytes) => usize::from_be_bytes(bytes),
                Err(_) if self.has(Bug::AnyExportCursorGoes) => 0,
                Err(_) => return Err(Error::new(ErrorKind::InvalidInput, "not a cursor")),
            },
        };
        let all = self.items(&self.memory());
        let mut held = 0;
        let fits = |item: &&Item| {
            let has_room = held < PAGE_BYTES || self.has(Bug::ExportUnbounded);
            if let Item::Parked(message) = item {
                held += message.payload.len();
            }
            has_room
        };
        let items = all.iter().skip(from).take(limit.max(1)).take_while(fits);
        let items: Vec<_> = items.cloned().collect();
        let to = from + items.len();
        let next = to + usize::from(self.has(Bug::ExportSkips));
        let next = (to < all.len()).then(|| Bytes::copy_from_slice(&next.to_be_bytes()));
        Ok(Page { items, next })
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        let mut memory = self.memory();
        let import = |item: &Item| self.import_one(&mut memory, item);
        let new = batch.iter().map(import);
        Ok(new
            .map(|new| new || self.has(Bug::ImportAlwaysNew))
            .collect())
    }
}

impl Planted {
    fn claim_all(&self, memory: &mut Memory, batch: &[ClaimRequest]) -> Vec<Admission> {
        let claim = |request: &ClaimRequest| {
            let (loaded, now) = self.claim_one(memory, request);
            let decision = self.decide_claim(&loaded, request, now);
            self.write_claim(memory, request, decision)
        };
        batch.iter().map(claim).collect()
    }

    fn complete_all(&self, memory: &mut Memory, batch: &[ClaimRequest], answers: &[Admission]) {
        for (request, answer) in batch.iter().zip(answers) {
            if let Admission::Granted(claim) = answer {
                let settlement = Settlement {
                    operation: request.operation.clone(),
                    claim_id: claim.claim_id,
                    step: Step::Complete {
                        outcome: Outcome::empty(),
                        window: request.window,
                    },
                };
                let _ = self.settle_one(memory, &settlement);
            }
        }
    }

    fn settle_one(&self, memory: &mut Memory, settlement: &Settlement) -> Settled {
        let id = self.id(&settlement.operation);
        let entity = Self::entity_of(memory, id);
        let loaded = self.load(memory, id, entity);
        let decision = self.decide_settle(&loaded, settlement, self.clock.now());
        let at = (&settlement.operation, id, entity);
        self.store(memory, at, decision.change, decision.entity);
        decision.answer
    }

    /// Everything, as far as the bug lets it be exported.
    fn items(&self, memory: &Memory) -> Vec<Item> {
        let now = self.clock.now();
        let token = if self.has(Bug::ExportWithoutToken) {
            0
        } else {
            memory.token
        };
        let mut items = vec![Item::Token(FencingToken::new(token))];
        for listed in memory.records.values() {
            let mut listed = listed.clone();
            if self.has(Bug::ExportWithoutOutcomes) {
                listed.record.outcome = None;
            }
            if !listed.record.is_forgotten(now) || self.has(Bug::ExportsForgotten) {
                items.push(Item::Record(Box::new(listed)));
            }
        }
        if !self.has(Bug::ExportWithoutEntities) {
            let entities = memory.entities.values().cloned();
            items.extend(entities.map(|(scope, key, record)| Item::Entity(scope, key, record)));
        }
        let mark = |(name, value): (&String, &u64)| {
            Item::Mark(Mark {
                name: name.as_str().into(),
                value: *value,
            })
        };
        items.extend(memory.marks.iter().map(mark));
        let parked = memory.parked.values().cloned();
        items.extend(parked.map(|it| Item::Parked(Box::new(it))));
        let trail = memory.audit.iter().cloned();
        items.extend(trail.map(|it| Item::Audited(Box::new(it))));
        items
    }

    /// Imports an item. Returns whether it is new.
    fn import_one(&self, memory: &mut Memory, item: &Item) -> bool {
        let now = self.clock.now();
        let replaces = self.has(Bug::ImportReplaces);
        match item {
            Item::Token(token) => {
                let new = token.get() > memory.token;
                if new || self.has(Bug::ImportLowersToken) {
                    memory.token = token.get();
                }
                new
            }
            Item::Record(listed) => {
                let id = self.id(&listed.operation);
                let known = memory.records.get(&id).map(|it| &it.record);
                let sees_all = self.has(Bug::ImportSeesForgotten);
                let new = known.is_none_or(|it| it.is_forgotten(now) && !sees_all);
                if new || replaces {
                    let mut listed = (**listed).clone();
                    self.miscopy(&mut listed.record);
                    memory.records.insert(id, listed);
                }
                new
            }
            Item::Entity(scope, entity, record) => {
                let id = OpId::of(scope, entity);
                let new = !memory.entities.contains_key(&id);
                if new || replaces {
                    let known = (scope.clone(), entity.clone(), record.clone());
                    memory.entities.insert(id, known);
                }
                new
            }
            Item::Mark(mark) => {
                let name = mark.name.to_string();
                let new = !memory.marks.contains_key(&name);
                if new || replaces || self.has(Bug::ImportReplacesMarks) {
                    memory.marks.insert(name, mark.value);
                }
                new
            }
            Item::Parked(message) => {
                let new = !memory.parked.contains_key(&message.id());
                if new || replaces {
                    memory.parked.insert(message.id(), (**message).clone());
                }
                new
            }
            Item::Audited(entry) => {
                let new = !memory.audit.contains(entry);
                if new || replaces {
                    memory.audit.push((**entry).clone());
                }
                new
            }
        }
    }

    /// A record that is imported, as far as the bug lets it in.
    fn miscopy(&self, record: &mut Record) {
        match self.bug {
            Bug::ImportWithoutPast => record.past.clear(),
            Bug::ImportStampsTimes => {
                if let State::Completed { at, .. } | State::Dead { at, .. } = &mut record.state {
                    *at = self.clock.now();
                }
                record.created_at = self.clock.now();
            }
            _ => {}
        }
    }
}

/// The bytes of messages after which a page of an export ends.
const PAGE_BYTES: usize = 8 << 20;
