//! Slows down who tries one token after the other.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The pace of wrong tokens, of all clients together: five at once, and then five a second. A right token waits for
/// none of them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The time at which all wrong tokens so far are made up for.
    even_at: Mutex<Duration>,
}

impl Pace {
    /// Returns how long a wrong token waits for its answer; nothing if too many wait already.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        let mut even_at = self.even_at.lock().unwrap_or_else(PoisonError::into_inner);
        let then = (*even_at).max(now) + COST;
        let wait = then.saturating_sub(now + AT_ONCE);
        if wait > LONGEST {
            return None;
        }
        *even_at = then;
        Some(wait)
    }
}

/// The time that makes up for a wrong token.
const COST: Duration = Duration::from_millis(200);
/// So much need not be made up for at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_are_answered_at_once_and_then_five_a_second() {
        let pace = Pace::default();
        let now = Duration::from_secs(100);
        let waits: Vec<_> = (0..20).map(|_| pace.wait(now)).collect();
        assert_eq!(waits[..5], [Some(Duration::ZERO); 5]);
        assert_eq!(waits[5], Some(Duration::from_millis(200)));
        assert_eq!(waits[14], Some(Duration::from_secs(2)));
        assert_eq!(waits[15..], [None; 5], "only so many wait");
        let later = now + Duration::from_secs(10);
        assert_eq!(pace.wait(later), Some(Duration::ZERO), "it is made up for");
    }
}
