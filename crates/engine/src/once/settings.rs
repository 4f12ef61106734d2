//! Settings of an operation.

use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::{Backoff, Error, ErrorKind, Outcome, Result, Window};

use crate::effect::{Class, OnDoubt};

/// Settings of an operation that says nothing else. The defaults are the cautious ones.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The way in which the effect takes part in the proof; unkeyed and parked, so at most once.
    pub class: Class,
    /// The time for which a finished operation is remembered; seven days.
    pub window: Window,
    /// The time for which a claim outlives a vanished process; 30 seconds. Renewed while the effect
    /// runs.
    pub lease: Duration,
    /// The most attempts of an operation, over all calls and processes; ten failures.
    pub limits: AttemptLimits,
    /// The wait between attempts; 200 milliseconds to 60 seconds.
    pub backoff: Backoff,
    /// The longest time for the effect; 30 seconds. `None` waits for ever.
    pub timeout: Option<Duration>,
    /// The longest wait of a call for another caller that runs the key; 5 seconds.
    pub wait: Duration,
    /// The longest wait of a call for a store that does not answer; 30 seconds.
    pub patience: Duration,
    /// The longest outcome that is kept, in bytes; 1 MiB.
    pub outcome_limit_bytes: usize,
    /// The most effects of one batch that run at the same time; 32.
    pub concurrency: usize,
    pub(crate) replacement: Replacement,
}

/// The outcome in place of one that the store refuses to keep; none unless it is set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Replacement(Option<fn(&Outcome) -> Option<Outcome>>);

impl Replacement {
    pub(crate) const fn new(of: fn(&Outcome) -> Option<Outcome>) -> Self {
        Self(Some(of))
    }

    pub(crate) fn of(self, outcome: &Outcome) -> Option<Outcome> {
        self.0.and_then(|of| of(outcome))
    }
}

impl PartialEq for Replacement {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => std::ptr::fn_addr_eq(one, other),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}

impl Eq for Replacement {}

impl Default for Settings {
    fn default() -> Self {
        Self {
            class: Class::Unkeyed(OnDoubt::Park),
            window: Window::DEFAULT,
            lease: Duration::from_secs(30),
            limits: AttemptLimits::default(),
            backoff: Backoff {
                first: Duration::from_millis(200),
                most: Duration::from_secs(60),
            },
            timeout: Some(Duration::from_secs(30)),
            wait: Duration::from_secs(5),
            patience: Duration::from_secs(30),
            outcome_limit_bytes: Outcome::DEFAULT_LIMIT_BYTES,
            concurrency: 32,
            replacement: Replacement::default(),
        }
    }
}

impl Settings {
    /// Checks the settings, also against each other.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a lease under 100 ms or over 12 h or beyond the window, a window of zero or
    /// within its margin, no concurrency
    pub fn check(&self) -> Result<()> {
        let window = self.window.duration();
        let fault = if window.is_zero() || self.window.margin() >= window {
            "the window must be longer than zero and than its margin"
        } else if self.lease < SHORTEST_LEASE || self.lease > LONGEST_LEASE {
            "the lease must be from 100 milliseconds to 12 hours"
        } else if self.lease > window {
            "the lease must not be longer than the window"
        } else if self.concurrency == 0 {
            "the concurrency must be at least one"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::InvalidInput, fault))
    }
}

const SHORTEST_LEASE: Duration = Duration::from_millis(100);
const LONGEST_LEASE: Duration = Duration::from_secs(12 * 3_600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_acceptable() {
        assert!(Settings::default().check().is_ok());
    }

    #[test]
    fn what_cannot_hold_is_refused() {
        let fine = Settings::default();
        let windows = [
            Window::new(Duration::ZERO),
            Window::new(Duration::from_secs(60)).with_margin(Duration::from_secs(60)),
            Window::new(Duration::from_secs(29)),
        ];
        for window in windows {
            let settings = Settings {
                window,
                ..fine.clone()
            };
            assert!(settings.check().is_err(), "{window:?}");
        }
        for lease in [
            Duration::ZERO,
            Duration::from_millis(99),
            Duration::from_secs(50_000),
        ] {
            let settings = Settings {
                lease,
                ..fine.clone()
            };
            assert!(settings.check().is_err(), "{lease:?}");
        }
        let settings = Settings {
            concurrency: 0,
            ..fine
        };
        assert!(settings.check().is_err());
    }
}
