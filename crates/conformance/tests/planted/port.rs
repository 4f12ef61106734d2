//! The store port over the planted store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::decide::{self, Change, Directed, Directive, Order, Verdict};
use semel_core::port::store::{Capabilities, Durability, ListQuery, Listed, Page, Stats, Swept};
use semel_core::{
    Admission, Audited, ClaimRequest, Clock, Error, ErrorKind, FencingToken, Note, OpId, Operation,
    Parked, ParkedId, Record, Renewal, Renewed, Result, Settled, Settlement, State, StateKind,
    Store, Timestamp, audit,
};

use super::Bug;
use super::decisions::NOBODY;
use super::store::{Memory, Planted};

impl Store for Planted {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let mut answers = Vec::new();
        if self.has(Bug::BatchOfOneSnapshot) {
            let mut memory = self.memory();
            let decided: Vec<_> = batch
                .iter()
                .map(|request| {
                    let (loaded, now) = self.claim_one(&memory, request);
                    self.decide_claim(&loaded, request, now)
                })
                .collect();
            for (request, decision) in batch.iter().zip(decided) {
                answers.push(self.write_claim(&mut memory, request, decision));
            }
            return Ok(answers);
        }
        for request in &*batch {
            let (loaded, now) = self.claim_one(&self.memory(), request);
            if self.has(Bug::ClaimNotAtomic) {
                let (mut early, now) = (loaded, now);
                tokio::time::sleep(A_MOMENT).await;
                let mut memory = self.memory();
                // The token is fresh, so only the order of the answers shows the bug.
                early.token = FencingToken::new(memory.token + 1);
                let decision = self.decide_claim(&early, request, now);
                answers.push(self.write_claim(&mut memory, request, decision));
                continue;
            }
            let mut memory = self.memory();
            let (loaded, now) = self.claim_one(&memory, request);
            let decision = self.decide_claim(&loaded, request, now);
            answers.push(self.write_claim(&mut memory, request, decision));
        }
        if self.has(Bug::BatchReversed) {
            answers.reverse();
        }
        Ok(answers)
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let mut answers = Vec::new();
        for settlement in &*batch {
            let id = self.id(&settlement.operation);
            let now = self.clock.now();
            let look = |memory: &Memory| {
                let entity = Self::entity_of(memory, id);
                (self.load(memory, id, entity), entity)
            };
            let (mut loaded, mut entity) = look(&self.memory());
            if self.has(Bug::SettleNotAtomic) {
                tokio::time::sleep(A_MOMENT).await;
            }
            let mut memory = self.memory();
            if !self.has(Bug::SettleNotAtomic) {
                (loaded, entity) = look(&memory);
            }
            let decision = self.decide_settle(&loaded, settlement, now);
            let fenced = matches!(decision.answer, Settled::Fenced { .. });
            let at = (&settlement.operation, id, entity);
            self.store(&mut memory, at, decision.change, decision.entity);
            answers.push(decision.answer);
            if fenced && self.has(Bug::FencedBatchStops) {
                let rest = batch.len() - answers.len();
                answers.extend((0..rest).map(|_| Settled::Fenced { found: None }));
                break;
            }
        }
        Ok(answers)
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let mut memory = self.memory();
        let now = self.clock.now();
        let renew = |renewal: &Renewal| {
            let id = self.id(&renewal.operation);
            let entity = Self::entity_of(&memory, id);
            let loaded = self.load(&memory, id, entity);
            let mut renewal = renewal.clone();
            if let (Bug::AnybodyRenews, Some(record)) = (self.bug, &loaded.record) {
                renewal.claim_id = record.claim_id;
            }
            let over = matches!(
                loaded.record.as_ref().map(|record| record.state),
                Some(State::Claimed { lease_until } | State::Started { lease_until, .. }) if lease_until <= now
            );
            if over && self.has(Bug::NoRevival) {
                return Renewed::Lost {
                    found: loaded.record.map(|it| it.state.kind()),
                };
            }
            let decision = decide::renew(
                loaded.record.as_ref(),
                loaded.entity.as_ref(),
                &renewal,
                now,
            );
            let entity_after = decision
                .entity
                .filter(|_| !self.has(Bug::EntityLeaseNotRenewed));
            let at = (&renewal.operation, id, entity);
            self.store(&mut memory, at, decision.change, entity_after);
            decision.answer
        };
        Ok(batch.iter().map(renew).collect())
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        let mut memory = self.memory();
        let park = |message: &Parked| {
            let mut message = message.clone();
            if !self.has(Bug::SinceFromCaller) {
                message.since = self.clock.now();
            }
            if self.has(Bug::PayloadAsText) {
                let text = String::from_utf8_lossy(&message.payload).into_owned();
                message.payload = Bytes::from(text);
            }
            let id = message.id();
            let new = !memory.parked.contains_key(&id);
            if new || self.has(Bug::ParkReplaces) {
                memory.parked.insert(id, message);
            }
            new || self.has(Bug::ParkAlwaysNew)
        };
        Ok(batch.iter().map(park).collect())
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        let (mut memory, now) = (self.memory(), self.clock.now());
        let drop = |id: &ParkedId| {
            let message = memory.parked.remove(id);
            if let (Some(message), Some(note)) = (&message, note)
                && !self.has(Bug::DropUnaudited)
            {
                memory.audit.push(message.dropped(note, now));
            }
            message.is_some()
        };
        Ok(batch.iter().map(drop).collect())
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let (memory, now) = (self.memory(), self.clock.now());
        let get = |operation: &Operation| {
            let record = memory
                .records
                .get(&self.id(operation))
                .map(|it| it.record.clone());
            record.filter(|record| !record.is_forgotten(now))
        };
        Ok(batch.iter().map(get).collect())
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        let query = &self.asked(query);
        let (memory, now) = (self.memory(), self.clock.now());
        let wanted = |listed: &Listed| {
            query.fits_record(&listed.operation, &listed.record) && !listed.record.is_forgotten(now)
        };
        let bare = |listed: &Listed| Listed {
            record: Record {
                outcome: None,
                ..listed.record.clone()
            },
            ..listed.clone()
        };
        let all = memory.records.iter().map(|(id, it)| (*id.as_bytes(), it));
        self.page(query, all.collect(), wanted, bare)
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        let query = &self.asked(query);
        let memory = self.memory();
        let wanted = |parked: &Parked| query.fits_parked(parked);
        let all = memory.parked.iter().map(|(id, it)| (id.to_bytes(), it));
        self.page(query, all.collect(), wanted, Parked::clone)
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let mut memory = self.memory();
        let now = self.clock.now();
        let operate = |directive: &Directive| {
            let id = self.id(&directive.operation);
            let entity = Self::entity_of(&memory, id);
            let loaded = self.load(&memory, id, entity);
            let mut order = directive.order.clone();
            if let (Bug::QuietIgnored, Order::Resolve(Verdict::NotApplied { quiet, .. })) =
                (self.bug, &mut order)
            {
                *quiet = Duration::ZERO;
            }
            if let (Bug::EvidenceAgeIgnored, Order::Resolve(Verdict::NotApplied { asked, .. })) =
                (self.bug, &mut order)
            {
                *asked = None;
            }
            let record = loaded.record.as_ref();
            let mut decision = decide::operate(record, loaded.entity.as_ref(), &order, now);
            match (self.bug, &order, &mut decision.change) {
                (Bug::RequeueKeepsAttempts, Order::Requeue, Change::Put(after)) => {
                    after.attempts = record.map_or(0, |it| it.attempts);
                }
                (Bug::HoldIgnored, Order::Hold(_), Change::Put(after)) => after.held = false,
                (Bug::VerdictSkipsVersion, Order::Resolve(_), _)
                | (Bug::ReleaseOrderKeepsEntity, Order::Release, _) => decision.entity = None,
                (Bug::ReleaseOrderIgnored, Order::Release, change) => *change = Change::Keep,
                (Bug::ReleaseOrderFences, Order::Release, Change::Put(after)) => {
                    after.claim_id = NOBODY;
                }
                (Bug::ReleaseOrderMoves, Order::Release, Change::Put(after)) => {
                    end_at(&mut after.state, now);
                }
                _ => {}
            }
            let before = audit::standing(record);
            let at = (&directive.operation, id, entity);
            self.store(&mut memory, at, decision.change, decision.entity);
            let after = memory.records.get(&id).map(|it| &it.record);
            let after = audit::standing(after);
            self.enter(&mut memory, directive, &decision.answer, before, after);
            decision.answer
        };
        Ok(batch.iter().map(operate).collect())
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        let query = &self.asked(query);
        let memory = self.memory();
        let all = memory.audit.iter().enumerate();
        let all = all.map(|(at, entry)| ((at as u64).to_be_bytes(), entry));
        let wanted = |entry: &Audited| query.fits_entry(entry);
        self.page(query, all.collect(), wanted, Audited::clone)
    }

    async fn sweep(&self, _: usize) -> Result<Swept> {
        let mut memory = self.memory();
        let now = self.clock.now();
        let mut swept = Swept::default();
        let ids: Vec<OpId> = memory.records.keys().copied().collect();
        for id in ids {
            let Some(listed) = memory.records.get_mut(&id) else {
                continue;
            };
            let early = self.has(Bug::SweepsEarly);
            let lost = match listed.record.state {
                State::Released { .. } | State::Claimed { .. } => self.has(Bug::SweepsUnresolved),
                State::Completed { .. } => early,
                _ => false,
            };
            let change = if lost {
                Change::Remove
            } else {
                decide::sweep(&listed.record, now)
            };
            match change {
                Change::Put(mut record) if !self.has(Bug::SweepBlind) => {
                    if self.has(Bug::SweepUntold) {
                        record.past.clone_from(&listed.record.past);
                    }
                    listed.record = record;
                    swept.doubted += 1;
                }
                Change::Keep | Change::Put(_) => {}
                Change::Remove => {
                    memory.records.remove(&id);
                    swept.removed += 1;
                }
            }
        }
        Ok(swept)
    }

    async fn stats(&self) -> Result<Stats> {
        let (memory, now) = (self.memory(), self.clock.now());
        let live = memory
            .records
            .values()
            .filter(|it| !it.record.is_forgotten(now));
        let count = |kind| {
            live.clone()
                .filter(|it| it.record.state.kind() == kind)
                .count() as u64
        };
        let mut records = StateKind::ALL.map(count);
        if self.has(Bug::StatsMiscount) {
            records[4] = 0;
        }
        let entities = if self.has(Bug::EntitiesUncounted) {
            0
        } else {
            memory.entities.len() as u64
        };
        let mut stats = Stats::new(records);
        stats.entities = entities;
        stats.parked = memory.parked.len() as u64;
        if !self.has(Bug::AuditUncounted) {
            stats.audited = memory.audit.len() as u64;
        }
        let forgotten = memory.records.len() - live.clone().count();
        let is_blind = self.has(Bug::RememberedUncounted);
        stats.remembered = Some(if is_blind { 0 } else { forgotten as u64 });
        Ok(stats)
    }

    async fn estimate(&self, most: usize) -> Result<Stats> {
        let mut stats = self.stats().await?;
        if self.has(Bug::EstimateUnscaled) {
            stats.records = stats.records.map(|count| count.min(most as u64));
        }
        Ok(stats)
    }

    async fn preflight(&self) -> Result<Capabilities> {
        let durability = Durability::Process;
        Ok(Capabilities {
            kind: "planted",
            durability,
            shared: false,
            warnings: Vec::new(),
        })
    }
}

impl Planted {
    /// Enters an order into the audit trail, as far as the bug lets it.
    fn enter(
        &self,
        memory: &mut Memory,
        directive: &Directive,
        answer: &Directed,
        before: Box<str>,
        after: Box<str>,
    ) {
        let nobody = Note {
            by: "a probe".into(),
            reason: "".into(),
        };
        let note = directive.note.clone();
        let note = note.or_else(|| self.has(Bug::AuditsProbes).then_some(nobody));
        let counts = matches!(answer, Directed::Now(_)) || self.has(Bug::AuditsRefusals);
        let Some(note) = note.filter(|_| counts && !self.has(Bug::AuditMissing)) else {
            return;
        };
        let misplaced = self.has(Bug::AuditedAfter);
        memory.audit.push(Audited {
            at: self.clock.now(),
            note,
            action: directive.order.action().into(),
            scope: Some(directive.operation.scope.clone()),
            key: Some(directive.operation.key.clone()),
            before: if misplaced { after.clone() } else { before },
            after,
        });
    }

    /// Returns the query as far as the bug lets the list see it.
    fn asked(&self, query: &ListQuery) -> ListQuery {
        let mut query = query.clone();
        let is_later = query.after.is_some();
        let is_empty = query.tenant.as_deref() == Some("");
        if is_later && self.has(Bug::CursorForgetsTenant)
            || is_empty && self.has(Bug::EmptyTenantIsAny)
        {
            query.tenant = None;
        }
        if is_later && self.has(Bug::CursorForgetsOperation) {
            query.operation = None;
        }
        query
    }

    fn page<const N: usize, T, U>(
        &self,
        query: &ListQuery,
        all: Vec<([u8; N], &T)>,
        wanted: impl Fn(&T) -> bool,
        shown: impl Fn(&T) -> U,
    ) -> Result<Page<U>> {
        let after = match &query.after {
            None => None,
            Some(bytes) => match <[u8; N]>::try_from(&**bytes) {
                Ok(id) => Some(id),
                Err(_) if self.has(Bug::AnyCursorGoes) => None,
                Err(_) => return Err(Error::new(ErrorKind::InvalidInput, "not a cursor")),
            },
        };
        let mut rest = all
            .into_iter()
            .filter(|(id, it)| after.is_none_or(|it| *id > it) && wanted(it));
        let mut items = Vec::new();
        let mut last = None;
        for (id, item) in rest.by_ref().take(query.limit.max(1)) {
            items.push(shown(item));
            last = Some(id);
        }
        let following = rest.next().map(|(id, _)| id);
        let next = if self.has(Bug::PagesSkip) {
            following
        } else {
            following.and(last)
        };
        Ok(Page {
            items,
            next: next.map(|id| Bytes::copy_from_slice(&id)),
        })
    }
}

/// Ends the wait at `now`, even where it was over before.
fn end_at(state: &mut State, now: Timestamp) {
    match state {
        State::Claimed { lease_until: until }
        | State::Started {
            lease_until: until, ..
        }
        | State::Released { not_before: until } => *until = now,
        State::Completed { .. } | State::Dead { .. } | State::InDoubt { .. } => {}
    }
}

/// The pause between looking and writing, long enough for others to look as well.
pub(super) const A_MOMENT: Duration = Duration::from_millis(5);
