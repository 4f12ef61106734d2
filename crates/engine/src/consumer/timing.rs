//! The times of a message in hand: when it was fetched, and how long it was somebody else's.

use std::time::Duration;

use crate::event::Wait;

/// The times of one message; see the module. Small, since there is one for every message in hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    fetched_at: Duration,
    /// The time of its effects and of its waits that are over.
    apart: Duration,
    /// The beginning of the wait that is not over.
    waits_since: Option<Duration>,
    /// A bit for each kind of wait that has begun.
    waited: u8,
}

impl Timing {
    pub(super) const fn new(fetched_at: Duration) -> Self {
        Self {
            fetched_at,
            apart: Duration::ZERO,
            waits_since: None,
            waited: 0,
        }
    }

    /// Returns the time at which it was fetched.
    pub(super) const fn fetched_at(&self) -> Duration {
        self.fetched_at
    }

    /// Notes that an effect of the message took this long.
    pub(super) fn add_effect(&mut self, took: Duration) {
        self.apart = self.apart.saturating_add(took);
    }

    /// Notes that the message waits from now on, for its order or for a time.
    pub(super) fn begin_wait(&mut self, now: Duration) {
        self.waits_since.get_or_insert(now);
    }

    /// Notes that it waits no more.
    pub(super) fn end_wait(&mut self, now: Duration) {
        if let Some(since) = self.waits_since.take() {
            self.apart = self.apart.saturating_add(now.saturating_sub(since));
        }
    }

    /// Notes that it waits for `why`; returns whether for the first time.
    pub(super) const fn first_waits(&mut self, why: Wait) -> bool {
        let bit = 1 << why as u8;
        let is_first = self.waited & bit == 0;
        self.waited |= bit;
        is_first
    }

    /// Returns the time since it was fetched that was neither its effects' nor a wait.
    pub(super) const fn overhead(&self, now: Duration) -> Duration {
        now.saturating_sub(self.fetched_at)
            .saturating_sub(self.apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn effects_and_waits_are_no_overhead() {
        let mut timing = Timing::new(ms(100));
        timing.begin_wait(ms(110));
        // Whoever waits already begins no other wait.
        timing.begin_wait(ms(115));
        timing.end_wait(ms(130));
        timing.add_effect(ms(50));
        timing.end_wait(ms(190));
        assert_eq!(timing.overhead(ms(200)), ms(30));
    }

    #[test]
    fn a_clock_that_stands_still_gives_nothing_and_no_panic() {
        let mut timing = Timing::new(ms(100));
        timing.add_effect(ms(50));
        assert_eq!(timing.overhead(ms(120)), Duration::ZERO);
    }

    #[test]
    fn each_kind_of_wait_is_first_once() {
        let mut timing = Timing::new(Duration::ZERO);
        let firsts = Wait::ALL.iter().map(|why| timing.first_waits(*why));
        assert_eq!(firsts.filter(|it| *it).count(), Wait::ALL.len());
        assert!(Wait::ALL.iter().all(|why| !timing.first_waits(*why)));
    }
}
