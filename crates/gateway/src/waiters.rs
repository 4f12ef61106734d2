//! The requests under each key at this moment, of which a bounded number may wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::OpId;

/// The requests under each key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Arc<Mutex<HashMap<OpId, usize>>>);

/// A place among the requests under a key; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    waiters: Waiters,
    id: OpId,
}

impl Waiters {
    /// Takes a place, if there is one: for the request that runs, and for a thousand that wait.
    pub(crate) fn enter(&self, id: OpId) -> Option<Place> {
        let mut waiters = self.lock();
        let count = waiters.entry(id).or_default();
        if *count > MOST && !semel_core::planted("H12") {
            return None;
        }
        *count += 1;
        Some(Place {
            waiters: self.clone(),
            id,
        })
    }

    /// Locks the counts. Nothing that runs under the lock can leave them half changed.
    fn lock(&self) -> MutexGuard<'_, HashMap<OpId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiters = self.waiters.lock();
        if let Some(count) = waiters.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                waiters.remove(&self.id);
            }
        }
    }
}

/// The most requests that wait for one key.
const MOST: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_wait_for_a_key_and_places_are_given_back() {
        let waiters = Waiters::default();
        let id = |number| OpId::from_bytes([number; 32]);
        let mut places: Vec<_> = (0..2_000).filter_map(|_| waiters.enter(id(1))).collect();
        assert_eq!(places.len(), 1_001);
        assert!(waiters.enter(id(2)).is_some(), "another key has places");
        places.pop();
        let again = waiters.enter(id(1));
        assert!(again.is_some() && waiters.enter(id(1)).is_none());
        drop((places, again));
        assert!(waiters.lock().is_empty());
    }
}
