//! The pace at which gauges are sampled, and the time for which a value is shown.

use std::time::Duration;

use tokio::time::Instant;

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

/// A value that was counted. It is shown for as long as it is no older than [`OLDEST`], from when its count began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<T> {
    value: T,
    until: Instant,
}

impl Pace {
    /// Counts `every` so often, and so that it takes about one part of the time in `parts`, but at least once in
    /// [`LONGEST`]. What takes no more than [`BRIEF`] is counted so often that its values follow each other without a
    /// gap, however many parts that is.
    pub(crate) const fn new(every: Duration, parts: u32) -> Self {
        let last = None;
        Self { every, parts, last }
    }

    /// Returns the pause after a count that succeeded and took that long.
    pub(crate) fn after(&mut self, took: Duration) -> Duration {
        let last = self.last.replace(took).unwrap_or(took);
        let cost = took.min(last);
        let longest = if cost <= BRIEF {
            // The next one may take as long as the longer of the last two.
            OLDEST.saturating_sub(took + took.max(last) + SLACK)
        } else {
            LONGEST
        };
        (cost * self.parts).clamp(self.every, longest.max(self.every))
    }

    /// Returns the pause after a count that failed.
    pub(crate) const fn after_failure(&self) -> Duration {
        self.every
    }
}

impl<T> Reading<T> {
    /// A value whose count began then.
    pub(crate) fn new(value: T, begun: Instant) -> Self {
        let until = begun + OLDEST;
        Self { value, until }
    }

    /// Returns the value, unless it is too old by now.
    pub(crate) fn value(&self) -> Option<&T> {
        (Instant::now() < self.until).then_some(&self.value)
    }
}

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// The age from which a value is not shown any more.
const OLDEST: Duration = Duration::from_secs(15);
/// The longest time that a count may take for its values to follow each other without a gap.
const BRIEF: Duration = Duration::from_millis(1_200);
/// The time by which a busy machine may be late.
const SLACK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    const fn secs(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn what_takes_long_is_counted_seldom_but_once_a_minute() {
        let mut pace = Pace::new(secs(5), 20);
        assert_eq!(pace.after(Duration::from_millis(1)), secs(5));
        // Once is an accident.
        assert_eq!(pace.after(secs(5)), secs(5));
        assert_eq!(pace.after(secs(2)), secs(40));
        assert_eq!(pace.after_failure(), secs(5));
        pace.after(secs(30));
        assert_eq!(pace.after(secs(30)), LONGEST);
    }

    /// Counts for ten minutes what takes that long; returns for how long no value was shown, after the first one.
    async fn gaps(every: Duration, parts: u32, took: impl Fn(u64) -> Duration) -> Duration {
        let mut pace = Pace::new(every, parts);
        let (mut shown, mut gaps) = (None::<Reading<()>>, Duration::ZERO);
        for number in 0..600 / every.as_secs() {
            let begun = Instant::now();
            sleep(took(number)).await;
            if let Some(last) = &shown {
                gaps += Instant::now().saturating_duration_since(last.until);
            }
            shown = Some(Reading::new((), begun));
            sleep(pace.after(begun.elapsed())).await;
        }
        gaps
    }

    #[tokio::test(start_paused = true)]
    async fn a_count_of_up_to_a_second_leaves_no_gap_and_a_longer_one_does() {
        for every in [4, 5, 10] {
            for (parts, millis) in [(20, 1), (20, 300), (20, 1_000), (100, 200), (500, 1_000)] {
                let gaps = gaps(secs(every), parts, |_| Duration::from_millis(millis)).await;
                assert_eq!(gaps, Duration::ZERO, "{parts} parts of {millis} ms");
            }
        }
        // Sometimes three times as long.
        let uneven = |number| Duration::from_millis(if number % 5 == 4 { 900 } else { 300 });
        assert_eq!(gaps(secs(5), 100, uneven).await, Duration::ZERO);
        assert!(gaps(secs(5), 20, |_| secs(3)).await > secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_is_shown_until_it_is_fifteen_seconds_old_and_one_that_took_longer_never() {
        let begun = Instant::now();
        sleep(secs(6)).await;
        let reading = Reading::new(7, begun);
        assert_eq!(reading.value(), Some(&7));
        sleep(Duration::from_millis(8_900)).await;
        assert_eq!(reading.value(), Some(&7));
        sleep(Duration::from_millis(200)).await;
        assert_eq!(reading.value(), None);
        assert_eq!(Reading::new(7, begun).value(), None);
    }
}
