//! One operation within the caller's own transaction, without any driver: the claim to ask for, the
//! meaning of an answer, and the receipt. Not for running anything: the owner of a connection admits,
//! runs the effect and completes.
//!
//! After any error here nothing may stay in the transaction, so the owner of the connection undoes
//! everything since its savepoint before it passes the error on.

mod watch;

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;

use semel_core::{
    Admission, Claim, ClaimId, ClaimRequest, Differing, Error as CoreError, ErrorKind, OpId,
    Outcome, Result as CoreResult, Scope, Settled, Start, StateKind, Window,
};

use super::error::{Cause, Error, Happened};
use super::failure::{End, Failure};
use super::key::ToKey;
use super::outcome::Remember;
use super::receipt::{Answered, Receipt};
use crate::system::SystemEntropy;
use watch::CallTrace;

pub use watch::Watch;

/// A call of an operation within a caller's transaction. One that is dropped before it has [ended](Self::ended) is told
/// to its observer as given back.
pub struct Call {
    request: ClaimRequest,
    trace: Option<Box<CallTrace>>,
}

/// An admission that is not an error.
#[derive(Debug)]
#[must_use = "a claim that is not completed blocks its key"]
pub enum Turn<T> {
    /// The effect is to run under this claim.
    Granted(Claim),
    /// It happened before, and this is its outcome.
    Replayed(Receipt<T>),
}

impl Call {
    /// Returns the call of `key` under the operation `name`, with the default window and limits.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: the name or the key is not acceptable
    pub fn new(name: &str, key: impl ToKey) -> Result<Self, Error> {
        let invalid = |message: String| Error::Invalid {
            source: CoreError::new(ErrorKind::InvalidInput, message),
        };
        let scope = Scope::new("", name)
            .map_err(|why| invalid(format!("the name is not acceptable: {why}")))?;
        let key = key
            .to_key()
            .map_err(|why| invalid(format!("the key is not acceptable: {why}")))?;
        let claim_id = ClaimId::random(&SystemEntropy);
        Ok(Self::of(&ClaimRequest::new(scope, key, claim_id)))
    }

    /// Returns the call of a request, which commits together with its record whatever the request
    /// says.
    pub fn of(request: &ClaimRequest) -> Self {
        Self {
            request: ClaimRequest {
                start: Start::Unmarked,
                wants_outcome: true,
                ..request.clone()
            },
            trace: None,
        }
    }

    /// Returns the same call, which begins now and is watched so.
    #[must_use]
    pub fn watched(mut self, watch: &Watch) -> Self {
        self.trace = watch.begin(&self.request);
        self
    }

    /// Returns the claim to ask for, now.
    pub fn ask(&mut self) -> &ClaimRequest {
        if let Some(trace) = &mut self.trace {
            trace.asks();
        }
        &self.request
    }

    /// Returns the turn that an answer to the request gives. The effect of one that is granted begins now.
    ///
    /// # Errors
    ///
    /// every answer that neither lets the effect run nor has its outcome
    pub fn turn<T: Remember>(&mut self, answer: CoreResult<Admission>) -> Result<Turn<T>, Error> {
        if let Some(trace) = &mut self.trace {
            trace.answered(&answer);
        }
        let operation_id = self.operation_id();
        Err(match answer {
            Ok(Admission::Granted(claim)) => return Ok(Turn::Granted(claim)),
            Ok(Admission::Replay {
                outcome: Some(outcome),
                duplicate,
            }) => match T::from_outcome(&outcome) {
                Ok(value) => {
                    return Ok(Turn::Replayed(Receipt {
                        value,
                        answered: Answered::Replayed { duplicate },
                        operation_id,
                        kept: true,
                    }));
                }
                Err(source) => Error::Unreadable {
                    operation_id,
                    source,
                },
            },
            Ok(Admission::Replay { outcome: None, .. }) => {
                let message = "the store answered a replay without the outcome";
                self.unasked(CoreError::new(ErrorKind::Internal, message))
            }
            Ok(Admission::Busy { until, now }) => Error::Busy {
                operation_id,
                retry_after: until.since(now),
            },
            // Only the hashes of the request are at hand here.
            Ok(Admission::Conflict { first, .. }) => Error::Conflict {
                operation_id,
                differing: Differing::unnamed(first.as_ref(), self.request.members.as_ref()),
            },
            Ok(Admission::Stale { applied }) => Error::Stale {
                operation_id,
                applied,
            },
            Ok(Admission::TooOld) => Error::TooOld { operation_id },
            Ok(Admission::Parked { state, .. }) => {
                let source = Cause::from("`semel keys explain` tells why");
                Error::given_up_before(state, operation_id, source)
            }
            Ok(Admission::Failed(source)) | Err(source) => self.unasked(source),
        })
    }

    /// Runs the effect; returns its value, its outcome, which is kept up to 1 MiB, and the window for which that is
    /// remembered. A panic goes on, once it is noted.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`]: the effect failed, and is to be undone
    ///
    /// # Cancel safety   the effect is dropped half way
    pub async fn run<T: Remember>(
        &mut self,
        claim: &Claim,
        effect: impl Future<Output = Result<T, Failure>>,
    ) -> Result<(T, Outcome, Window), Error> {
        let mut effect = pin!(effect);
        let ended = poll_fn(|context| {
            let polled = catch_unwind(AssertUnwindSafe(|| effect.as_mut().poll(context)));
            match polled {
                Ok(polled) => polled.map(Ok),
                Err(panic) => Poll::Ready(Err(panic)),
            }
        });
        let ended = ended.await;
        self.ran(claim, ended)
    }

    /// Does what [`run`](Self::run) does with an effect that blocks.
    ///
    /// # Errors
    ///
    /// as [`run`](Self::run)
    pub fn run_blocking<T: Remember>(
        &mut self,
        claim: &Claim,
        effect: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<(T, Outcome, Window), Error> {
        let ended = catch_unwind(AssertUnwindSafe(effect));
        self.ran(claim, ended)
    }

    fn ran<T: Remember>(
        &mut self,
        claim: &Claim,
        ended: thread::Result<Result<T, Failure>>,
    ) -> Result<(T, Outcome, Window), Error> {
        let value = match ended {
            Ok(value) => value,
            Err(panic) => {
                self.abandon();
                resume_unwind(panic);
            }
        };
        if let Some(trace) = &mut self.trace {
            trace.ran(value.as_ref().err());
        }
        let value = value.map_err(|failure| self.failed(claim, failure))?;
        let outcome = value.to_outcome(Outcome::DEFAULT_LIMIT_BYTES);
        Ok((value, outcome, self.request.window))
    }

    /// Hands over the spans of a call without an answer.
    fn abandon(&mut self) {
        if let Some(trace) = self.trace.take() {
            trace.abandon(&self.request);
        }
    }

    /// Hands over the spans of a call that is answered so, and returns the answer: the last thing of a call, after its
    /// savepoint.
    ///
    /// # Errors
    ///
    /// those of the answer
    pub fn ended<T>(mut self, answer: Result<Receipt<T>, Error>) -> Result<Receipt<T>, Error> {
        if let Some(trace) = self.trace.take() {
            trace.end(&self.request, &answer);
        }
        answer
    }

    /// Returns the error of a store that could not be asked.
    pub fn unasked(&self, source: CoreError) -> Error {
        Error::Store {
            operation_id: self.operation_id(),
            source,
        }
    }

    /// Returns the error of an effect that failed under `claim` and is undone. Whatever the failure
    /// says, the effect did not happen, unless an earlier attempt may have run outside a transaction.
    fn failed(&self, claim: &Claim, failure: Failure) -> Error {
        let retry_after = match failure.end {
            End::NotApplied { retry_after } => retry_after.unwrap_or_default(),
            End::Away { retry_after } => retry_after,
            End::MaybeApplied | End::Dead { .. } | End::GivenBack => std::time::Duration::ZERO,
        };
        Error::Failed {
            operation_id: self.operation_id(),
            attempt: claim.attempt,
            // Only the record knows of an earlier attempt whose end is unknown.
            happened: if claim.possible_repeat || claim.first_started_at.is_some() {
                Happened::Maybe
            } else {
                Happened::No
            },
            retry_after,
            source: failure.cause,
        }
    }

    /// Returns the receipt of an effect that gave `value`, once its completion is answered.
    ///
    /// # Errors
    ///
    /// [`Error::ClaimLost`]; [`Error::Failed`]: the completion was refused, and the effect is undone
    pub fn receipt<T>(
        &mut self,
        claim: &Claim,
        value: T,
        outcome: &Outcome,
        answer: CoreResult<Settled>,
    ) -> Result<Receipt<T>, Error> {
        if let Some(trace) = &mut self.trace {
            trace.completed(&answer);
        }
        let operation_id = self.operation_id();
        match answer {
            Ok(Settled::Now(StateKind::Completed)) => Ok(Receipt {
                value,
                answered: Answered::Ran {
                    attempt: claim.attempt,
                    takeover: claim.takeover,
                    possible_repeat: claim.possible_repeat,
                },
                operation_id,
                kept: matches!(outcome, Outcome::Kept { .. }),
            }),
            Ok(Settled::Now(state)) => Err(Error::ClaimLost {
                operation_id,
                found: Some(state),
            }),
            Ok(Settled::Fenced { found }) => Err(Error::ClaimLost {
                operation_id,
                found,
            }),
            Ok(Settled::Failed(source)) | Err(source) => {
                Err(self.failed(claim, Failure::not_applied(source)))
            }
        }
    }

    fn operation_id(&self) -> OpId {
        self.request.operation.id()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // An observer that panics, too, would end the process.
        if !thread::panicking() {
            self.abandon();
        }
    }
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}
