//! Claims: the exclusive right to attempt an effect, the request for it and the answer.

use std::time::Duration;

use bytes::Bytes;

pub use crate::attempt::AttemptLimits;
pub use crate::ids::{ClaimId, Claimant, FencingToken};

use crate::entity::VersionGate;
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Members};
use crate::key::{Key, Scope};
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::record::{Recovery, StateKind};
use crate::settle::{Settlement, Step};
use crate::time::Timestamp;
use crate::window::Window;

/// The way in which the effect will begin, which decides what a crash can leave behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The effect commits together with the record or is gated by version (classes A and D): a
    /// claim that vanishes leaves no doubt, so a store need not make it durable.
    Unmarked,
    /// The effect may be sent as soon as the claim is granted (classes B and C): the store writes the record as
    /// started, durably, before it answers. A claim whose lease ends is then treated according to this
    /// recovery.
    Marked(Recovery),
}

/// A request for the right to attempt one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The operation to attempt.
    pub operation: Operation,
    /// Made by the claimant; a second request with the same id resumes its own claim.
    pub claim_id: ClaimId,
    /// Digest of the request bound to the key; `None` switches the check off.
    pub fingerprint: Option<Fingerprint>,
    /// The members of that request, kept with its fingerprint and never without one.
    pub members: Option<Members>,
    /// Identity of the delivery at its broker, to tell a redelivery from a republish.
    pub transport: Option<Bytes>,
    /// The time at which the message was first published; `None` switches the age gate off.
    pub birth: Option<Timestamp>,
    /// The window that the age gate enforces.
    pub window: Window,
    /// The time for which the claim lasts unless it is renewed.
    pub lease: Duration,
    /// Caps on attempts.
    pub limits: AttemptLimits,
    /// The way in which the effect begins.
    pub start: Start,
    /// Entity and version, if the operation is gated by version.
    pub gate: Option<VersionGate>,
    /// True if a replay should carry the outcome. Some stores need a disk read for it.
    pub wants_outcome: bool,
}

impl ClaimRequest {
    /// A request with a lease of 30 seconds, the default window and limits, and nothing optional.
    pub fn new(scope: Scope, key: Key, claim_id: ClaimId) -> Self {
        Self {
            operation: Operation::new(scope, key),
            claim_id,
            fingerprint: None,
            members: None,
            transport: None,
            birth: None,
            window: Window::DEFAULT,
            lease: Duration::from_secs(30),
            limits: AttemptLimits::default(),
            start: Start::Unmarked,
            gate: None,
            wants_outcome: true,
        }
    }
}

/// A granted claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a claim that nobody settles blocks its key until the lease ends"]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts about one grant"
)]
pub struct Claim {
    /// The operation.
    pub operation: Operation,
    /// The claim id, with which the claimant settles and renews.
    pub claim_id: ClaimId,
    /// The fencing token, for effects that can refuse a smaller one.
    pub token: FencingToken,
    /// End of the lease on the store's clock.
    pub lease_until: Timestamp,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// True if this claim replaced an earlier one whose lease ran out.
    pub takeover: bool,
    /// True if this very claim had been granted before and its answer was lost.
    pub resumed: bool,
    /// True if a finished record of this key was found past its window.
    pub formerly_expired: bool,
    /// True if an earlier attempt may have applied the effect and the policy is to repeat it.
    pub possible_repeat: bool,
    /// The first start of the effect, over all attempts.
    pub first_started_at: Option<Timestamp>,
}

/// The part of a claim that does not depend on its claimant or on its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent facts about one grant"
)]
pub struct Grant {
    /// The fencing token, for effects that can refuse a smaller one.
    pub token: FencingToken,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// True if this claim replaced an earlier one whose lease ran out.
    pub takeover: bool,
    /// True if this very claim had been granted before and its answer was lost.
    pub resumed: bool,
    /// True if a finished record of this key was found past its window.
    pub formerly_expired: bool,
    /// True if an earlier attempt may have applied the effect and the policy is to repeat it.
    pub possible_repeat: bool,
}

impl Grant {
    /// The grant of an operation of which the store knows nothing.
    pub const fn first(token: FencingToken) -> Self {
        Self {
            token,
            attempt: 1,
            takeover: false,
            resumed: false,
            formerly_expired: false,
            possible_repeat: false,
        }
    }

    /// The claim that `request` asked for at `now`, for operations whose claims no store keeps.
    pub fn claim(self, request: &ClaimRequest, now: Timestamp) -> Claim {
        Claim {
            operation: request.operation.clone(),
            claim_id: request.claim_id,
            token: self.token,
            lease_until: now.plus(request.lease),
            attempt: self.attempt,
            takeover: self.takeover,
            resumed: self.resumed,
            formerly_expired: self.formerly_expired,
            possible_repeat: self.possible_repeat,
            first_started_at: None,
        }
    }
}

impl Claim {
    /// The settlement that reports that its effect happened.
    pub fn completion(&self, outcome: Outcome, window: Window) -> Settlement {
        Settlement {
            operation: self.operation.clone(),
            claim_id: self.claim_id,
            step: Step::Complete { outcome, window },
        }
    }

    /// The part of it that does not depend on its claimant or on its lease.
    pub const fn grant(&self) -> Grant {
        Grant {
            token: self.token,
            attempt: self.attempt,
            takeover: self.takeover,
            resumed: self.resumed,
            formerly_expired: self.formerly_expired,
            possible_repeat: self.possible_repeat,
        }
    }
}

/// The origin of a duplicate, as far as transport ids tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Duplicate {
    /// No duplicate: this very claim brought the record into its state, and its answer was lost.
    Own,
    /// The same transport id: the broker delivered the same message again.
    Redelivery,
    /// Another transport id: the same intent was published again.
    Republish,
    /// One of the two carried no transport id.
    Unknown,
}

impl Duplicate {
    /// Returns its name for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Redelivery => "redelivery",
            Self::Republish => "republish",
            Self::Unknown => "unknown",
        }
    }
}

/// The answer to a [`ClaimRequest`]. All of them are successes but [`Admission::Failed`].
#[derive(Clone, Debug)]
#[must_use = "an admission says who may run the effect"]
pub enum Admission {
    /// Run the effect.
    Granted(Claim),
    /// The operation is completed; this is its outcome. Acknowledge.
    Replay {
        /// The remembered outcome, if the request wanted it.
        outcome: Option<Outcome>,
        /// The origin of this duplicate.
        duplicate: Duplicate,
    },
    /// Another claim holds the operation, or a retry is due later. Hold the message back; never acknowledge.
    Busy {
        /// The time at which to ask again, on the store's clock.
        until: Timestamp,
        /// The store's clock now, so that the caller can compute how long to wait.
        now: Timestamp,
    },
    /// The key was used with another request. Quarantine the message.
    Conflict {
        /// The origin of this duplicate.
        duplicate: Duplicate,
        /// The members of the request that first claimed the key, if the store kept them.
        first: Option<Members>,
    },
    /// The entity has this version or a later one. Acknowledge; not counted as a duplicate.
    Stale {
        /// The version that was applied.
        applied: u64,
    },
    /// The operation is dead or in doubt, and its durable record says so. Acknowledge.
    Parked {
        /// [`StateKind::Dead`] or [`StateKind::InDoubt`].
        state: StateKind,
        /// The origin of this duplicate.
        duplicate: Duplicate,
        /// The store's clock now. Evidence about the doubt that is gathered after this answer is later than
        /// this time. DBT-5.
        now: Timestamp,
    },
    /// There is no record, and the message is older than the window. Quarantine it.
    TooOld,
    /// This item could not be decided, while others of its batch could.
    Failed(Error),
}

impl Admission {
    /// Returns the name of the decision for programs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Granted(_) => "granted",
            Self::Replay { .. } => "replay",
            Self::Busy { .. } => "busy",
            Self::Conflict { .. } => "conflict",
            Self::Stale { .. } => "stale",
            Self::Parked { .. } => "parked",
            Self::TooOld => "too_old",
            Self::Failed(_) => "failed",
        }
    }
}
