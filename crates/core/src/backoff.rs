//! The pause between one attempt and the next. The caller adds the jitter.

use std::time::Duration;

/// Backoff that doubles from `first` up to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Before the second attempt.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
}

impl Backoff {
    /// The wait after the `failed`-th failed attempt, counted from 1.
    pub fn after(self, failed: u32) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        self.first.saturating_mul(1 << doublings).min(self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backoff_doubles_from_its_first_pause_to_its_longest() {
        let backoff = Backoff {
            first: Duration::from_millis(200),
            most: Duration::from_secs(1),
        };
        let pauses = [0, 1, 2, 3, 4, 1_000].map(|failed| backoff.after(failed).as_millis());
        assert_eq!(pauses, [200, 200, 400, 800, 1_000, 1_000]);
    }
}
