//! Settlements that the store has not accepted yet.

use std::sync::Arc;

use semel_core::{FencingToken, Settlement};

use super::in_hand::InHand;

/// Messages and the settlements of their claims. The settlements are in a list of their own, as the
/// store takes them.
#[derive(Debug, Default)]
pub(super) struct PendingSettlements {
    messages: Vec<(InHand, FencingToken)>,
    settlements: Arc<Vec<Settlement>>,
}

impl PendingSettlements {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Adds a message whose claim had this token.
    pub(super) fn push(&mut self, incoming: InHand, token: FencingToken, settlement: Settlement) {
        self.messages.push((incoming, token));
        // Shared only while the store is asked, and nothing is added then.
        Arc::make_mut(&mut self.settlements).push(settlement);
    }

    /// Returns the settlements to report.
    pub(super) const fn settlements(&self) -> &Arc<Vec<Settlement>> {
        &self.settlements
    }

    /// Returns all of them: message, token of its claim, and settlement.
    pub(super) fn into_reports(self) -> impl Iterator<Item = (InHand, FencingToken, Settlement)> {
        let settlements =
            Arc::try_unwrap(self.settlements).unwrap_or_else(|shared| shared.to_vec());
        let reports = self.messages.into_iter().zip(settlements);
        reports.map(|((incoming, token), settlement)| (incoming, token, settlement))
    }
}
