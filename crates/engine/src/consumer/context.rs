//! The parts of a run that never change: the rules, the inputs from outside, and the request to stop.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use semel_core::{Clock, Error};

use crate::effect::Class;
use crate::event::Event;
use crate::lease::Lease;
use crate::pipeline::Pipeline;
use crate::surroundings::{Shutdown, Surroundings};
use crate::trace::SampleShare;

/// The pipeline of a run, and its surroundings; see the module.
pub(super) struct Context {
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) class: Class,
    pub(super) surroundings: Surroundings,
    pub(super) shutdown: Shutdown,
    /// The share of traces to record, if anybody wants spans.
    pub(super) spans: Option<SampleShare>,
    /// The time that is left once the run ends.
    pub(super) ending: Ending,
}

/// The end of a run, whose time is in the module `patience`.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// The time at which the run noticed.
    pub(super) since: OnceLock<Duration>,
    /// The failure of the first call that was cut off.
    pub(super) cut_off: OnceLock<Error>,
}

impl Context {
    /// Returns monotonic time.
    pub(super) fn now(&self) -> Duration {
        self.surroundings.clock.monotonic()
    }

    /// Returns the output of `work`, and the time that it took.
    pub(super) async fn timed<T>(&self, work: impl Future<Output = T>) -> (T, Duration) {
        timed(&*self.surroundings.clock, work).await
    }

    /// Tells whether anybody looks at what is observed.
    pub(super) fn is_observed(&self) -> bool {
        self.surroundings.observer.is_watching()
    }

    pub(super) fn observe(&self, event: &Event<'_>) {
        self.surroundings
            .observer
            .observe(&self.pipeline.name, event);
    }

    /// Returns the lease of a claim that was asked for at `asked_at`.
    pub(super) fn lease(&self, asked_at: Duration) -> Lease {
        let term = self.pipeline.lease;
        Lease { asked_at, term }
    }

    /// Waits until a shutdown is requested: a stop, or the end of this run alone.
    pub(super) async fn shutdown_is_requested(&self) {
        self.shutdown.clone().request().await;
    }

    /// Waits until a stop is requested, which gives what runs a limit of time.
    pub(super) async fn stop_is_requested(&self) {
        self.shutdown.clone().stop().await;
    }
}

/// Returns the output of `work`, and the time that it took.
pub(super) async fn timed<T>(clock: &dyn Clock, work: impl Future<Output = T>) -> (T, Duration) {
    let began_at = clock.monotonic();
    let done = work.await;
    (done, clock.monotonic().saturating_sub(began_at))
}
