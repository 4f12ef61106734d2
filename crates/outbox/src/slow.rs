//! Messages whose tries are not counted: each is tried ever less often, and behind the others, since a sink that takes its
//! time to refuse one keeps the whole batch waiting.

use std::collections::HashMap;
use std::time::Duration;

use semel_core::Backoff;
use semel_core::outbox::OutboxId;

/// The messages that were put off without a count, as far as they are remembered: of each, the tries in a row. What is
/// forgotten is tried again sooner, and no more than that.
#[derive(Debug, Default)]
pub(crate) struct Slow(HashMap<OutboxId, u32>);

impl Slow {
    /// Notes another try of a message; returns the shortest time until the next one.
    pub(crate) fn again(&mut self, id: OutboxId) -> Duration {
        if self.0.len() >= MOST_REMEMBERED && !self.0.contains_key(&id) {
            self.0.clear();
        }
        let tries = self.0.entry(id).or_default();
        *tries = tries.saturating_add(1);
        PAUSES.after(*tries)
    }

    /// Forgets messages that were published.
    pub(crate) fn forget(&mut self, ids: &[OutboxId]) {
        if !self.0.is_empty() {
            for id in ids {
                self.0.remove(id);
            }
        }
    }

    /// Tells whether the last try of a message was one of these.
    pub(crate) fn has(&self, id: OutboxId) -> bool {
        self.0.contains_key(&id)
    }
}

/// The pauses between tries that are not counted.
const PAUSES: Backoff = Backoff {
    first: Duration::from_secs(1),
    most: Duration::from_secs(60),
};
const MOST_REMEMBERED: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_up_to_a_minute_until_the_message_is_published() {
        let (id, other) = (OutboxId::from_u128(1), OutboxId::from_u128(2));
        let mut slow = Slow::default();
        let pauses = |slow: &mut Slow| (0..8).map(|_| slow.again(id).as_secs()).collect::<Vec<_>>();
        assert_eq!(pauses(&mut slow), [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(slow.has(id) && !slow.has(other));
        slow.forget(&[other, id]);
        assert!(!slow.has(id));
        assert_eq!(slow.again(id).as_secs(), 1);
    }

    #[test]
    fn it_remembers_so_many_and_no_more() {
        let mut slow = Slow::default();
        for id in 0..=MOST_REMEMBERED {
            slow.again(OutboxId::from_u128(id as u128));
        }
        assert_eq!(slow.0.len(), 1);
    }
}
