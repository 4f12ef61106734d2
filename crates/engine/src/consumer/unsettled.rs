//! What has ended under its claim, or will not begin under it, for as long as the store has not taken that.

use std::sync::Arc;

use semel_core::{FencingToken, Result, Settled, Settlement, Store};

use super::desk::Desk;
use super::in_hand::InHand;
use super::stream::conclude;

/// Messages and what their claims report. The reports lie by themselves, as the store is given them.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    messages: Vec<(InHand, FencingToken)>,
    settlements: Arc<Vec<Settlement>>,
}

impl Unsettled {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Adds a message whose claim had this token.
    pub(super) fn push(&mut self, incoming: InHand, token: FencingToken, settlement: Settlement) {
        self.messages.push((incoming, token));
        // Shared only while the store is told, and nothing is added then.
        Arc::make_mut(&mut self.settlements).push(settlement);
    }

    /// What is to be reported.
    pub(super) const fn settlements(&self) -> &Arc<Vec<Settlement>> {
        &self.settlements
    }

    /// Deals with the answers, one for each; what has none goes on waiting.
    pub(super) fn conclude<S: Store + Clone>(
        self,
        desk: &mut Desk<S>,
        answers: impl IntoIterator<Item = Option<Settled>>,
    ) -> Result<()> {
        let settlements =
            Arc::try_unwrap(self.settlements).unwrap_or_else(|shared| shared.to_vec());
        let reported = self.messages.into_iter().zip(settlements);
        for (((incoming, token), settlement), answer) in reported.zip(answers) {
            match answer {
                Some(settled) => conclude(desk, incoming, token, &settlement.step, settled)?,
                None if semel_core::planted("U04") => desk.completed(&incoming, false),
                None => desk.away.unsettled.push(incoming, token, settlement),
            }
        }
        Ok(())
    }
}
