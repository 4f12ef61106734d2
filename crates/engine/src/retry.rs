//! Retries of calls that failed: the decision whether to repeat one, and the pauses between the tries.

use std::time::Duration;

use semel_core::{Advice, Backoff, Entropy, Error};

/// The pauses between the tries of a store call.
pub(crate) const STORE: Backoff = Backoff {
    first: Duration::from_millis(20),
    most: Duration::from_secs(5),
};

/// The pauses between the tries of a broker that dead letters go to.
pub(crate) const BROKER: Backoff = Backoff {
    first: Duration::from_millis(200),
    most: Duration::from_secs(5),
};

/// The pauses between the tries of one call, each longer than the one before.
#[derive(Debug)]
pub(crate) struct Pauses {
    backoff: Backoff,
    failed: u32,
}

impl Pauses {
    /// Returns pauses that begin with the shortest.
    pub(crate) const fn new(backoff: Backoff) -> Self {
        Self { backoff, failed: 0 }
    }

    /// Returns the pause after another failure, without jitter.
    pub(crate) fn longer(&mut self) -> Duration {
        self.failed = self.failed.saturating_add(1);
        self.backoff.after(self.failed)
    }
}

/// Tells whether no repetition can mend this error.
pub(crate) fn is_final(error: &Error) -> bool {
    match error.advice() {
        Advice::Fix | Advice::Stop | Advice::Alarm => true,
        Advice::Retry { .. } | Advice::LookUpFirst => false,
    }
}

/// Returns the time for which the store asks to be left alone.
pub(crate) fn hint(error: &Error) -> Duration {
    match error.advice() {
        Advice::Retry { after } => after,
        Advice::Fix | Advice::LookUpFirst | Advice::Stop | Advice::Alarm => Duration::ZERO,
    }
}

/// Returns `wait` and up to a quarter more by chance, so that waiting callers do not come back all at
/// once.
pub(crate) fn jittered(entropy: &dyn Entropy, wait: Duration) -> Duration {
    let mut chance = [0];
    entropy.fill(&mut chance);
    spread(wait, chance[0])
}

/// Does the same with a byte of chance that was drawn before.
pub(crate) fn spread(wait: Duration, chance: u8) -> Duration {
    wait.saturating_add(wait / 1024 * u32::from(chance))
}

#[cfg(test)]
mod tests {
    use semel_core::ErrorKind;

    use super::*;

    /// Entropy that always gives the same byte.
    struct Loaded(u8);

    impl Entropy for Loaded {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn pauses_double_from_the_first_to_the_longest_and_begin_again_with_the_next_call() {
        let mut pauses = Pauses::new(STORE);
        let millis: [_; 10] = std::array::from_fn(|_| pauses.longer().as_millis());
        assert_eq!(
            millis,
            [20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_000, 5_000]
        );
        pauses.failed = u32::MAX;
        assert_eq!(pauses.longer(), STORE.most);
        assert_eq!(Pauses::new(BROKER).longer(), BROKER.first);
    }

    #[test]
    fn jitter_adds_up_to_a_quarter_and_overflows_never() {
        let wait = Duration::from_millis(1_024);
        let waits = [0, 128, 255].map(|byte| jittered(&Loaded(byte), wait).as_millis());
        assert_eq!(waits, [1_024, 1_152, 1_279]);
        assert_eq!(jittered(&Loaded(255), Duration::ZERO), Duration::ZERO);
        assert_eq!(jittered(&Loaded(255), Duration::MAX), Duration::MAX);
    }

    #[test]
    fn what_a_store_may_answer_otherwise_next_time_is_not_final() {
        let of = |kind| Error::new(kind, "no");
        for kind in [
            ErrorKind::Unavailable,
            ErrorKind::Timeout,
            ErrorKind::Throttled,
        ] {
            assert!(!is_final(&of(kind)), "{kind:?}");
        }
        for kind in [
            ErrorKind::InvalidInput,
            ErrorKind::InvalidConfig,
            ErrorKind::Unsupported,
            ErrorKind::Poisoned,
            ErrorKind::Corrupt,
        ] {
            assert!(is_final(&of(kind)), "{kind:?}");
            assert_eq!(hint(&of(kind)), Duration::ZERO);
        }
    }

    #[test]
    fn a_store_is_left_alone_for_as_long_as_it_wishes() {
        let wish = Duration::from_secs(3);
        let throttled = Error::new(ErrorKind::Throttled, "no").retry_after(wish);
        assert_eq!(hint(&throttled), wish);
    }
}
