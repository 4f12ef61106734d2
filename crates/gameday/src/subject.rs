//! The settings that a drill plays with.

use std::time::Duration;

/// The time for which a message can come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// No longer than this.
    Within(Duration),
    /// Any time, without end.
    Endless,
    /// Nobody knows. The drill plays half of the window.
    Unknown,
}

/// The pipeline that a drill is about, as far as a drill can try it without its broker, its store and its target.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name.
    pub pipeline: String,
    /// The window of its keys.
    pub window: Duration,
    /// The time for which its broker can deliver a message again.
    pub needed: Needed,
    /// True if its age gate is on: what is older than the window is set aside, not repeated.
    pub is_gated: bool,
    /// True if its effects run without a claim while the store is away.
    pub fails_open: bool,
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
            needed: Needed::Within(window / 2),
            is_gated: false,
            fails_open: false,
            attempts: 3,
        }
    }
}

impl Subject {
    /// Returns the time after which everything comes again, and the window, both shrunk to what a drill can wait for.
    /// Their ratio stays, within what a window can be set to.
    pub(crate) fn shrunk(&self) -> (Duration, Duration) {
        let needed = match self.needed {
            Needed::Within(needed) => needed.max(Duration::from_secs(1)),
            Needed::Endless => self.window * 2,
            Needed::Unknown => self.window / 2,
        };
        let ratio = self.window.as_secs_f64() / needed.as_secs_f64();
        let window = AGAIN.mul_f64(ratio.clamp(0.25, 900.0));
        let whole = Duration::from_secs(window.as_secs().max(1));
        (AGAIN, whole)
    }
}

/// The time after which the drill of the window sends everything again.
const AGAIN: Duration = Duration::from_secs(4);
