//! The claims that a cache answered, for whoever tells of each of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use semel_core::ClaimId;

use crate::sync::Mutex;

/// Remembers which claims a cache answered until they are asked about, which most never are; see [`Tiered::noting`](super::Tiered::noting).
#[derive(Debug, Default)]
pub struct CacheHits(Mutex<Known>);

/// Claims, and the order in which they were noted.
#[derive(Debug, Default)]
struct Known {
    claims: BTreeMap<ClaimId, u64>,
    order: BTreeSet<(u64, ClaimId)>,
    next: u64,
}

impl CacheHits {
    /// Notes claims. If nobody asks about too many of them, the oldest are forgotten.
    pub(super) fn note(&self, claims: impl Iterator<Item = ClaimId>) {
        // A panic leaves nothing half done that matters: a claim without its place is forgotten once it is asked about.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for claim in claims {
            let place = known.next;
            known.next += 1;
            if let Some(before) = known.claims.insert(claim, place) {
                known.order.remove(&(before, claim));
            }
            known.order.insert((place, claim));
            if known.order.len() > MOST
                && let Some((_, oldest)) = known.order.pop_first()
            {
                known.claims.remove(&oldest);
            }
        }
    }

    /// Tells whether the cache answered this claim, and forgets it.
    pub fn take(&self, claim: ClaimId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = known.claims.remove(&claim) else {
            return false;
        };
        known.order.remove(&(place, claim));
        true
    }
}

/// The most claims that are remembered: more than messages are in hand.
const MOST: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_told_once_and_there_are_not_too_many() {
        let hits = CacheHits::default();
        hits.note((0..MOST as u128 + 5).map(ClaimId::from_u128));
        assert!(hits.take(ClaimId::from_u128(7)));
        assert!(!hits.take(ClaimId::from_u128(7)));
        assert!(!hits.take(ClaimId::from_u128(4)), "the oldest are dropped");
        assert!(
            hits.take(ClaimId::from_u128(MOST as u128 + 4)),
            "the newest"
        );
    }
}
