//! The settings that a drill plays with.

use std::time::Duration;

use semel_core::port::horizon::Horizon;

/// The pipeline that a drill is about, as far as a drill can try it without its broker, its store and its target.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub pipeline: String,
    /// The window of its keys.
    pub window: Duration,
    /// The time for which a message can come again. If nobody knows, the drill plays half of the window.
    pub needed: Horizon,
    /// True if its age gate is on: what is older than the window is set aside, not repeated.
    pub is_gated: bool,
    /// True if its effects run without a claim while the store is away.
    pub fails_open: bool,
    /// True if an effect that may have happened is called again: its class is to bear that.
    pub repeats: bool,
    /// Most attempts at one message.
    pub attempts: u32,
}

impl Default for Subject {
    /// A pipeline with the window of seven days, which is twice what it needs.
    fn default() -> Self {
        let window = Duration::from_secs(7 * 86_400);
        Self {
            pipeline: "drill".to_owned(),
            window,
            needed: Horizon::Within(window / 2),
            is_gated: false,
            fails_open: false,
            repeats: false,
            attempts: 3,
        }
    }
}

impl Subject {
    /// Returns the time after which everything comes again, and the window, both shrunk to what a drill can wait for.
    /// A window that is long enough gets two seconds on top, since a drill does not send to the moment.
    pub(crate) fn shrunk(&self) -> (Duration, Duration) {
        let needed = match self.needed {
            Horizon::Within(needed) => needed,
            Horizon::Endless => self.window * 2,
            Horizon::Unknown => self.window / 2,
        };
        let ratio = self.window.as_secs_f64() / needed.as_secs_f64().max(1e-3);
        let window = AGAIN.mul_f64(ratio.clamp(0.0, 600.0));
        let window = if ratio < 1.0 {
            Duration::from_secs(window.as_secs().max(1))
        } else {
            Duration::from_secs(window.as_secs()) + SLACK
        };
        (AGAIN, window)
    }
}

/// The time after which the drill of the window sends everything again.
const AGAIN: Duration = Duration::from_secs(6);
const SLACK: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_long_enough_after_shrinking_if_it_was_before() {
        let hour = Duration::from_secs(3_600);
        for (window, needed, is_enough) in [
            (hour, Horizon::Within(hour), true),
            (hour, Horizon::Within(hour + hour / 100), false),
            (hour, Horizon::Within(hour * 1_000), false),
            (hour, Horizon::Within(Duration::ZERO), true),
            (hour * 100_000, Horizon::Within(hour), true),
            (hour, Horizon::Endless, false),
            (hour, Horizon::Unknown, true),
            (Duration::from_millis(10), Horizon::Unknown, true),
        ] {
            let subject = Subject {
                window,
                needed,
                ..Subject::default()
            };
            let (again, shrunk) = subject.shrunk();
            assert_eq!(shrunk > again, is_enough, "{subject:?}: {shrunk:?}");
            assert!(shrunk >= Duration::from_secs(1), "{subject:?}");
        }
    }
}
