//! Settlements that the store has not accepted yet.

use std::sync::Arc;

use semel_core::{FencingToken, Settlement};

use super::in_hand::InHand;

/// Messages and the settlements of their claims. The settlements are in a list of their own, as the
/// store takes them.
#[derive(Debug, Default)]
pub(super) struct PendingSettlements {
    messages: Vec<(InHand, FencingToken)>,
    /// The settlements of the first messages, in one batch, which the store may have.
    reported: Arc<[Settlement]>,
    /// Those of the other messages, which are in no batch yet.
    added: Vec<Settlement>,
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
        self.added.push(settlement);
    }

    /// Adds what was reported and not answered.
    pub(super) fn put_back(&mut self, mut unanswered: Self) {
        if self.is_empty() {
            *self = unanswered;
            return;
        }
        let settlements = unanswered.report();
        for ((incoming, token), settlement) in unanswered.messages.into_iter().zip(&*settlements) {
            self.push(incoming, token, settlement.clone());
        }
    }

    /// Returns the settlements of all messages, to report and to report again: one batch, until another message is
    /// added.
    pub(super) fn report(&mut self) -> Arc<[Settlement]> {
        if !self.added.is_empty() {
            let added = std::mem::take(&mut self.added);
            self.reported = if self.reported.is_empty() {
                added.into()
            } else {
                self.reported.iter().cloned().chain(added).collect()
            };
        }
        Arc::clone(&self.reported)
    }

    /// Returns the messages, each with the token of its claim, and the settlements of all.
    pub(super) fn into_report(mut self) -> (Vec<(InHand, FencingToken)>, Arc<[Settlement]>) {
        let settlements = self.report();
        (self.messages, settlements)
    }
}
