//! Claims: the exclusive right to attempt an effect, the request for it and the answer.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;

use crate::entity::VersionGate;
use crate::error::Error;
use crate::fingerprint::{Fingerprint, Members};
use crate::key::{Key, Scope};
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::record::{Recovery, StateKind};
use crate::settle::{Settlement, Step};
use crate::time::{Entropy, Timestamp};
use crate::window::Window;

/// 128 random bits, the first 48 of them its [`Claimant`]'s. The claimant makes it *before* it asks, so that it
/// can ask again when the answer was lost. CLM-4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(u128);

/// The identity of a claimant: 48 random bits that a process draws once, which tell its claims from those of
/// others. Shown as twelve hexadecimal digits; never a secret, never a proof.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claimant([u8; 6]);

impl Claimant {
    /// A fresh claimant.
    pub fn random(entropy: &(impl Entropy + ?Sized)) -> Self {
        let mut bytes = [0; 6];
        entropy.fill(&mut bytes);
        Self(bytes)
    }

    /// A fresh claim id of this claimant: 80 random bits behind its own 48.
    pub fn claim(self, entropy: &(impl Entropy + ?Sized)) -> ClaimId {
        let mut bytes = [0; 16];
        let (own, random) = bytes.split_at_mut(6);
        own.copy_from_slice(&self.0);
        entropy.fill(random);
        ClaimId::from_bytes(bytes)
    }
}

impl fmt::Display for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claimant({self})")
    }
}

impl ClaimId {
    /// A fresh claim id.
    pub fn random(entropy: &impl Entropy) -> Self {
        let mut bytes = [0; 16];
        entropy.fill(&mut bytes);
        Self::from_bytes(bytes)
    }

    /// The claim id with these 128 bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The claim id that [`ClaimId::to_bytes`] wrote.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// The claimant that made it.
    pub fn claimant(self) -> Claimant {
        let mut bytes = [0; 6];
        bytes.copy_from_slice(&self.to_bytes()[..6]);
        Claimant(bytes)
    }

    /// Its sixteen bytes, most significant first.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId({self})")
    }
}

/// A number that rises with every claim over the whole life of a store and never restarts. It is passed to
/// effects that can refuse a smaller one. CLM-2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

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

/// The number of attempts after which an operation is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptLimits {
    /// Attempts that end with a failure; with 5, the effect is called five times.
    pub failed: NonZeroU32,
    /// Attempts that vanish with their worker; this limit ends crash loops.
    pub vanished: NonZeroU32,
}

impl Default for AttemptLimits {
    fn default() -> Self {
        const TEN: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);
        const TWENTY: NonZeroU32 = NonZeroU32::MIN.saturating_add(19);
        Self {
            failed: TEN,
            vanished: TWENTY,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Random bytes that count up, each by one.
    struct Counts(std::sync::atomic::AtomicU8);

    impl Entropy for Counts {
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn a_claim_id_says_whose_it_is_and_is_else_by_chance() {
        let entropy = Counts(1.into());
        let claimant = Claimant::random(&entropy);
        assert_eq!(claimant.to_string(), "010203040506");
        let (one, other) = (claimant.claim(&entropy), claimant.claim(&entropy));
        assert_eq!(one.to_string(), "0102030405060708090a0b0c0d0e0f10");
        assert_ne!(one, other);
        assert_eq!((one.claimant(), other.claimant()), (claimant, claimant));
        let nobodys = ClaimId::random(&entropy);
        assert_eq!(nobodys.to_bytes()[0], 0x1b);
        assert_ne!(nobodys.claimant(), claimant);
    }

    #[test]
    fn a_claim_id_is_its_bytes() {
        let id = ClaimId::from_u128(0x0102);
        assert_eq!(ClaimId::from_bytes(id.to_bytes()), id);
        assert_eq!(id.to_bytes()[14..], [1, 2]);
    }

    #[test]
    fn a_fencing_token_is_shown_as_its_number() {
        assert_eq!(FencingToken::new(17).to_string(), "17");
        assert_eq!(FencingToken::new(17).get(), 17);
    }
}
