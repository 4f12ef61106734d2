//! Claiming and completing in one step, for work that is done when the answer arrives.

use semel_core::{
    Admission, Change, Claim, ClaimRequest, Decision, Outcome, Result, Settled, Settlement, Step,
    Timestamp, decide,
};

use super::Ledger;
use crate::digest::{Address, Addresses};
use crate::limits::{check_key, check_transport};

impl Ledger {
    /// Decides each request and completes the granted ones. No claim is written or kept.
    pub(crate) fn admit(
        &mut self,
        batch: &[ClaimRequest],
        addresses: &Addresses,
        now: Timestamp,
    ) -> Vec<Admission> {
        self.log.want_recent();
        let requests = batch.iter().enumerate();
        let answers = requests
            .map(|(number, request)| {
                self.read_ahead(addresses, number);
                self.try_admit(request, addresses.get(number), now)
                    .unwrap_or_else(Admission::Failed)
            })
            .collect();
        self.forget_readahead();
        answers
    }

    fn try_admit(
        &mut self,
        request: &ClaimRequest,
        address: Address<'_>,
        now: Timestamp,
    ) -> Result<Admission> {
        let operation = &request.operation;
        check_key(&operation.key, "key")?;
        check_transport(request.transport.as_ref())?;
        let known = match &request.gate {
            Some(gate) => {
                check_key(&gate.entity, "entity")?;
                self.entity(&operation.scope, &gate.entity)
            }
            None => None,
        };
        let before = self.before(address, operation, request.wants_outcome)?;
        let record = self.record(address.digest, &before);
        let Decision {
            answer,
            change,
            mut entity,
        } = decide::claim(record, known.as_ref(), request, now, self.next_token());
        let Admission::Granted(claim) = answer else {
            self.apply(address, operation, &before, change, true);
            self.give_back(before);
            return Ok(answer);
        };
        let claimed = match &change {
            Change::Put(record) => Some(record),
            // Granted before, and the answer was lost.
            Change::Keep | Change::Remove => record,
        };
        let completion = Settlement {
            operation: claim.operation,
            claim_id: claim.claim_id,
            step: Step::Complete {
                outcome: Outcome::empty(),
                window: request.window,
            },
        };
        let gate = claimed.and_then(|record| record.gate.clone());
        let known = match &gate {
            Some(gate) if entity.is_none() => self.entity(&operation.scope, &gate.entity),
            Some(_) | None => entity.take(),
        };
        let completed = decide::settle(claimed, known.as_ref(), &completion, now);
        match completed.answer {
            Settled::Now(_) => {}
            Settled::Fenced { .. } => return Err(not_its_own()),
            Settled::Failed(error) => return Err(error),
        }
        let operation = completion.operation;
        let claim = Claim { operation, ..claim };
        let operation = &claim.operation;
        self.token = self.token.max(claim.token.get());
        self.apply(address, operation, &before, completed.change, true);
        if let (Some(gate), Some(record)) = (gate, completed.entity) {
            self.apply_entity(&operation.scope, &gate.entity, record, true);
        }
        self.give_back(before);
        Ok(Admission::Granted(claim))
    }
}

/// Error for a granted claim that is fenced when it is settled by its own id, which cannot happen.
fn not_its_own() -> semel_core::Error {
    let message = "what was granted a moment ago is somebody else's";
    semel_core::Error::new(semel_core::ErrorKind::Internal, message).not_applied()
}
