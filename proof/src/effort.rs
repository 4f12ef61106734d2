//! The effort of a tier: what a merge affords, a number of seeds, or a length of time.

use std::time::Duration;

use crate::stopwatch::Stopwatch;

/// The effort that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// The effort of every merge; each tier knows its own.
    Merge,
    /// This many seeds, or other units that the tier counts in.
    Seeds(u64),
    /// As many as fit into this many minutes.
    Minutes(u64),
}

/// The effort of a tier, and its first seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    /// The amount.
    pub(crate) size: Size,
    /// The first seed. The same seed plays the same story.
    pub(crate) seed: u64,
    /// The one part to try of a tier that has parts, or all.
    pub(crate) only: Option<&'static str>,
}

impl Effort {
    /// Returns whether this part of the tier is to be tried.
    pub(crate) fn has(self, part: &str) -> bool {
        self.only.is_none_or(|only| only == part)
    }

    /// Ends a loop over tries: by number, `merge` of them if nothing was asked for, or by time.
    pub(crate) fn budget(self, merge: u64) -> Budget {
        self.share(merge, 1)
    }

    /// The same for one of `parts` loops that run one after the other, each of this many tries: they share the
    /// time.
    pub(crate) fn share(self, merge: u64, parts: usize) -> Budget {
        let parts = parts.max(1) as u64;
        let (most, time) = match self.size {
            Size::Merge => (merge, None),
            Size::Seeds(seeds) => (seeds, None),
            Size::Minutes(minutes) => {
                let time = Duration::from_millis(minutes * 60_000 / parts);
                (u64::MAX, Some(time))
            }
        };
        Budget {
            most,
            time,
            since: Stopwatch::start(),
        }
    }
}

/// The effort that is left.
#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    time: Option<Duration>,
    since: Stopwatch,
}

impl Budget {
    /// The most tries, whatever the time.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The time that is left, if time is what ends it.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.time
            .map(|time| time.saturating_sub(self.since.elapsed()))
    }

    /// Returns whether one more may begin after `tried`; one always may.
    pub(crate) fn allows(&self, tried: u64) -> bool {
        let in_time = self.time.is_none_or(|time| self.since.elapsed() < time);
        tried == 0 || (tried < self.most && in_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_by_number_or_by_time() {
        let effort = |size| Effort {
            size,
            seed: 1,
            only: None,
        };
        let merge = effort(Size::Merge).budget(3);
        assert!(merge.allows(2) && !merge.allows(3));
        let seeds = effort(Size::Seeds(5)).budget(3);
        assert!(seeds.allows(4) && !seeds.allows(5));
        let none = effort(Size::Minutes(0)).budget(3);
        assert!(none.allows(0) && !none.allows(1));
    }

    #[test]
    fn what_runs_one_after_the_other_shares_the_time_and_not_the_number() {
        let effort = |size| Effort {
            size,
            seed: 1,
            only: None,
        };
        let share = effort(Size::Minutes(3)).share(3, 4);
        assert!(share.left() <= Some(Duration::from_secs(45)));
        assert!(share.left() > Some(Duration::from_secs(30)));
        assert_eq!(effort(Size::Seeds(8)).share(3, 4).most(), 8);
        assert_eq!(effort(Size::Merge).share(3, 4).most(), 3);
    }
}
