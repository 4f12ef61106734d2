//! The reports of a claimant: start, complete, release, fail, renew.

use std::sync::Arc;
use std::time::Duration;

use crate::attempt::AttemptLimits;
use crate::error::{Certainty, Error};
use crate::ids::ClaimId;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::record::{Recovery, StateKind};
use crate::time::Timestamp;
use crate::window::Window;

/// One step of a claim. A repeat after a lost answer is harmless: OUT-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    /// The operation.
    pub operation: Operation,
    /// The claim that reports. Any other is fenced: CLM-3.
    pub claim_id: ClaimId,
    /// The step that it reports.
    pub step: Step,
}

/// The steps that a claim reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The effect is about to be sent. Durable before the answer.
    Start {
        /// The treatment that a takeover applies from here on.
        recovery: Recovery,
        /// True if the effect may have begun already: evidence, which a claim that lost its entity or
        /// its provider's window gives all the same. VER-2, DBT-3.
        has_begun: bool,
    },
    /// The effect happened.
    Complete {
        /// Its result.
        outcome: Outcome,
        /// The time for which to remember it.
        window: Window,
    },
    /// The attempt is over without a result; another may follow.
    Release {
        /// The reason, one line.
        error: Box<str>,
        /// Says whether the effect surely did not happen.
        certainty: Certainty,
        /// Backoff before the next attempt.
        after: Duration,
        /// True if it counts as a failed attempt; work given back at shutdown does not.
        counted: bool,
        /// Caps on attempts; at the cap the operation is dead, or in doubt if the effect may have
        /// happened.
        limits: AttemptLimits,
        /// The time for which a dead record is kept.
        window: Window,
    },
    /// This attempt surely did not apply the effect, and no other will.
    Fail {
        /// The reason, one line.
        error: Box<str>,
        /// True if the failure speaks for the earlier attempts as well, which only an answer from
        /// behind the provider's own look-up of the key does. Any other failure leaves the
        /// operation in doubt if an earlier attempt may have applied the effect. DBT-6. A decisive
        /// one also ends a doubt, as a completion does, if it comes from the claim in doubt.
        decisive: bool,
        /// The time for which to keep the record.
        window: Window,
    },
}

/// The answer to a [`Settlement`].
#[derive(Clone, Debug)]
#[must_use = "a fenced settlement must not be acknowledged"]
pub enum Settled {
    /// The record is in this state now, or was already by this very claim.
    Now(StateKind),
    /// Another claim owns the operation, or none does: discard the result, do not acknowledge.
    Fenced {
        /// The state that the store found; `None` is absent.
        found: Option<StateKind>,
    },
    /// This item could not be settled, while others of its batch could.
    Failed(Error),
}

/// A request for more time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// The operation.
    pub operation: Operation,
    /// The claim to extend.
    pub claim_id: ClaimId,
    /// The new lease, counted from now.
    pub lease: Duration,
}

/// The answer to a [`Renewal`].
#[derive(Clone, Debug)]
#[must_use = "a lost claim must stop its effect"]
pub enum Renewed {
    /// The lease runs until this time.
    Until(Timestamp),
    /// The claim is lost; the effect should stop. CLM-5.
    Lost {
        /// The state that the store found; `None` is absent.
        found: Option<StateKind>,
    },
    /// This item could not be renewed.
    Failed(Error),
}

/// A named number that is written together with a batch of settlements, such as the length of an
/// output file or the position of a source. MRK-1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The name of the number.
    pub name: Arc<str>,
    /// Its new value.
    pub value: u64,
}
