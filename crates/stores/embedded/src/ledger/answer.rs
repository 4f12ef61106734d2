//! Loads the records that a request names, lets [`semel_core::decide`] decide, and carries the decision out.

use semel_core::decide::{self, Directed, Directive, Order, Verdict};
use semel_core::port::checkpoint::Together;
use semel_core::{
    Admission, Audited, Change, ClaimId, ClaimRequest, Decision, EntityRecord, Key, Mark, Note,
    Operation, Outcome, Record, Renewal, Renewed, Result, Scope, Settled, Settlement, State, Step,
    Timestamp, audit,
};

use super::{Before, EntityState, Kept, Ledger, Versioned, shared_digest};
use crate::digest::{Address, Addresses};
use crate::entry::{self, Kind};
use crate::error;
use crate::limits::{MAX_TAIL, check_key, check_len, check_note, check_outcome, check_transport};

impl Ledger {
    /// Decides a claim; `is_lent` says that another process claims.
    pub(crate) fn claim(
        &mut self,
        request: &ClaimRequest,
        address: Address<'_>,
        now: Timestamp,
        is_lent: bool,
    ) -> Admission {
        self.try_claim(request, address, now, is_lent)
            .unwrap_or_else(Admission::Failed)
    }

    pub(crate) fn settle(
        &mut self,
        settlement: &Settlement,
        address: Address<'_>,
        now: Timestamp,
    ) -> Settled {
        self.try_settle(settlement, address, now)
            .unwrap_or_else(Settled::Failed)
    }

    pub(crate) fn renew(
        &mut self,
        renewal: &Renewal,
        address: Address<'_>,
        now: Timestamp,
    ) -> Renewed {
        self.try_renew(renewal, address, now)
            .unwrap_or_else(Renewed::Failed)
    }

    pub(crate) fn operate(
        &mut self,
        directive: &Directive,
        address: Address<'_>,
        now: Timestamp,
    ) -> Directed {
        self.try_operate(directive, address, now)
            .unwrap_or_else(Directed::Failed)
    }

    /// Settles all of a batch and sets a mark, or changes nothing. One frame holds it all.
    pub(crate) fn settle_with(
        &mut self,
        batch: &[Settlement],
        addresses: &Addresses,
        mark: &Mark,
        now: Timestamp,
    ) -> Result<Together> {
        check_len(mark.name.len(), "name of the mark")?;
        let len: usize = batch.iter().map(outcome_len).sum();
        if len > MAX_TAIL {
            return Err(error::too_large(
                "batch that is settled together",
                len,
                MAX_TAIL,
            ));
        }
        let savepoint = self.savepoint();
        let settled: Vec<Settled> = batch
            .iter()
            .enumerate()
            .map(|(index, settlement)| self.settle(settlement, addresses.get(index), now))
            .collect();
        if settled
            .iter()
            .all(|settled| matches!(settled, Settled::Now(_)))
        {
            self.set_mark(mark);
            return Ok(Together::Applied(settled));
        }
        self.go_back(&savepoint);
        Ok(Together::Refused(settled))
    }

    /// Reads a record with its outcome.
    pub(crate) fn get(
        &mut self,
        operation: &Operation,
        address: Address<'_>,
        now: Timestamp,
    ) -> Result<Option<Record>> {
        let before = self.before(address, operation, true)?;
        let record = self
            .record(address.digest, &before)
            .filter(|record| !record.is_forgotten(now));
        Ok(record.cloned())
    }

    fn try_claim(
        &mut self,
        request: &ClaimRequest,
        address: Address<'_>,
        now: Timestamp,
        is_lent: bool,
    ) -> Result<Admission> {
        let operation = &request.operation;
        check_key(&operation.key, "key")?;
        check_transport(request.transport.as_ref())?;
        let entity = match &request.gate {
            Some(gate) => {
                check_key(&gate.entity, "entity")?;
                self.entity(&operation.scope, &gate.entity)
            }
            None => None,
        };
        let before = self.before(address, operation, request.wants_outcome)?;
        let record = self.record(address.digest, &before);
        let decision = decide::claim(record, entity.as_ref(), request, now, self.next_token());
        let Decision {
            answer,
            change,
            entity,
        } = decision;
        if let Admission::Granted(claim) = &answer {
            self.token = self.token.max(claim.token.get());
        }
        // A claim that vanishes without a start leaves no doubt: it stays in memory, unless its holder may outlive this
        // process.
        let is_durable = match &change {
            Change::Put(record) => is_lent || !matches!(record.state, State::Claimed { .. }),
            Change::Keep | Change::Remove => true,
        };
        let lent = is_lent.then_some(request.claim_id);
        let manner = (is_durable, lent);
        self.apply_lent(address, operation, &before, change, manner);
        if let (Some(gate), Some(record)) = (&request.gate, entity) {
            self.apply_entity_lent(&operation.scope, &gate.entity, record, manner);
        }
        self.give_back(before);
        Ok(answer)
    }

    fn try_settle(
        &mut self,
        settlement: &Settlement,
        address: Address<'_>,
        now: Timestamp,
    ) -> Result<Settled> {
        let operation = &settlement.operation;
        match &settlement.step {
            Step::Start { .. } => {}
            Step::Complete { outcome, .. } => check_outcome(outcome, &self.options)?,
            Step::Release { error, .. } | Step::Fail { error, .. } => {
                check_len(error.len(), "error")?;
            }
        }
        // Most reports finish their record: it is taken out of memory first, and put back where it stays.
        let Some(kept) = self.take_kept(address, operation)? else {
            // No report changes a record that is finished or absent.
            let before = self.before(address, operation, false)?;
            let record = self.record(address.digest, &before);
            let decision = decide::settle(record, None, settlement, now);
            self.apply(address, operation, &before, decision.change, true);
            return Ok(decision.answer);
        };
        let gate = kept.record.gate.clone();
        let entity = gate
            .as_ref()
            .and_then(|gate| self.entity(&operation.scope, &gate.entity));
        let Decision {
            answer,
            change,
            entity,
        } = decide::settle(Some(&kept.record), entity.as_ref(), settlement, now);
        let finished = match &change {
            Change::Put(record) => self
                .ends
                .of(record.state, record.held)
                .map(|end| (record, end)),
            Change::Keep | Change::Remove => None,
        };
        if let Some((record, end)) = finished {
            self.took_kept(address.digest, kept);
            self.finish(address, record, end);
        } else {
            self.kept.insert(address.digest, kept);
            self.apply(address, operation, &Before::Kept, change, true);
        }
        if let (Some(gate), Some(record)) = (gate, entity) {
            self.apply_entity(&operation.scope, &gate.entity, record, true);
        }
        Ok(answer)
    }

    fn try_renew(
        &mut self,
        renewal: &Renewal,
        address: Address<'_>,
        now: Timestamp,
    ) -> Result<Renewed> {
        let operation = &renewal.operation;
        let before = self.before(address, operation, false)?;
        let record = self.record(address.digest, &before);
        let gate = record.and_then(|record| record.gate.clone());
        let entity = gate
            .as_ref()
            .and_then(|gate| self.entity(&operation.scope, &gate.entity));
        let Decision {
            answer,
            change,
            entity,
        } = decide::renew(record, entity.as_ref(), renewal, now);
        // A lease that a reopening does not end must not be shorter then than its holder was promised.
        let known = self.kept.get(address.digest);
        let is_durable = known.is_some_and(|kept| kept.has_foreign_lease);
        self.apply(address, operation, &before, change, is_durable);
        if let (Some(gate), Some(record)) = (gate, entity) {
            self.apply_entity(&operation.scope, &gate.entity, record, is_durable);
        }
        Ok(answer)
    }

    fn try_operate(
        &mut self,
        directive: &Directive,
        address: Address<'_>,
        now: Timestamp,
    ) -> Result<Directed> {
        if let Order::Resolve(Verdict::Applied { outcome, .. }) = &directive.order {
            check_outcome(outcome, &self.options)?;
        }
        if let Some(note) = &directive.note {
            check_note(note)?;
        }
        let operation = &directive.operation;
        let before = self.before(address, operation, true)?;
        let record = self.record(address.digest, &before);
        let gate = record.and_then(|record| record.gate.clone());
        let entity = gate
            .as_ref()
            .and_then(|gate| self.entity(&operation.scope, &gate.entity));
        let Decision {
            answer,
            change,
            entity,
        } = decide::operate(record, entity.as_ref(), &directive.order, now);
        let audited = match (&directive.note, &answer) {
            (Some(note), Directed::Now(_)) => Some(audit(directive, note, record, &change, now)),
            (Some(_), Directed::Refused(_) | Directed::Failed(_)) | (None, _) => None,
        };
        let before = match (before, &change) {
            // The walk over the files takes a finished record for the only one of its key, unless an entry behind it
            // says otherwise.
            (before @ Before::Finished(..), Change::Put(after)) if after.expires_at().is_some() => {
                self.remove(address, &before);
                Before::Absent
            }
            (before, _) => before,
        };
        self.apply(address, operation, &before, change, true);
        if let (Some(gate), Some(record)) = (gate, entity) {
            self.apply_entity(&operation.scope, &gate.entity, record, true);
        }
        // Nothing ends the frame in between: either both the entry and the change are there, or neither is.
        if let Some(audited) = audited {
            self.append_audited(&audited);
        }
        Ok(answer)
    }

    /// Takes a record out of memory, if it is there.
    fn take_kept(
        &mut self,
        address: Address<'_>,
        operation: &Operation,
    ) -> Result<Option<Box<Kept>>> {
        let Some(kept) = self.kept.remove(address.digest) else {
            return Ok(None);
        };
        if kept.operation == *operation {
            return Ok(Some(kept));
        }
        self.kept.insert(address.digest, kept);
        Err(shared_digest())
    }

    pub(super) fn entity(&self, scope: &Scope, entity: &Key) -> Option<EntityRecord> {
        let key = (scope.clone(), entity.clone());
        self.entities
            .get(&key)
            .map(|entity| entity.value.record.clone())
    }

    pub(super) fn apply_entity(
        &mut self,
        scope: &Scope,
        entity: &Key,
        record: EntityRecord,
        is_durable: bool,
    ) {
        self.apply_entity_lent(scope, entity, record, (is_durable, None));
    }

    fn apply_entity_lent(
        &mut self,
        scope: &Scope,
        entity: &Key,
        record: EntityRecord,
        (is_durable, lent): (bool, Option<ClaimId>),
    ) {
        let key = (scope.clone(), entity.detached());
        let known = self.entities.get(&key);
        let of = |record: &EntityRecord| record.holder.map(|(claim_id, _)| claim_id);
        let has_foreign_lease = of(&record).is_some_and(|holder| {
            let is_known = |known: &Versioned<EntityState>| {
                known.value.has_foreign_lease && of(&known.value.record) == Some(holder)
            };
            lent == Some(holder) || known.is_some_and(is_known)
        });
        let stored = if is_durable {
            Some(self.append(Kind::Entity, |buffer| {
                entry::put_entity(buffer, scope, entity, &record, has_foreign_lease);
                &[]
            }))
        } else {
            known.and_then(|entity| entity.stored)
        };
        let value = EntityState {
            record,
            has_foreign_lease,
        };
        self.put_entity(key, Some(Versioned { value, stored }));
    }
}

/// Builds the audit entry for an order.
fn audit(
    directive: &Directive,
    note: &Note,
    before: Option<&Record>,
    change: &Change,
    now: Timestamp,
) -> Audited {
    let after = match change {
        Change::Keep => before,
        Change::Put(record) => Some(record),
        Change::Remove => None,
    };
    Audited {
        at: now,
        note: note.clone(),
        action: directive.order.action().into(),
        scope: Some(directive.operation.scope.clone()),
        key: Some(directive.operation.key.clone()),
        before: audit::standing(before),
        after: audit::standing(after),
    }
}

fn outcome_len(settlement: &Settlement) -> usize {
    match &settlement.step {
        Step::Complete {
            outcome: Outcome::Kept { bytes, .. },
            ..
        } => bytes.len(),
        Step::Complete { .. } | Step::Start { .. } | Step::Release { .. } | Step::Fail { .. } => 0,
    }
}
