//! One operation within a transaction of the caller's, as far as it knows no driver: the claim to ask
//! for, what an answer means, and the receipt. Not for running anything: whoever owns a connection
//! admits, runs the effect and completes.
//!
//! Whatever is an error here leaves nothing in the transaction, so the owner of the connection undoes
//! what it did since its savepoint before it hands the error on.

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

/// An admission that is no error.
#[derive(Debug)]
#[must_use = "a claim that is not completed blocks its key"]
pub enum Turn<T> {
    /// The effect is to be run under this claim.
    Granted(Claim),
    /// It happened before, and this is its outcome.
    Replayed(Receipt<T>),
}

impl Call {
    /// The call of `key` under the operation `name`, with the default window and limits.
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

    /// The call of a request, which commits together with its record whatever it says of itself.
    pub fn of(request: &ClaimRequest) -> Self {
        Self {
            request: ClaimRequest {
                start: Start::Unmarked,
                wants_outcome: true,
                ..request.clone()
            },
        }
    }

    /// The claim to ask for.
    pub const fn request(&self) -> &ClaimRequest {
        &self.request
    }

    /// What an answer to the request means.
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
            // No more of the request is at hand here than its hashes.
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
                let (ran, source) = (false, Cause::from("`semel keys explain` tells why"));
                if state == StateKind::Dead {
                    Error::Dead {
                        operation_id,
                        ran,
                        source,
                    }
                } else {
                    Error::InDoubt {
                        operation_id,
                        ran,
                        source,
                    }
                }
            }
            Ok(Admission::Failed(source)) | Err(source) => self.unasked(source),
        })
    }

    /// The outcome of a value: kept up to 1 MiB.
    pub fn outcome<T: Remember>(value: &T) -> Outcome {
        value.to_outcome(Outcome::DEFAULT_LIMIT_BYTES)
    }

    /// A store that could not be asked, for this reason.
    pub fn unasked(&self, source: CoreError) -> Error {
        Error::Store {
            operation_id: self.operation_id(),
            source,
        }
    }

    /// An effect that failed under `claim`, and is undone. Whatever it says of itself, it did not
    /// happen, unless an earlier attempt may have been something else than a part of a transaction.
    pub fn failed(&self, claim: &Claim, failure: Failure) -> Error {
        let retry_after = match failure.end {
            End::NotApplied { retry_after } => retry_after.unwrap_or_default(),
            End::Away { retry_after } => retry_after,
            End::MaybeApplied | End::Dead { .. } | End::GivenBack => std::time::Duration::ZERO,
        };
        Error::Failed {
            operation_id: self.operation_id(),
            attempt: claim.attempt,
            // Only the record knows of an earlier attempt whose end nobody knows.
            happened: if claim.possible_repeat || claim.first_started_at.is_some() {
                Happened::Maybe
            } else {
                Happened::No
            },
            retry_after,
            source: failure.cause,
        }
    }

    /// The receipt of an effect that gave `value`, once its completion is answered.
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
