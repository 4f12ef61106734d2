//! The claims that a cache answered, for whoever tells of each of them.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use semel_core::ClaimId;

use crate::sync::Mutex;

/// Remembers which claims a cache answered until they are asked about; see [`Tiered::noting`](super::Tiered::noting).
#[derive(Debug, Default)]
pub struct CacheHits(Mutex<BTreeSet<ClaimId>>);

impl CacheHits {
    /// Notes claims, unless too many are remembered already that nobody asks about.
    pub(super) fn note(&self, claims: impl Iterator<Item = ClaimId>) {
        // A panic leaves nothing half done.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST.saturating_sub(known.len());
        known.extend(claims.take(room));
    }

    /// Tells whether the cache answered this claim, and forgets it.
    pub fn take(&self, claim: ClaimId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&claim)
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
        assert!(!hits.take(ClaimId::from_u128(MOST as u128 + 1)));
    }
}
