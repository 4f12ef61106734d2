//! Settlements that the store has not taken yet.

use std::sync::Arc;

use semel_core::{FencingToken, Settlement};

use super::in_hand::InHand;

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

    /// All of them: a message, the token of its claim, and what that reports.
    pub(super) fn into_reports(self) -> impl Iterator<Item = (InHand, FencingToken, Settlement)> {
        let settlements =
            Arc::try_unwrap(self.settlements).unwrap_or_else(|shared| shared.to_vec());
        let reports = self.messages.into_iter().zip(settlements);
        reports.map(|((incoming, token), settlement)| (incoming, token, settlement))
    }
}
