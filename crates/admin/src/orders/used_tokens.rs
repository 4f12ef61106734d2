//! The tokens of orders that were carried out: each is good for one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_core::Timestamp;

use super::token::{LIFETIME, SKEW};

/// Remembers tokens for as long as they would be good. What an order did can have been undone since, so that its plan holds
/// once more, and yet nobody asked for it twice.
#[derive(Debug, Default)]
pub(super) struct UsedTokens(Mutex<BTreeMap<[u8; 32], Timestamp>>);

impl UsedTokens {
    /// Tells whether the order of a token was carried out.
    pub(super) fn has(&self, token: &str) -> bool {
        self.lock().contains_key(&hash(token))
    }

    /// Remembers that the order of a token was carried out, and forgets those that are past their time.
    pub(super) fn add(&self, token: &str, now: Timestamp) {
        let mut used = self.lock();
        used.retain(|_, at| at.plus(LIFETIME).plus(SKEW) >= now);
        used.insert(hash(token), now);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_token_is_remembered_for_as_long_as_it_is_good() {
        let (used, first) = (UsedTokens::default(), Timestamp::from_millis(1_000_000));
        used.add("a", first);
        let last = first.plus(LIFETIME).plus(SKEW);
        used.add("b", last);
        assert!(used.has("a") && used.has("b") && !used.has("c"));
        used.add("c", last.plus(Duration::from_millis(1)));
        assert!(!used.has("a") && used.has("b") && used.has("c"));
    }
}
