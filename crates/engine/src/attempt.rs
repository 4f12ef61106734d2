//! One operation at a time: claim, run, complete, as a linear handle.
//!
//! An [`Attempt`] is consumed by settling it, so settling twice does not compile. Dropping an attempt settles
//! nothing: its lease cleans up.

use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::{
    Admission, Certainty, Claim, ClaimRequest, Error, ErrorKind, Outcome, Recovery, Renewed,
    Result, Settled, Settlement, StateKind, Step, Store, StoreExt, Timestamp, Window,
};

use crate::lease::renewal;

/// The store's answer to a request for an operation.
#[derive(Debug)]
#[must_use = "an attempt that nobody settles blocks its key until the lease ends"]
pub enum Admitted<S> {
    /// Run the effect under this handle.
    Run(Attempt<S>),
    /// Any other answer of the store, as it is; never [`Admission::Granted`].
    Not(Admission),
}

/// The exclusive right to attempt one effect.
#[derive(Debug)]
#[must_use = "an attempt that nobody settles blocks its key until the lease ends"]
pub struct Attempt<S> {
    store: S,
    claim: Claim,
    window: Window,
    limits: AttemptLimits,
}

/// A settlement that the store did not accept, with the attempt if it can be settled again.
#[derive(Debug)]
pub struct Unsettled<S> {
    /// The reason.
    pub error: Error,
    /// The attempt, unless its claim is lost.
    pub attempt: Option<Attempt<S>>,
}

impl<S: Store + Clone> Attempt<S> {
    /// Asks `store` for the right to attempt `request`'s operation.
    ///
    /// # Errors
    ///
    /// those of [`Store::claim`]; ask again with the same claim id
    ///
    /// # Cancel safety   safe: an unanswered claim expires with its lease
    pub async fn begin(store: S, request: ClaimRequest) -> Result<Admitted<S>> {
        let (window, limits) = (request.window, request.limits);
        match store.claim_one(request).await? {
            Admission::Granted(claim) => Ok(Admitted::Run(Self {
                store,
                claim,
                window,
                limits,
            })),
            admission => Ok(Admitted::Not(admission)),
        }
    }

    /// The claim: operation, attempt number, fencing token.
    pub const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Marks the effect as about to be sent, durably; `recovery` is what a takeover does then.
    ///
    /// # Errors
    ///
    /// `ClaimLost`, and those of [`Store::settle`]
    ///
    /// # Cancel safety   safe to repeat
    pub async fn start(&mut self, recovery: Recovery) -> Result<()> {
        match self.settle(Step::Start { recovery }).await? {
            Settled::Now(_) => Ok(()),
            Settled::Fenced { .. } => Err(lost()),
            Settled::Failed(error) => Err(error),
        }
    }

    /// Extends the lease. Call it at a third of the lease while the effect runs.
    ///
    /// # Errors
    ///
    /// `ClaimLost`: stop the effect; and those of [`Store::renew`]
    ///
    /// # Cancel safety   safe
    pub async fn renew(&mut self, lease: Duration) -> Result<Timestamp> {
        let renewal = renewal(&self.claim, lease);
        match self.store.renew_one(renewal).await? {
            Renewed::Until(until) => {
                self.claim.lease_until = until;
                Ok(until)
            }
            Renewed::Lost { .. } => Err(lost()),
            Renewed::Failed(error) => Err(error),
        }
    }

    /// Reports that the effect happened.
    ///
    /// # Errors
    ///
    /// the attempt comes back if it can be completed again; not if its claim is lost, which leaves the effect
    /// to the holder of the newer claim
    ///
    /// # Cancel safety   unsafe to drop and forget: the effect may have happened unrecorded
    pub async fn complete(self, outcome: Outcome) -> Result<(), Unsettled<S>> {
        let window = self.window;
        self.conclude(Step::Complete { outcome, window })
            .await
            .map(|_| ())
    }

    /// Reports that the effect did not happen, or that nobody knows; another attempt may follow after `after`.
    /// Returns the state of the operation: released, dead or in doubt.
    ///
    /// # Errors
    ///
    /// as [`Attempt::complete`]
    pub async fn release(
        self,
        error: &str,
        certainty: Certainty,
        after: Duration,
    ) -> Result<StateKind, Unsettled<S>> {
        let (limits, window) = (self.limits, self.window);
        let error = error.into();
        self.conclude(Step::Release {
            error,
            certainty,
            after,
            counted: true,
            limits,
            window,
        })
        .await
    }

    /// Reports that this attempt surely did not apply the effect and that no other attempt would. If an
    /// earlier attempt may have applied it, the operation is in doubt, unless the report is `decisive` about
    /// it: see [`Step::Fail`].
    ///
    /// # Errors
    ///
    /// as [`Attempt::complete`]
    pub async fn fail(self, error: &str, decisive: bool) -> Result<StateKind, Unsettled<S>> {
        let window = self.window;
        self.conclude(Step::Fail {
            error: error.into(),
            decisive,
            window,
        })
        .await
    }

    async fn conclude(self, step: Step) -> Result<StateKind, Unsettled<S>> {
        match self.settle(step).await {
            Ok(Settled::Now(state)) => Ok(state),
            Ok(Settled::Fenced { .. }) => Err(Unsettled {
                error: lost(),
                attempt: None,
            }),
            Ok(Settled::Failed(error)) | Err(error) => Err(Unsettled {
                error,
                attempt: Some(self),
            }),
        }
    }

    async fn settle(&self, step: Step) -> Result<Settled> {
        let (operation, claim_id) = (self.claim.operation.clone(), self.claim.claim_id);
        let settlement = Settlement {
            operation,
            claim_id,
            step,
        };
        self.store.settle_one(settlement).await
    }
}

fn lost() -> Error {
    Error::new(
        ErrorKind::ClaimLost,
        "another claim owns the operation; discard the result",
    )
}
