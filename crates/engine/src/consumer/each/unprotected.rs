//! Attempts without a claim, while the store is away and the pipeline fails open.

use std::sync::Arc;

use semel_core::Store;

use super::super::desk::Desk;
use super::Attempts;
use crate::consumer::in_hand::InHand;
use crate::effect::Effect;

impl Attempts {
    /// Runs ready messages without a claim, as far as there is room, while the store is away and
    /// the pipeline fails open.
    pub(super) fn run_unprotected<S: Store + Clone, E: Effect>(
        &mut self,
        desk: &mut Desk<S>,
        effect: &Arc<E>,
    ) {
        while desk.store.is_away()
            && !desk.outstanding.is_stopping()
            && self.free(desk) > 0
            && let Some(incoming) = desk.take_ready(1).pop()
        {
            self.begin_unprotected(desk, effect, incoming);
        }
    }

    pub(super) fn begin_unprotected<S: Store + Clone, E: Effect>(
        &mut self,
        desk: &mut Desk<S>,
        effect: &Arc<E>,
        incoming: InHand,
    ) {
        if let Some((incoming, claim)) = desk.begin_unprotected(incoming) {
            let clock = &desk.context.surroundings.clock;
            self.spawn(incoming, claim, false, (effect, clock), false);
        }
    }
}
