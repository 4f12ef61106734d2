//! Attempts without a claim, while the store is away and the pipeline fails open.

use std::sync::Arc;

use semel_core::Store;

use super::super::run_state::RunState;
use super::Attempts;
use crate::consumer::in_hand::InHand;
use crate::effect::Effect;

impl Attempts {
    /// Runs ready messages without a claim, as far as there is room, while the store is away and
    /// the pipeline fails open.
    pub(super) fn run_unprotected<S: Store + Clone, E: Effect>(
        &mut self,
        run: &mut RunState<S>,
        effect: &Arc<E>,
    ) {
        while run.store.is_away()
            && !run.outstanding.is_stopping()
            && self.free(run) > 0
            && let Some(incoming) = run.take_ready(1).pop()
        {
            self.begin_unprotected(run, effect, incoming);
        }
    }

    pub(super) fn begin_unprotected<S: Store + Clone, E: Effect>(
        &mut self,
        run: &mut RunState<S>,
        effect: &Arc<E>,
        incoming: InHand,
    ) {
        if let Some((incoming, claim)) = run.begin_unprotected(incoming) {
            self.spawn(incoming, claim, false, effect, false);
        }
    }
}
