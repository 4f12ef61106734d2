//! The inputs of a run from its caller: clock, chance, observer and the request to stop. Not for the settings of a
//! pipeline, which are in [`Pipeline`](crate::pipeline::Pipeline).

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::source::Progress;
use semel_core::{ClaimId, Claimant, Clock, Entropy};
use tokio::sync::watch;

use crate::event::Observer;
use crate::retry;
use crate::summary::Summary;

/// The clock, the entropy, the claimant and the observer.
#[derive(Clone)]
pub struct Surroundings {
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// The source of chance.
    pub entropy: Arc<dyn Entropy>,
    /// The identity under which claims are made.
    pub claimant: Claimant,
    /// The observer of every decision.
    pub observer: Arc<dyn Observer>,
}

impl Surroundings {
    /// Returns a fresh claim id.
    pub fn claim_id(&self) -> ClaimId {
        self.claimant.claim(&*self.entropy)
    }

    /// Returns the time of the monotonic clock, and the time since 1970.
    pub(crate) fn both_clocks(&self) -> (Duration, Duration) {
        let since_1970 = Duration::from_millis(self.clock.now().as_millis());
        (self.clock.monotonic(), since_1970)
    }

    /// Returns `wait` and up to a quarter more by chance.
    pub(crate) fn jittered(&self, wait: Duration) -> Duration {
        retry::jittered(&*self.entropy, wait)
    }
}

/// A request to stop: finish or release everything that runs within `patience`, and fetch nothing more.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Turns `true` once, when it is time to stop.
    pub requested: watch::Receiver<bool>,
    /// The longest time that running effects may take from then on.
    pub patience: Duration,
}

impl Shutdown {
    pub(crate) fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }

    /// Waits for the request; for ever if no sender is left to make it.
    pub(crate) async fn request(&mut self) {
        if self
            .requested
            .wait_for(|requested| *requested)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }
}

/// A function that is called with the progress of a run, some times a second.
pub type OnProgress = Arc<dyn Fn(Option<Progress>, &Summary) + Send + Sync>;
