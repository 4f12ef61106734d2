//! The store's answers, noted where and when it decided: the claims that each life has, and the operations of
//! which it learned that they came to their end. A claim whose answer is lost still counts, and a record may
//! leave its window between an answer and its use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

use semel_core::{Admission, Claim, ClaimId, ClaimRequest, Settled, Settlement, StateKind};

use crate::seeded::kind::Kind;
use crate::seeded::life::Life;
use crate::seeded::lock::lock;
use crate::seeded::payload::number_of;
use crate::seeded::world::Owner;

/// The store's answers to one life.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Claims that it was granted and that have not ended, whether it learned of them or not.
    claims: BTreeMap<usize, ClaimId>,
    /// Operations whose fate is recorded, as the store answered.
    settled: BTreeSet<usize>,
    /// Claims whose answer was lost and that it has not asked for again: their operations, and whether it has
    /// asked for that operation under another id since.
    unheard: BTreeMap<ClaimId, (usize, bool)>,
}

impl Life {
    /// Notes the store's decisions on claims.
    pub(crate) fn was_admitted(self: &Arc<Self>, batch: &[ClaimRequest], answers: &[Admission]) {
        for (request, answer) in batch.iter().zip(answers) {
            let number = number_of(&request.operation.key);
            match answer {
                Admission::Granted(claim) => {
                    let mut told = lock(&self.answers);
                    told.claims.insert(number, claim.claim_id);
                    told.settled.remove(&number);
                    drop(told);
                    if self.is_held_up() {
                        self.world.touch(&[number]);
                    }
                    self.owns(number, claim);
                }
                Admission::Replay { .. } | Admission::Parked { .. } => {
                    lock(&self.answers).settled.insert(number);
                }
                // An earlier answer no longer counts.
                Admission::Busy { .. } | Admission::TooOld => {
                    lock(&self.answers).settled.remove(&number);
                }
                Admission::Conflict { .. } | Admission::Stale { .. } | Admission::Failed(_) => {}
            }
        }
    }

    /// Notes that it asks for claims: again, if it knows their ids.
    pub(crate) fn asks_for(&self, batch: &[ClaimRequest]) {
        let mut told = lock(&self.answers);
        for request in batch {
            told.unheard.remove(&request.claim_id);
        }
        for request in batch {
            let number = number_of(&request.operation.key);
            for (_, is_passed_over) in told.unheard.values_mut().filter(|it| it.0 == number) {
                *is_passed_over = true;
            }
        }
    }

    /// Notes decisions whose answer was lost.
    pub(crate) fn was_not_heard(&self, batch: &[ClaimRequest], answers: &[Admission]) {
        let mut told = lock(&self.answers);
        for (request, answer) in batch.iter().zip(answers) {
            if let Admission::Granted(_) = answer {
                let number = number_of(&request.operation.key);
                told.unheard.insert(request.claim_id, (number, false));
            }
        }
    }

    /// Checks that a life that lived to the end of all faults has learned of every claim that it was granted. A
    /// claimant that asks under another id waits for a lease of its own (CLM-4); nothing happens twice because
    /// of that, so no other check would find it.
    pub(crate) fn heard_of_its_claims(&self) {
        // Callers go away, and leave the claims that they may have been granted.
        if self.world.kind.is_direct() {
            return;
        }
        let told = lock(&self.answers);
        let passed_over = told.unheard.values().filter(|it| it.1);
        for (number, _) in passed_over {
            self.world.violation(format!(
                "{self} asked for k{number} under another id: its claim is there, and it waited for itself"
            ));
        }
    }

    /// Notes the store's decisions on reports.
    pub(crate) fn was_settled(&self, batch: &[Settlement], answers: &[Settled]) {
        let mut told = lock(&self.answers);
        for (settlement, answer) in batch.iter().zip(answers) {
            let number = number_of(&settlement.operation.key);
            let has_ended = match answer {
                Settled::Now(StateKind::Completed | StateKind::Dead | StateKind::InDoubt) => {
                    told.settled.insert(number);
                    true
                }
                Settled::Now(StateKind::Released) => {
                    told.settled.remove(&number);
                    true
                }
                Settled::Fenced { .. } => true,
                Settled::Now(StateKind::Claimed | StateKind::Started) | Settled::Failed(_) => false,
            };
            if has_ended && told.claims.get(&number) == Some(&settlement.claim_id) {
                told.claims.remove(&number);
            }
        }
    }

    /// Returns whether the store's last answer was that the operation's fate is on record.
    pub(crate) fn was_told_of_the_end(&self, operation: usize) -> bool {
        lock(&self.answers).settled.contains(&operation)
    }

    /// Operations of which it has a message or a claim. The broker may have delivered the message to another
    /// worker long ago.
    pub(crate) fn in_hand(&self) -> BTreeSet<usize> {
        let messages = self.world.queue().in_hand(self.worker);
        let claims = lock(&self.answers).claims.keys().copied().collect();
        messages
            .into_iter()
            .collect::<BTreeSet<_>>()
            .union(&claims)
            .copied()
            .collect()
    }

    /// Notes the new owner of an operation. A former one that lives and was not disturbed keeps its lease.
    fn owns(self: &Arc<Self>, number: usize, claim: &Claim) {
        let world = &self.world;
        // Clients need not renew, and one that fails leaves its claim behind though its process is well.
        if claim.resumed || world.kind == Kind::Claims {
            return;
        }
        let owner: Weak<Self> = Arc::downgrade(self);
        let new: (Weak<dyn Owner>, _) = (owner, world.now());
        let former = world.tally().owners.insert(number, new);
        let Some((former, since)) = former.filter(|_| claim.takeover) else {
            return;
        };
        if let Some(former) = former.upgrade()
            && former.is_well_since(since)
        {
            world.violation(format!(
                "{self} took k{number} over from {former}, which was well"
            ));
        }
    }
}
