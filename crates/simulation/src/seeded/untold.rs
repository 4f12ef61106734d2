//! Clients of the claim API that may have begun an unmarked effect, and said nothing: whoever claims the key next runs it
//! again, and that is no fault of the store. Once a client says that its effect has begun, nobody does.

use semel_core::{
    Admission, ClaimRequest, Clock, Result, Settlement, State, StateKind, Step, Store,
};
use semel_store_memory::MemoryStore;

use crate::seeded::kind::Kind;
use crate::seeded::life::Life;
use crate::seeded::payload::number_of;

impl Life {
    /// Returns, of each claim that is asked for, whether somebody holds the key who has not said that its effect begins.
    pub(crate) async fn unsaid(
        &self,
        store: &MemoryStore,
        batch: &[ClaimRequest],
    ) -> Result<Vec<bool>> {
        if self.world.kind != Kind::Claims {
            return Ok(Vec::new());
        }
        let operations = batch.iter().map(|it| it.operation.clone()).collect();
        let records = store.get(operations).await?.into_iter();
        let is_unsaid = |state: State| matches!(state, State::Claimed { .. });
        Ok(records
            .map(|record| record.is_some_and(|it| is_unsaid(it.state)))
            .collect())
    }

    /// Counts those that have lost their claim to another.
    pub(crate) fn counts_untold(
        &self,
        batch: &[ClaimRequest],
        unsaid: &[bool],
        answers: &[Admission],
    ) {
        let those = batch.iter().zip(unsaid).zip(answers);
        for ((request, _), answer) in those.filter(|((_, unsaid), _)| **unsaid) {
            let has_ended = match answer {
                Admission::Granted(claim) => claim.takeover,
                Admission::Parked { state, .. } => *state == StateKind::Dead,
                Admission::Replay { .. }
                | Admission::Busy { .. }
                | Admission::Conflict { .. }
                | Admission::Stale { .. }
                | Admission::TooOld
                | Admission::Failed(_) => false,
            };
            if has_ended {
                let number = number_of(&request.operation.key);
                *self.world.tally().untold.entry(number).or_default() += 1;
                self.world
                    .saw("taken over from a client that had said nothing");
            }
        }
    }

    /// Notes the hard case of a client that says that its effect has begun when its lease is over already.
    pub(crate) async fn looks_for_late_word(
        &self,
        store: &MemoryStore,
        batch: &[Settlement],
    ) -> Result<()> {
        let has_begun = |it: &&Settlement| {
            matches!(
                it.step,
                Step::Start {
                    has_begun: true,
                    ..
                }
            )
        };
        let now = self.world.store_clock.now();
        for settlement in batch.iter().filter(has_begun) {
            let records = store.get([settlement.operation.clone()].into()).await?;
            let is_late = records.into_iter().flatten().any(|record| {
                let is_over =
                    matches!(record.state, State::Claimed { lease_until } if lease_until <= now);
                is_over && record.claim_id == settlement.claim_id
            });
            if is_late {
                self.world.saw("begun, and said after the lease");
            }
        }
        Ok(())
    }
}
