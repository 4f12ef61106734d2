//! Tells a storm of duplicates from the duplicates that a pipeline has anyhow. Pure: time and counts come from outside.

use std::collections::VecDeque;
use std::time::Duration;

/// The detector of one pipeline.
///
/// The *share* is that of duplicates among all that was decided in the last [`WINDOW`]. The *past* is its average over
/// about [`PAST`], zero at the start. A storm begins when at least [`FEWEST`] duplicates came in the window and their
/// share is halfway or more from the past to "nothing else", and when the same is so for half as many without the
/// [`BURST`] that has most of them: what a restart or a rebalance sends again is over by then. It ends when fewer than
/// half of [`FEWEST`] came, or when the share is less than a quarter of that way above the past.
#[derive(Debug, Default)]
pub(crate) struct Storm {
    /// Counts since the start, with the time at which they were taken; the first is the beginning of the window.
    samples: VecDeque<(Duration, Counts)>,
    past: f64,
    is_on: bool,
    /// Unmarked duplicates since the start that were looked at in a storm: none is part of two.
    counted_to: u64,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Duplicates of something finished.
    pub(crate) duplicates: u64,
    /// Them, and attempts that began.
    pub(crate) all: u64,
    /// Deliveries that were duplicates and did not say that they were sent again.
    pub(crate) unmarked: u64,
}

/// The conclusion of a look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) is_storm: bool,
    /// Unmarked duplicates that turned out to be part of a storm.
    pub(crate) unmarked: u64,
}

impl Storm {
    /// Judges counts that were taken at `now`. To be called about once a second; nothing changes if it is called sooner.
    pub(crate) fn look(&mut self, now: Duration, counts: Counts) -> Seen {
        let Some((last_at, last)) = self.samples.back().copied() else {
            self.samples.push_back((now, counts));
            return Seen::default();
        };
        let passed = now.saturating_sub(last_at);
        if passed < STEP {
            let (is_storm, unmarked) = (self.is_on, 0);
            return Seen { is_storm, unmarked };
        }
        if passed > WINDOW {
            // Nobody knows when in this time they came.
            self.samples.clear();
            self.samples.push_back((now, counts));
            self.is_on = false;
            return Seen::default();
        }
        self.samples.push_back((now, counts));
        while self
            .samples
            .get(1)
            .is_some_and(|(at, _)| now.saturating_sub(*at) >= WINDOW)
        {
            self.samples.pop_front();
        }
        let before = self.samples.front().map_or(last, |(_, counts)| *counts);
        let window = counts.since(before);
        self.is_on = self.judge(window);
        if window.all > 0 {
            let weight = -(-passed.as_secs_f64() / PAST.as_secs_f64()).exp_m1();
            self.past += (window.share() - self.past) * weight;
        }
        let mut unmarked = 0;
        if self.is_on {
            let open = counts.unmarked.saturating_sub(self.counted_to);
            unmarked = open.min(window.unmarked);
            self.counted_to = counts.unmarked;
        }
        Seen {
            is_storm: self.is_on,
            unmarked,
        }
    }

    fn judge(&self, window: Counts) -> bool {
        let is = |counts: Counts, fewest, way: f64| {
            let far = self.past + (1.0 - self.past) * way;
            counts.duplicates >= fewest && counts.share() >= far
        };
        if self.is_on {
            return is(window, FEWEST / 2, 0.25);
        }
        is(window, FEWEST, 0.5) && is(window.since(self.burst()), FEWEST / 2, 0.5)
    }

    /// Returns the counts of the [`BURST`] within the window that has the most duplicates.
    fn burst(&self) -> Counts {
        let mut ends = self.samples.iter().peekable();
        let mut last = Counts::default();
        let bursts = self.samples.iter().map(|(from, before)| {
            while let Some((_, end)) = ends.next_if(|(at, _)| at.saturating_sub(*from) <= BURST) {
                last = *end;
            }
            last.since(*before)
        });
        let most = bursts.max_by_key(|it| it.duplicates);
        most.unwrap_or_default()
    }
}

impl Counts {
    const fn since(self, before: Self) -> Self {
        Self {
            duplicates: self.duplicates.saturating_sub(before.duplicates),
            all: self.all.saturating_sub(before.all),
            unmarked: self.unmarked.saturating_sub(before.unmarked),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a share of two counts")]
    fn share(self) -> f64 {
        self.duplicates as f64 / self.all.max(1) as f64
    }
}

/// The time of which the share is taken.
const WINDOW: Duration = Duration::from_secs(40);
/// The time in which a restart or a rebalance may send everything again.
const BURST: Duration = Duration::from_secs(10);
/// The time constant of the past.
const PAST: Duration = Duration::from_secs(30 * 60);
/// Duplicates in the window below which no storm begins.
const FEWEST: u64 = 10;
/// The least time between two looks that count.
const STEP: Duration = Duration::from_millis(900);

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipeline under simulated traffic.
    #[derive(Default)]
    struct Played {
        storm: Storm,
        now: u64,
        counts: Counts,
        replays: u64,
    }

    impl Played {
        /// Plays seconds with so many duplicates and new messages each; returns in which of them there was a storm.
        fn play(&mut self, seconds: u64, duplicates: u64, new: u64) -> Vec<bool> {
            let each = (0..seconds).map(|_| {
                self.now += 1;
                self.counts.duplicates += duplicates;
                self.counts.unmarked += duplicates;
                self.counts.all += duplicates + new;
                let now = Duration::from_secs(self.now);
                let seen = self.storm.look(now, self.counts);
                self.replays += seen.unmarked;
                seen.is_storm
            });
            each.collect()
        }
    }

    #[test]
    fn nothing_but_duplicates_is_a_storm_within_a_minute_and_none_ends_it_within_three() {
        for (duplicates, new_before, new_after) in
            [(1, 0, 0), (1, 1, 1), (500, 500, 500), (20, 5_000, 0)]
        {
            let mut played = Played::default();
            played.play(1, 0, 0);
            assert!(played.play(600, 0, new_before).iter().all(|it| !it));
            let seen = played.play(300, duplicates, 0);
            let begins = seen.iter().position(|it| *it).expect("a storm");
            assert!(begins < 60, "{begins}");
            assert!(seen[begins..].iter().all(|it| *it), "until it ends");
            assert_eq!(played.replays, 300 * duplicates, "from its first duplicate");
            let seen = played.play(180, 0, new_after);
            assert!(seen.iter().rev().take(120).all(|it| !it), "{seen:?}");
        }
    }

    #[test]
    fn a_storm_right_after_the_start_is_seen_and_stays_for_as_long_as_it_lasts() {
        let mut played = Played::default();
        played.play(1, 0, 0);
        let seen = played.play(20_000, 3, 0);
        assert!(seen[15..].iter().all(|it| *it));
    }

    #[test]
    fn a_steady_tenth_is_no_storm() {
        for (duplicates, new) in [(1, 9), (100, 900)] {
            let mut played = Played::default();
            assert!(played.play(7_200, duplicates, new).iter().all(|it| !it));
            assert_eq!(played.replays, 0);
        }
    }

    #[test]
    fn a_burst_of_duplicates_among_many_new_messages_is_no_storm() {
        let mut played = Played::default();
        played.play(60, 0, 1_000);
        assert!(played.play(5, 1_000, 1_000).iter().all(|it| !it));
        assert!(played.play(60, 0, 1_000).iter().all(|it| !it));
    }

    #[test]
    fn a_share_that_has_become_usual_is_no_storm_any_more() {
        let mut played = Played::default();
        played.play(60, 0, 10);
        let seen = played.play(3 * 3_600, 7, 3);
        assert!(seen.iter().any(|it| *it), "at first it is one");
        assert!(!seen[seen.len() - 1]);
        // Nothing but duplicates is one for this pipeline as well.
        let seen = played.play(60, 10, 0);
        assert!(seen[59]);
    }

    #[test]
    fn a_few_duplicates_alone_are_no_storm() {
        let mut played = Played::default();
        for _ in 0..100 {
            assert!(played.play(1, 1, 0).iter().all(|it| !it));
            assert!(played.play(5, 0, 0).iter().all(|it| !it));
        }
    }

    #[test]
    fn what_a_restart_sends_again_is_no_storm() {
        for (seconds, duplicates, new_after) in [(1, 10, 0), (2, 500, 1), (9, 500, 20), (5, 3, 1)] {
            let mut played = Played::default();
            played.play(1, 0, 0);
            assert!(played.play(seconds, duplicates, 0).iter().all(|it| !it));
            // Now and then one more, as ever.
            for _ in 0..20 {
                assert!(played.play(1, 1, 0).iter().all(|it| !it));
                assert!(played.play(10, 0, new_after).iter().all(|it| !it));
            }
            assert_eq!(played.replays, 0);
        }
    }

    #[test]
    fn traffic_around_the_threshold_neither_flaps_nor_counts_a_duplicate_twice() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for duplicates_in in [3, 4, 5, 8] {
            let (mut played, mut begun, mut is_on) = (Played::default(), 0, false);
            played.play(1, 0, 0);
            for _ in 0..3_600 {
                let duplicates = u64::from(random(duplicates_in) == 0);
                let seen = played.play(1, duplicates, u64::from(random(20) == 0));
                begun += u32::from(seen[0] && !is_on);
                is_on = seen[0];
            }
            assert!(played.replays <= played.counts.unmarked);
            assert!(begun <= 20, "{begun} for one in {duplicates_in}");
        }
    }

    #[test]
    fn a_storm_that_begins_again_soon_counts_only_what_is_new() {
        let mut played = Played::default();
        played.play(1, 0, 0);
        assert!(played.play(30, 5, 0)[29]);
        assert!(!played.play(1, 0, 500)[0]);
        let seen = played.play(18, 100, 0);
        assert!(!seen[0] && seen[17], "{seen:?}");
        assert_eq!(played.replays, played.counts.unmarked);
    }

    #[test]
    fn looks_that_come_too_often_or_too_late_change_nothing() {
        let mut storm = Storm::default();
        let counts = |duplicates| Counts {
            duplicates,
            all: duplicates,
            unmarked: duplicates,
        };
        let at = Duration::from_millis;
        storm.look(at(0), counts(0));
        for second in 1..=20 {
            assert!(
                !storm
                    .look(at(second * 1_000 - 900), counts(50 * second))
                    .is_storm
                    || second > 10
            );
            storm.look(at(second * 1_000), counts(50 * second));
        }
        assert!(storm.look(at(20_100), counts(1_000)).is_storm);
        // Nobody looked for an hour, in which many came.
        for (late, more) in [(0, 50), (1, 51), (2, 52)] {
            let seen = storm.look(at(3_600_000 + late * 1_000), counts(1_000 + more));
            assert_eq!(seen, Seen::default());
        }
    }
}
