//! A run's clock and chance, who watches it, and what ends it: handed in by whoever starts it. Not for what a pipeline
//! is told to do, which is [`Pipeline`](crate::pipeline::Pipeline).

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::source::Progress;
use semel_core::{ClaimId, Claimant, Clock, Entropy};
use tokio::sync::watch;

use crate::event::Observer;
use crate::retry;
use crate::summary::Summary;

/// The clock, the entropy and whoever watches.
#[derive(Clone)]
pub struct Surroundings {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// Who claims.
    pub claimant: Claimant,
    /// Who is told of every decision.
    pub observer: Arc<dyn Observer>,
}

impl Surroundings {
    /// A fresh claim id.
    pub fn claim_id(&self) -> ClaimId {
        self.claimant.claim(&*self.entropy)
    }

    /// Returns `wait` and up to a quarter more by chance.
    pub(crate) fn jittered(&self, wait: Duration) -> Duration {
        retry::jittered(&*self.entropy, wait)
    }
}

/// A wish to stop: finish or release what is running within `patience`, and fetch nothing more.
#[derive(Clone, Debug)]
pub struct Shutdown {
    /// Turns `true` once, when it is time to stop.
    pub requested: watch::Receiver<bool>,
    /// How long running effects may take from then on.
    pub patience: Duration,
}

impl Shutdown {
    pub(crate) fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }

    /// Waits for the request; for ever if nobody is left to make it.
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

/// Tells how far a run has come, some times a second.
pub type OnProgress = Arc<dyn Fn(Option<Progress>, &Summary) + Send + Sync>;
