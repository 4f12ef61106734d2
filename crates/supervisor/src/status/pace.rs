//! The pace at which gauges are sampled, and the time for which a value stands.

use std::time::Duration;

/// The pace at which something is counted beside the work: every so often, and more seldom where a count takes long.
///
/// Only counts that succeeded set the pace, and of the last two the quicker one: a call that failed, or waited once for
/// something else, says nothing about what a count costs.
#[derive(Debug)]
pub(crate) struct Pace {
    every: Duration,
    parts: u32,
    last: Option<Duration>,
}

/// The pause after a count, and the time after it for which its values stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) pause: Duration,
    pub(crate) stands: Duration,
}

impl Pace {
    /// Counts `every` so often, and so that it takes about one part of the time in `parts`, but at least once in
    /// [`LONGEST`].
    pub(crate) const fn new(every: Duration, parts: u32) -> Self {
        let last = None;
        Self { every, parts, last }
    }

    /// Returns what follows from a count that succeeded and took that long.
    pub(crate) fn after(&mut self, took: Duration) -> Rest {
        let last = self.last.replace(took).unwrap_or(took);
        let longest = LONGEST.max(self.every);
        let pause = (took.min(last) * self.parts).clamp(self.every, longest);
        let stands = (pause + took * 2).max(OLDEST.saturating_sub(took));
        Rest { pause, stands }
    }

    /// Returns the pause after a count that failed.
    pub(crate) const fn after_failure(&self) -> Duration {
        self.every
    }
}

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// The age to which values stand that are counted in time: contract, "no older than 15 s".
const OLDEST: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_counted_seldom_but_once_a_minute() {
        let secs = Duration::from_secs;
        let mut pace = Pace::new(secs(5), 20);
        let rest = pace.after(Duration::from_millis(1));
        assert_eq!(rest.pause, secs(5));
        assert!(rest.stands <= secs(15));
        // Once is an accident.
        assert_eq!(pace.after(secs(5)).pause, secs(5));
        let rest = pace.after(secs(1));
        assert_eq!((rest.pause, rest.stands), (secs(20), secs(22)));
        assert_eq!(pace.after_failure(), secs(5));
        pace.after(secs(30));
        assert_eq!(pace.after(secs(30)).pause, LONGEST);
    }
}
