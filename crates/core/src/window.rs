//! The deduplication window: how long a finished key is remembered, and the age gate inside it.
//!
//! Time alone is not safe (a paused worker can hold a delivery past eviction), so a message that is
//! older than the window and has no record is *not* new: it is too old. See WIN-1 and WIN-2.

use std::time::Duration;

use crate::planted;
use crate::time::Timestamp;

/// The time for which a finished record is kept, and the margin by which the age gate stays inside
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    duration: Duration,
    margin: Duration,
}

impl Window {
    /// The window that applies where none is configured: seven days.
    pub const DEFAULT: Self = Self::new(Duration::from_secs(7 * 86_400));

    /// The longest margin that [`Window::new`] derives: one minute.
    const MAX_MARGIN: Duration = Duration::from_secs(60);

    /// A window of `duration` with the margin that follows from it: an eighth, at most one minute.
    pub const fn new(duration: Duration) -> Self {
        let eighth = match duration.checked_div(8) {
            Some(eighth) => eighth,
            None => Self::MAX_MARGIN,
        };
        let margin = if eighth.as_nanos() < Self::MAX_MARGIN.as_nanos() {
            eighth
        } else {
            Self::MAX_MARGIN
        };
        Self { duration, margin }
    }

    /// The same window with a margin of its own, which stands for the skew between the clock that
    /// stamps births and the clock of the store.
    #[must_use]
    pub const fn with_margin(self, margin: Duration) -> Self {
        Self { margin, ..self }
    }

    /// The window of another duration: keeps a margin that was set, and derives a derived one anew.
    #[must_use]
    pub fn resized(self, duration: Duration) -> Self {
        let derived = Self::new(self.duration);
        if self == derived {
            return Self::new(duration);
        }
        Self { duration, ..self }
    }

    /// The time for which a finished record is kept at least.
    pub const fn duration(self) -> Duration {
        self.duration
    }

    /// The margin by which the age gate closes inside the window.
    pub const fn margin(self) -> Duration {
        self.margin
    }

    /// Returns whether a message born at `birth` is too old to be taken for new at `now`. WIN-2.
    pub fn is_too_old(self, birth: Timestamp, now: Timestamp) -> bool {
        now.since(birth) > self.duration.saturating_sub(self.margin)
    }

    /// The time from which a record that finished at `finished_at` may be forgotten. WIN-1.
    pub fn expires_at(self, finished_at: Timestamp) -> Timestamp {
        finished_at.plus(self.kept())
    }

    /// The time by which it must be forgotten: an eighth of the window plus one second after its
    /// expiry.
    pub fn forgotten_at(self, finished_at: Timestamp) -> Timestamp {
        self.expires_at(finished_at)
            .plus(self.kept() / 8)
            .plus(Duration::from_secs(1))
    }

    /// The whole window.
    fn kept(self) -> Duration {
        if planted("M05") {
            return self.duration / 16;
        }
        self.duration
    }
}

impl Default for Window {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(secs: u64) -> Timestamp {
        Timestamp::from_millis(secs * 1_000)
    }

    #[test]
    fn the_age_gate_closes_a_margin_before_the_window_ends() {
        let window = Window::new(Duration::from_secs(800));
        assert_eq!(window.margin(), Duration::from_secs(60));
        assert!(!window.is_too_old(at(1_000), at(1_740)));
        assert!(window.is_too_old(at(1_000), Timestamp::from_millis(1_740_001)));
        assert_eq!(
            Window::new(Duration::from_secs(80)).margin(),
            Duration::from_secs(10)
        );
    }

    #[test]
    fn a_margin_of_its_own_is_kept_by_a_window_of_another_duration() {
        let (hour, day) = (Duration::from_secs(3_600), Duration::from_secs(86_400));
        let half = Duration::from_secs(1_800);
        assert_eq!(Window::new(day).resized(hour), Window::new(hour));
        let resized = Window::new(day).with_margin(half).resized(hour);
        assert_eq!((resized.duration(), resized.margin()), (hour, half));
    }

    /// The number is in print: README, the book and the reference.
    #[test]
    fn the_window_of_a_pipeline_that_sets_none_is_seven_days() {
        assert_eq!(Window::default().duration(), Duration::from_secs(604_800));
    }

    #[test]
    fn a_birth_in_the_future_counts_as_now() {
        assert!(!Window::new(Duration::from_secs(8)).is_too_old(at(9_999), at(10)));
    }

    #[test]
    fn a_record_is_kept_its_window_and_at_most_an_eighth_and_a_second_more() {
        let window = Window::new(Duration::from_secs(80));
        assert_eq!(window.expires_at(at(100)), at(180));
        assert_eq!(window.forgotten_at(at(100)), at(191));
    }
}
