//! Settings of the service.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::{Claimant, Outcome, Window};
use semel_engine::event::Unobserved;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_http::Limits;
use tokio::sync::watch;

/// Settings of the service, for requests that say nothing else.
#[derive(Clone)]
pub struct Settings {
    /// The time for which a claim lasts unless it is renewed; 30 seconds.
    pub lease: Duration,
    /// The time for which a finished operation is remembered; seven days.
    pub window: Window,
    /// The most attempts of an operation; ten failures.
    pub limits: AttemptLimits,
    /// The longest outcome that is kept; 1 MiB.
    pub outcome_limit_bytes: usize,
    /// The longest body of a request; 4 MiB.
    pub max_body_bytes: usize,
    /// The longest `wait` that a claim may ask for; five minutes.
    pub longest_wait: Duration,
    /// The most claims that wait at once; more are `busy` at once. A quarter of the connections that a listener takes,
    /// so that the holders of the keys find one.
    pub most_waiting: usize,
    /// The clock, the entropy, the claimant of the claims whose clients make no id of their own, and the observer, which
    /// sees every decision by the name of its operation.
    pub surroundings: Surroundings,
    /// Turns `true` when it is time to stop: claims that wait are answered then.
    pub stop: Option<watch::Receiver<bool>>,
}

impl Default for Settings {
    fn default() -> Self {
        let entropy = SystemEntropy;
        Self {
            lease: Duration::from_secs(30),
            window: Window::DEFAULT,
            limits: AttemptLimits::default(),
            outcome_limit_bytes: Outcome::DEFAULT_LIMIT_BYTES,
            max_body_bytes: 4 << 20,
            longest_wait: Duration::from_secs(300),
            most_waiting: Limits::API.room() / 4,
            surroundings: Surroundings {
                clock: Arc::new(SystemClock::new()),
                claimant: Claimant::random(&entropy),
                entropy: Arc::new(entropy),
                observer: Arc::new(Unobserved),
            },
            stop: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("lease", &self.lease)
            .field("window", &self.window)
            .field("limits", &self.limits)
            .field("outcome_limit_bytes", &self.outcome_limit_bytes)
            .field("max_body_bytes", &self.max_body_bytes)
            .field("longest_wait", &self.longest_wait)
            .field("most_waiting", &self.most_waiting)
            .finish_non_exhaustive()
    }
}
