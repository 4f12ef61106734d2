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
    /// Turned `true` once, when it is time to stop.
    pub requested: watch::Receiver<bool>,
    /// The longest time that running effects may take from then on.
    pub patience: Duration,
    /// Turned `true` to end this run alone, if there is a channel: what runs is finished however long it takes, everything
    /// else is given back, and nothing more is fetched.
    pub recalled: Option<watch::Receiver<bool>>,
}

impl Shutdown {
    /// A request to stop by this channel, without one to end a single run.
    pub const fn new(requested: watch::Receiver<bool>, patience: Duration) -> Self {
        Self {
            requested,
            patience,
            recalled: None,
        }
    }

    /// Tells whether nothing more begins: for a stop, or since the run is recalled.
    pub(crate) fn is_requested(&self) -> bool {
        self.is_stop() || self.is_recalled()
    }

    /// Tells whether a stop is requested, which has a limit of time.
    pub(crate) fn is_stop(&self) -> bool {
        *self.requested.borrow()
    }

    fn is_recalled(&self) -> bool {
        self.recalled.as_ref().is_some_and(|it| *it.borrow())
    }

    /// Waits until nothing more is to begin; for ever if no sender is left to say so.
    pub(crate) async fn request(&mut self) {
        let Self {
            requested,
            recalled,
            ..
        } = self;
        let recalled = async {
            match recalled {
                Some(recalled) => turned(recalled).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = turned(requested) => {}
            () = recalled => {}
        }
    }

    /// Waits for a stop, and from then on for its patience, or for `least` if that is longer.
    pub(crate) async fn is_over(&self, least: Duration) {
        self.clone().stop().await;
        tokio::time::sleep(self.patience.max(least)).await;
    }

    /// Waits for a stop; for ever if no sender is left to make it.
    pub(crate) async fn stop(&mut self) {
        turned(&mut self.requested).await;
    }
}

/// Waits until a channel says `true`; for ever if no sender is left to do so.
async fn turned(channel: &mut watch::Receiver<bool>) {
    if channel.wait_for(|it| *it).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A function that is called with the progress of a run, some times a second.
pub type OnProgress = Arc<dyn Fn(Option<Progress>, &Summary) + Send + Sync>;
