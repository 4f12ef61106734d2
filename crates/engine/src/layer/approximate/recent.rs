//! The claims of the latest completions: they tell a repeated completion from one of a superseded claim,
//! which the bits of the filter cannot.

use std::collections::{BTreeMap, VecDeque};

use semel_core::{ClaimId, OpId};

/// The claims of the latest completions.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by: BTreeMap<OpId, ClaimId>,
    /// Operations in the order of their completion; one may be listed twice.
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

    /// Tells whether this claim is known to have completed the operation.
    pub(super) fn is_by(&self, id: &OpId, claim_id: ClaimId) -> bool {
        self.by.get(id) == Some(&claim_id)
    }
}

/// More completions than workers report while an answer is on its way.
const MOST: usize = 4_096;
