//! What the store answered, noted where and when it decided: who has which claim, and of what each life was told
//! that it came to its end. A claim whose answer is lost is one all the same, and a record may leave its window
//! between an answer and whatever is done with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use semel_core::{Admission, Claim, ClaimId, ClaimRequest, Settled, Settlement, StateKind};

use crate::seeded::life::Life;
use crate::seeded::world::{lock, number_of};

/// What the store told one life.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Claims that it was granted and that have not ended, whether it heard of them or not.
    claims: BTreeMap<usize, ClaimId>,
    /// Operations whose fate the store said it carries.
    settled: BTreeSet<usize>,
}

impl Life {
    /// The store decided about claims.
    pub(crate) fn was_admitted(self: &Arc<Self>, batch: &[ClaimRequest], answers: &[Admission]) {
        for (request, answer) in batch.iter().zip(answers) {
            let number = number_of(&request.operation.key);
            match answer {
                Admission::Granted(claim) => {
                    let mut told = lock(&self.answers);
                    told.claims.insert(number, claim.claim_id);
                    told.settled.remove(&number);
                    drop(told);
                    self.owns(number, claim);
                }
                Admission::Replay { .. } | Admission::Parked { .. } => {
                    lock(&self.answers).settled.insert(number);
                }
                // What it was told before is over.
                Admission::Busy { .. } | Admission::TooOld => {
                    lock(&self.answers).settled.remove(&number);
                }
                Admission::Conflict { .. } | Admission::Stale { .. } | Admission::Failed(_) => {}
            }
        }
    }

    /// The store decided about reports.
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

    /// Whether the store told it last that the operation's fate is on record.
    pub(crate) fn was_told_of_the_end(&self, operation: usize) -> bool {
        lock(&self.answers).settled.contains(&operation)
    }

    /// Operations of which it has a message or a claim. The broker may have handed the message on long ago.
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

    /// An operation has a new owner. A former one that lives and was left alone keeps its lease.
    fn owns(self: &Arc<Self>, number: usize, claim: &Claim) {
        if claim.resumed {
            return;
        }
        let world = &self.world;
        let new = (Arc::downgrade(self), world.now());
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
