//! A pipeline's policy for a store that does not answer.

use std::sync::Arc;
use std::time::Duration;

use super::{ANSWER_WITHIN, Breaker, Settings};
use crate::pipeline::Fail;
use crate::surroundings::Surroundings;

/// A pipeline's policy for a store that does not answer.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The breaker of the store, shared by all its callers.
    pub breaker: Arc<Breaker>,
    /// The rule for messages meanwhile.
    pub fail: Fail,
    /// The longest wait for a call before it counts as unanswered; 30 seconds. A transaction with
    /// the user's own statements gets ten times as long. The wait is given up, not the call: it may
    /// still be carried out, and it is repeated. So a call that sets a mark or gives an order is
    /// waited for until it has an end, since carried out late it would undo later calls.
    pub answer_within: Duration,
}

impl Policy {
    /// Returns a policy that waits for the store, with a breaker of its own.
    pub fn closed(surroundings: &Surroundings) -> Self {
        let (clock, entropy) = (&surroundings.clock, &surroundings.entropy);
        let breaker = Breaker::new(Settings::default(), Arc::clone(clock), Arc::clone(entropy));
        Self::sharing(&Arc::new(breaker), Fail::Closed)
    }

    /// Returns a policy that does as `fail` says, with the breaker that all callers of the store
    /// share.
    pub fn sharing(breaker: &Arc<Breaker>, fail: Fail) -> Self {
        Self {
            breaker: Arc::clone(breaker),
            fail,
            answer_within: ANSWER_WITHIN,
        }
    }
}
