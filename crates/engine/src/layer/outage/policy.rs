//! How one pipeline goes about a store that does not answer.

use std::sync::Arc;
use std::time::Duration;

use super::{ANSWER_WITHIN, Breaker, Settings};
use crate::pipeline::Fail;
use crate::surroundings::Surroundings;

/// How a pipeline goes about a store that does not answer.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The breaker of the store, shared by all that call it.
    pub breaker: Arc<Breaker>,
    /// What becomes of messages meanwhile.
    pub fail: Fail,
    /// How long a call is waited for before it counts as unanswered; 30 seconds. A transaction with
    /// the users' own statements gets ten times as long. What is given up is the wait: the call may
    /// still be carried out, and is asked for again. So a call that sets a mark or gives an order is
    /// waited for until it has an end, since carried out late it would undo what came after it.
    pub answer_within: Duration,
}

impl Policy {
    /// Waits for the store, with a breaker of its own.
    pub fn closed(surroundings: &Surroundings) -> Self {
        let (clock, entropy) = (&surroundings.clock, &surroundings.entropy);
        let breaker = Breaker::new(Settings::default(), Arc::clone(clock), Arc::clone(entropy));
        Self::sharing(&Arc::new(breaker), Fail::Closed)
    }

    /// Does as `fail` says, with the breaker of everybody else who calls the store.
    pub fn sharing(breaker: &Arc<Breaker>, fail: Fail) -> Self {
        Self {
            breaker: Arc::clone(breaker),
            fail,
            answer_within: ANSWER_WITHIN,
        }
    }
}
