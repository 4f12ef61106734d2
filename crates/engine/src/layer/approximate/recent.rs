//! Who completed the latest operations: a completion that is repeated is told from one of a claim that was
//! superseded, of which the bits of the filter know nothing.

use std::collections::{BTreeMap, VecDeque};

use semel_core::{ClaimId, OpId};

/// The claims of the latest completions.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by: BTreeMap<OpId, ClaimId>,
    /// In the order of their completion; an operation may be in it twice.
    order: VecDeque<OpId>,
}

impl Recent {
    pub(super) fn note(&mut self, id: OpId, claim_id: ClaimId) {
        self.by.insert(id, claim_id);
        self.order.push_back(id);
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.by.remove(&oldest);
        }
    }

    /// Whether this claim is known to have completed the operation.
    pub(super) fn is_by(&self, id: &OpId, claim_id: ClaimId) -> bool {
        self.by.get(id) == Some(&claim_id)
    }
}

/// More than one worker reports while an answer is on its way.
const MOST: usize = 4_096;
