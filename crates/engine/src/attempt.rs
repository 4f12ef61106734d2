//! One operation at a time: claim, run, complete, as a linear handle.
//!
//! An [`Attempt`] is consumed by settling it, so settling twice does not compile. Dropping an attempt settles
//! nothing: its lease cleans up. Its [`Reports`] are the same steps as data, for an attempt that ends in another call,
//! another process or a batch.

use std::num::NonZeroU32;
use std::time::Duration;

use semel_core::claim::AttemptLimits;
use semel_core::{
    Admission, Certainty, Claim, ClaimId, ClaimRequest, Error, ErrorKind, Operation, Outcome,
    Recovery, Renewal, Renewed, Result, Settled, Settlement, StateKind, Step, Store, StoreExt,
    Timestamp, Window,
};

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
    reports: Reports,
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
            Admission::Granted(claim) => {
                let reports = Reports {
                    operation: claim.operation.clone(),
                    claim_id: claim.claim_id,
                    window,
                    limits,
                };
                Ok(Admitted::Run(Self {
                    store,
                    claim,
                    reports,
                }))
            }
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
        match self.settle(self.reports.start(recovery)).await? {
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
        let renewal = self.reports.renewal(lease);
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
        let report = self.reports.complete(outcome);
        self.conclude(report).await.map(|_| ())
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
        let report = self.reports.release(error, certainty, after);
        self.conclude(report).await
    }

    /// Reports that this attempt surely did not apply the effect and that no other attempt would. If an
    /// earlier attempt may have applied it, the operation is in doubt, unless the report is `decisive` about
    /// it: see [`Step::Fail`].
    ///
    /// # Errors
    ///
    /// as [`Attempt::complete`]
    pub async fn fail(self, error: &str, decisive: bool) -> Result<StateKind, Unsettled<S>> {
        let report = self.reports.fail(error, decisive);
        self.conclude(report).await
    }

    async fn conclude(self, report: Settlement) -> Result<StateKind, Unsettled<S>> {
        match self.settle(report).await {
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

    async fn settle(&self, report: Settlement) -> Result<Settled> {
        self.store.settle_one(report).await
    }
}

/// The reports of one attempt, to be given to the store by whoever knows the claim: they need no memory but this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reports {
    /// The operation.
    pub operation: Operation,
    /// The claim that reports.
    pub claim_id: ClaimId,
    /// The time for which to remember the end of the operation.
    pub window: Window,
    /// Caps on attempts.
    pub limits: AttemptLimits,
}

impl Reports {
    /// Reports that the effect is about to be sent; `recovery` is what a takeover does from then on.
    pub fn start(&self, recovery: Recovery) -> Settlement {
        self.report(Step::Start {
            recovery,
            has_begun: false,
        })
    }

    /// Reports that the effect happened.
    pub fn complete(&self, outcome: Outcome) -> Settlement {
        let window = self.window;
        self.report(Step::Complete { outcome, window })
    }

    /// Reports that the effect did not happen, or that nobody knows; another attempt may follow after `after`.
    pub fn release(&self, error: &str, certainty: Certainty, after: Duration) -> Settlement {
        self.release_within(self.limits, error, certainty, after)
    }

    /// Reports that this attempt surely did not apply the effect, and that no other would; see [`Step::Fail`] for `decisive`.
    pub fn fail(&self, error: &str, decisive: bool) -> Settlement {
        self.report(Step::Fail {
            error: error.into(),
            decisive,
            window: self.window,
        })
    }

    /// Reports that this attempt may have applied the effect, and that no other is wanted: the operation is in doubt
    /// if the effect was started, else dead.
    pub fn give_up(&self, error: &str) -> Settlement {
        let limits = AttemptLimits {
            failed: NonZeroU32::MIN,
            ..self.limits
        };
        self.release_within(limits, error, Certainty::MaybeApplied, Duration::ZERO)
    }

    /// Asks for this much more time.
    pub fn renewal(&self, lease: Duration) -> Renewal {
        Renewal {
            operation: self.operation.clone(),
            claim_id: self.claim_id,
            lease,
        }
    }

    fn release_within(
        &self,
        limits: AttemptLimits,
        error: &str,
        certainty: Certainty,
        after: Duration,
    ) -> Settlement {
        self.report(Step::Release {
            error: error.into(),
            certainty,
            after,
            counted: true,
            limits,
            window: self.window,
        })
    }

    fn report(&self, step: Step) -> Settlement {
        Settlement {
            operation: self.operation.clone(),
            claim_id: self.claim_id,
            step,
        }
    }
}

fn lost() -> Error {
    Error::new(
        ErrorKind::ClaimLost,
        "another claim owns the operation; discard the result",
    )
}
