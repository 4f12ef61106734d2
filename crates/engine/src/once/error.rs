//! The answer of a call of `once` that has no value.

use std::fmt;
use std::time::Duration;

use semel_core::{Advice, Certainty, Code, Differing, OpId, StateKind};

use super::failure::{Panicked, TimedOut};
use super::outcome::Unreadable;

/// The answer to whether the effect of a key happened, over all calls and processes, as far as is
/// known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// It surely did not.
    No,
    /// Nobody knows yet.
    Maybe,
    /// It did, once.
    Yes,
}

/// The reason why a call has no value.
///
/// Each case says whether the effect happened ([`Error::happened`]), whether this call ran it
/// ([`Error::ran`]), what to do ([`Error::advice`]) and which operation it is about. `Display` is
/// one line without key, payload or cause; the cause is the [`source`](std::error::Error::source).
/// A duplicate of something finished is no error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The name, the key, the request or a setting is not acceptable. The store was not asked.
    Invalid {
        /// The fault.
        source: semel_core::Error,
    },
    /// Another caller runs this key, or its next attempt is not due yet, for longer than the call
    /// was to wait, or than the store answered.
    Busy {
        /// The operation.
        operation_id: OpId,
        /// The time until it is worth asking again: the lease or the backoff ends then.
        retry_after: Duration,
    },
    /// The key was used with another request. The outcome on record stays as it is and is not
    /// shown.
    Conflict {
        /// The operation.
        operation_id: OpId,
        /// The members in which this request differs from the first one.
        differing: Differing,
    },
    /// There is no record, and the request is older than the window: a record may have been
    /// forgotten.
    TooOld {
        /// The operation.
        operation_id: OpId,
    },
    /// The entity has this version or a later one.
    Stale {
        /// The operation.
        operation_id: OpId,
        /// The version that was applied.
        applied: u64,
    },
    /// The effect failed, in this call; another attempt may follow.
    Failed {
        /// The operation.
        operation_id: OpId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Says whether the effect happened, in this attempt or an earlier one.
        happened: Happened,
        /// The time until the next attempt may be made.
        retry_after: Duration,
        /// The effect's own error.
        source: Cause,
    },
    /// The operation is dead: it failed for good or is out of attempts, in this call or before.
    Dead {
        /// The operation.
        operation_id: OpId,
        /// This call ran the last attempt.
        ran: bool,
        /// The effect's last error.
        source: Cause,
    },
    /// The effect was started and nobody knows whether it happened; its class forbids another
    /// attempt until an operator or a program resolves the doubt.
    InDoubt {
        /// The operation.
        operation_id: OpId,
        /// This call ran the last attempt.
        ran: bool,
        /// The effect's last error.
        source: Cause,
    },
    /// The claim was lost while the effect ran: the lease ended, because this process stood still
    /// or could not reach the store, and another claimant took over. The result is discarded.
    ClaimLost {
        /// The operation.
        operation_id: OpId,
        /// The state that was found; `None` is absent.
        found: Option<StateKind>,
    },
    /// The operation is completed, and its outcome on record is not the value that was asked for.
    Unreadable {
        /// The operation.
        operation_id: OpId,
        /// The reason.
        source: Unreadable,
    },
    /// The effect ran, but its end could not be reported to the store. The call goes on trying in
    /// the background; if it never succeeds, the class decides when the lease has ended.
    Unrecorded {
        /// The operation.
        operation_id: OpId,
        /// The end of the effect.
        happened: Happened,
        /// The failure of the report.
        source: semel_core::Error,
    },
    /// The store could not be asked, so the effect was not run by this call.
    Store {
        /// The operation.
        operation_id: OpId,
        /// The reason.
        source: semel_core::Error,
    },
    /// Semel was closed. The effect was not run by this call.
    Closed,
}

/// The cause of a failure: the effect's own error, [`Panicked`], [`TimedOut`],
/// [`Dropped`](super::Dropped), or the text on record of an earlier attempt.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

impl Error {
    /// The error of a call that met an operation in `state`, dead or in doubt: an earlier call gave it up.
    pub(super) fn given_up_before(state: StateKind, operation_id: OpId, source: Cause) -> Self {
        let ran = false;
        if state == StateKind::Dead {
            Self::Dead {
                operation_id,
                ran,
                source,
            }
        } else {
            Self::InDoubt {
                operation_id,
                ran,
                source,
            }
        }
    }

    /// Says whether the effect of the key happened, over all calls and processes, as far as is
    /// known.
    pub const fn happened(&self) -> Happened {
        match self {
            Self::Invalid { .. }
            | Self::Conflict { .. }
            | Self::Stale { .. }
            | Self::Dead { .. } => Happened::No,
            Self::Failed { happened, .. } | Self::Unrecorded { happened, .. } => *happened,
            Self::Busy { .. }
            | Self::TooOld { .. }
            | Self::InDoubt { .. }
            | Self::ClaimLost { .. }
            | Self::Store { .. }
            | Self::Closed => Happened::Maybe,
            Self::Unreadable { .. } => Happened::Yes,
        }
    }

    /// Tells whether this call ran the effect.
    pub const fn ran(&self) -> bool {
        match self {
            Self::Failed { .. } | Self::ClaimLost { .. } | Self::Unrecorded { .. } => true,
            Self::Dead { ran, .. } | Self::InDoubt { ran, .. } => *ran,
            Self::Invalid { .. }
            | Self::Busy { .. }
            | Self::Conflict { .. }
            | Self::TooOld { .. }
            | Self::Stale { .. }
            | Self::Unreadable { .. }
            | Self::Store { .. }
            | Self::Closed => false,
        }
    }

    /// Returns the next step. Calling again with the same key is always safe.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Invalid { .. }
            | Self::Conflict { .. }
            | Self::Dead { .. }
            | Self::Unreadable { .. } => Advice::Fix,
            Self::Busy { retry_after, .. } | Self::Failed { retry_after, .. } => Advice::Retry {
                after: *retry_after,
            },
            Self::TooOld { .. } | Self::InDoubt { .. } => Advice::LookUpFirst,
            Self::Stale { .. } | Self::Closed => Advice::Stop,
            Self::ClaimLost { .. } => Advice::Retry {
                after: Duration::ZERO,
            },
            Self::Unrecorded { source, .. } | Self::Store { source, .. } => source.advice(),
        }
    }

    /// Returns the stable code, for programs and for `semel explain CODE`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { source }
            | Self::Unrecorded { source, .. }
            | Self::Store { source, .. } => source.code().as_str(),
            Self::Busy { .. } => Code::InProgress.as_str(),
            Self::Conflict { .. } => "fingerprint-conflict",
            Self::TooOld { .. } => "too-old",
            Self::Stale { .. } => Code::Stale.as_str(),
            Self::Failed { .. } => Code::EffectFailed.as_str(),
            Self::Dead { .. } => "dead",
            Self::InDoubt { .. } => "in-doubt",
            Self::ClaimLost { .. } => Code::ClaimLost.as_str(),
            Self::Unreadable { .. } => Code::OutcomeUnreadable.as_str(),
            Self::Closed => Code::InvalidInput.as_str(),
        }
    }

    /// Returns the operation, for `semel keys explain` and for the logs of services that the effect
    /// called: its hexadecimal form is the idempotency key. `None` if the error is about no
    /// operation.
    pub const fn operation_id(&self) -> Option<OpId> {
        match self {
            Self::Invalid { .. } | Self::Closed => None,
            Self::Busy { operation_id, .. }
            | Self::Conflict { operation_id, .. }
            | Self::TooOld { operation_id }
            | Self::Stale { operation_id, .. }
            | Self::Failed { operation_id, .. }
            | Self::Dead { operation_id, .. }
            | Self::InDoubt { operation_id, .. }
            | Self::ClaimLost { operation_id, .. }
            | Self::Unreadable { operation_id, .. }
            | Self::Unrecorded { operation_id, .. }
            | Self::Store { operation_id, .. } => Some(*operation_id),
        }
    }

    /// Tells whether the effect panicked.
    pub fn is_panic(&self) -> bool {
        self.cause()
            .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Panicked>)
    }

    /// Tells whether the effect ran out of time.
    pub fn is_timeout(&self) -> bool {
        self.cause()
            .is_some_and(<dyn std::error::Error + Send + Sync>::is::<TimedOut>)
    }

    /// Returns the effect's own error if the effect failed: for `downcast_ref`.
    pub fn cause(&self) -> Option<&(dyn std::error::Error + Send + Sync + 'static)> {
        match self {
            Self::Failed { source, .. }
            | Self::Dead { source, .. }
            | Self::InDoubt { source, .. } => Some(&**source),
            Self::Invalid { .. }
            | Self::Busy { .. }
            | Self::Conflict { .. }
            | Self::TooOld { .. }
            | Self::Stale { .. }
            | Self::ClaimLost { .. }
            | Self::Unreadable { .. }
            | Self::Unrecorded { .. }
            | Self::Store { .. }
            | Self::Closed => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { .. } => f.write_str("the call is not acceptable"),
            Self::Busy { .. } => f.write_str("somebody else is at this key"),
            Self::Conflict { differing, .. } => {
                write!(f, "the key was used with another request: {differing}")
            }
            Self::TooOld { .. } => {
                f.write_str("there is no record, and the request is older than the window")
            }
            Self::Stale { applied, .. } => write!(f, "the entity has version {applied} already"),
            Self::Failed { happened, .. } => match happened {
                Happened::No => f.write_str("the effect failed and did not happen"),
                Happened::Maybe | Happened::Yes => {
                    f.write_str("the effect failed and may have happened")
                }
            },
            Self::Dead { .. } => {
                f.write_str("the operation is dead: it did not happen and never will")
            }
            Self::InDoubt { .. } => {
                f.write_str("the effect may have happened; the operation is in doubt")
            }
            Self::ClaimLost { .. } => f.write_str("the claim was lost while the effect ran"),
            Self::Unreadable { .. } => {
                f.write_str("the effect happened, and its outcome cannot be given back")
            }
            Self::Unrecorded { happened, .. } => match happened {
                Happened::Yes => {
                    f.write_str("the effect happened, and the store could not be told")
                }
                Happened::No | Happened::Maybe => {
                    f.write_str("the effect failed, and the store could not be told")
                }
            },
            Self::Store { .. } => f.write_str("the store could not be asked"),
            Self::Closed => f.write_str("semel is closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid { source }
            | Self::Unrecorded { source, .. }
            | Self::Store { source, .. } => Some(source),
            Self::Unreadable { source, .. } => Some(source),
            Self::Failed { source, .. }
            | Self::Dead { source, .. }
            | Self::InDoubt { source, .. } => Some(&**source),
            Self::Busy { .. }
            | Self::Conflict { .. }
            | Self::TooOld { .. }
            | Self::Stale { .. }
            | Self::ClaimLost { .. }
            | Self::Closed => None,
        }
    }
}

impl From<Certainty> for Happened {
    fn from(certainty: Certainty) -> Self {
        match certainty {
            Certainty::NotApplied => Self::No,
            Certainty::MaybeApplied => Self::Maybe,
        }
    }
}
