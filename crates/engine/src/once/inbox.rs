//! One operation within the caller's own transaction, without any driver: the claim to ask for, the
//! meaning of an answer, and the receipt. Not for running anything: the owner of a connection admits,
//! runs the effect and completes.
//!
//! After any error here nothing may stay in the transaction, so the owner of the connection undoes
//! everything since its savepoint before it passes the error on.

use semel_core::{
    Admission, Claim, ClaimId, ClaimRequest, Differing, Error as CoreError, ErrorKind, OpId,
    Outcome, Result as CoreResult, Scope, Settled, Start, StateKind,
};

use super::error::{Cause, Error, Happened};
use super::failure::{End, Failure};
use super::key::ToKey;
use super::outcome::Remember;
use super::receipt::{Answered, Receipt};
use crate::system::SystemEntropy;

/// A call of an operation within a caller's transaction.
#[derive(Clone, Debug)]
pub struct Call {
    request: ClaimRequest,
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
        }
    }

    /// Returns the claim to ask for.
    pub const fn request(&self) -> &ClaimRequest {
        &self.request
    }

    /// Returns the turn that an answer to the request gives.
    ///
    /// # Errors
    ///
    /// every answer that neither lets the effect run nor has its outcome
    pub fn turn<T: Remember>(&self, answer: CoreResult<Admission>) -> Result<Turn<T>, Error> {
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

    /// Returns the outcome of a value: kept up to 1 MiB.
    pub fn outcome<T: Remember>(value: &T) -> Outcome {
        value.to_outcome(Outcome::DEFAULT_LIMIT_BYTES)
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
    pub fn failed(&self, claim: &Claim, failure: Failure) -> Error {
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
        &self,
        claim: &Claim,
        value: T,
        outcome: &Outcome,
        answer: CoreResult<Settled>,
    ) -> Result<Receipt<T>, Error> {
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
