//! The record that a store keeps of one key.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::attempt::{AttemptEnd, PastAttempt, beginning};
use crate::entity::VersionGate;
use crate::fingerprint::{Fingerprint, Members};
use crate::ids::{ClaimId, FencingToken};
use crate::outcome::Outcome;
use crate::time::Timestamp;
use crate::window::Window;

/// The treatment of a started effect whose attempt vanished or ended in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Run it again; every possible repeat is counted and listed (`on_doubt = "repeat"`).
    Rerun,
    /// Run it again while the provider still recognises the key: this long after the first start.
    RerunWithin(Duration),
    /// Never run it again; it is in doubt until a person or a probe resolves it (`on_doubt = "park"`).
    Park,
}

/// The state of a record, with the data of each state. An absent operation has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// One claimant may attempt the effect; nothing was sent yet.
    Claimed {
        /// End of the lease.
        lease_until: Timestamp,
    },
    /// The effect may have been sent.
    Started {
        /// End of the lease.
        lease_until: Timestamp,
        /// The treatment that a takeover applies.
        recovery: Recovery,
    },
    /// No claimant works on it; the next claim after `not_before` is granted.
    Released {
        /// End of the backoff.
        not_before: Timestamp,
    },
    /// The effect happened and its outcome is remembered.
    Completed {
        /// The time of completion.
        at: Timestamp,
        /// The time for which the record is kept.
        window: Window,
    },
    /// Failed for good or out of attempts.
    Dead {
        /// The time at which it became dead.
        at: Timestamp,
        /// The time for which the record is kept.
        window: Window,
    },
    /// The effect may have happened; nobody may retry it on their own.
    InDoubt {
        /// The time at which the doubt began.
        since: Timestamp,
    },
}

/// The name of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateKind {
    /// See [`State::Claimed`].
    Claimed,
    /// See [`State::Started`].
    Started,
    /// See [`State::Released`].
    Released,
    /// See [`State::Completed`].
    Completed,
    /// See [`State::Dead`].
    Dead,
    /// See [`State::InDoubt`].
    InDoubt,
}

impl StateKind {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Claimed,
        Self::Started,
        Self::Released,
        Self::Completed,
        Self::Dead,
        Self::InDoubt,
    ];

    /// The name as stored and printed: `in_doubt`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Started => "started",
            Self::Released => "released",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::InDoubt => "in_doubt",
        }
    }
}

impl fmt::Display for StateKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl State {
    /// The name of this state.
    pub const fn kind(&self) -> StateKind {
        match self {
            Self::Claimed { .. } => StateKind::Claimed,
            Self::Started { .. } => StateKind::Started,
            Self::Released { .. } => StateKind::Released,
            Self::Completed { .. } => StateKind::Completed,
            Self::Dead { .. } => StateKind::Dead,
            Self::InDoubt { .. } => StateKind::InDoubt,
        }
    }
}

/// The record that a store keeps of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The state of the operation.
    pub state: State,
    /// Digest of the request that first claimed the key.
    pub fingerprint: Option<Fingerprint>,
    /// The members of that request, if the store kept them.
    pub members: Option<Members>,
    /// Transport id of the message that first claimed the key.
    pub transport: Option<Bytes>,
    /// The latest claim.
    pub claim_id: ClaimId,
    /// Its fencing token.
    pub token: FencingToken,
    /// The time of the grant.
    pub claimed_at: Timestamp,
    /// Claims granted so far, resumed ones not counted.
    pub attempts: u32,
    /// The number of those that vanished with their worker.
    pub vanished: u32,
    /// The number of attempts that may have repeated the effect.
    pub possible_repeats: u32,
    /// Set if an earlier attempt may have applied the effect: the treatment that its class asks for.
    pub doubt: Option<Recovery>,
    /// Attempts that ended without completing the operation, the latest [`Record::MAX_PAST`], oldest first;
    /// of more, the earlier of two in a row that were given back is dropped first. ATT-3.
    pub past: Vec<PastAttempt>,
    /// The time at which the key was first claimed.
    pub created_at: Timestamp,
    /// The time at which the effect was first started.
    pub first_started_at: Option<Timestamp>,
    /// The error of the last failed attempt.
    pub last_error: Option<Box<str>>,
    /// The version gate that the latest claim passed.
    pub gate: Option<VersionGate>,
    /// True if an operator wants the record kept beyond its window.
    pub held: bool,
    /// The outcome of a completed operation; a store may leave it on disk until it is needed.
    pub outcome: Option<Outcome>,
}

impl Record {
    /// The number of past attempts that a record keeps.
    pub const MAX_PAST: usize = 16;

    /// The number of attempts that ended with a failure, given that none is running.
    pub const fn failed_attempts(&self) -> u32 {
        self.attempts.saturating_sub(self.vanished)
    }

    /// A copy in memory of its own. The transport id and the entity may be slices of a message, and a slice
    /// keeps alive all that it was cut from, so a record that is kept for long is detached first.
    #[must_use]
    pub fn detached(self) -> Self {
        let gate = self.gate.map(|gate| VersionGate {
            entity: gate.entity.detached(),
            ..gate
        });
        Self {
            transport: self.transport.as_deref().map(Bytes::copy_from_slice),
            gate,
            ..self
        }
    }

    /// The time from which the record may be removed, if it ever may on its own. WIN-1, WIN-3.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Completed { at, window } | State::Dead { at, window } if !self.held => {
                Some(window.expires_at(at))
            }
            State::Completed { .. }
            | State::Dead { .. }
            | State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::InDoubt { .. } => None,
        }
    }

    /// Returns whether the record counts as absent at `now`, swept or not. WIN-4.
    pub fn is_forgotten(&self, now: Timestamp) -> bool {
        match self.state {
            State::Completed { at, window } | State::Dead { at, window } => {
                !self.held && window.forgotten_at(at) <= now
            }
            State::Claimed { .. }
            | State::Started { .. }
            | State::Released { .. }
            | State::InDoubt { .. } => false,
        }
    }
}

impl Record {
    /// Adds the latest claim to the past attempts: it ended at `ended_at`. ATT-3.
    pub(crate) fn remember(&mut self, ended_at: Timestamp, end: AttemptEnd, error: Option<&str>) {
        while self.past.len() >= Self::MAX_PAST {
            // Of two in a row that were given back, the earlier one says the least.
            let is_given_back = |end| end == AttemptEnd::GivenBack;
            let followers = self.past.iter().skip(1).map(|it| it.end).chain([end]);
            let mut pairs = self.past.iter().zip(followers);
            let least = pairs.position(|(it, next)| is_given_back(it.end) && is_given_back(next));
            self.past.remove(least.unwrap_or_default());
        }
        self.past.push(PastAttempt {
            attempt: self.attempts,
            claim_id: self.claim_id,
            token: self.token,
            claimed_at: self.claimed_at,
            ended_at,
            end,
            error: error.map(|error| beginning(error).into()),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::ClaimRequest;
    use crate::decide::{self, Change};
    use crate::key::{Key, Scope};

    #[test]
    fn a_detached_record_keeps_no_memory_of_its_message() {
        let read = Bytes::from_static(b"cart-7 17");
        let entity = Key::shared(read.slice(..6)).expect("a key");
        let scope = Scope::new("", "charge").expect("a scope");
        let request = ClaimRequest {
            transport: Some(read.slice(7..)),
            gate: Some(VersionGate {
                entity: entity.clone(),
                version: 1,
            }),
            ..ClaimRequest::new(scope, entity, ClaimId::from_u128(1))
        };
        let token = FencingToken::new(1);
        let decision = decide::claim(None, None, &request, Timestamp::EPOCH, token);
        let Change::Put(record) = decision.change else {
            panic!("a grant writes its record");
        };
        let (detached, operation) = (record.clone().detached(), request.operation.detached());
        assert_eq!((&detached, &operation), (&record, &request.operation));
        let gate = detached.gate.as_ref().expect("a gate");
        for part in [
            detached.transport.as_deref().expect("an id"),
            gate.entity.as_bytes(),
            operation.key.as_bytes(),
        ] {
            assert!(!read.as_ptr_range().contains(&part.as_ptr()), "{part:?}");
        }
    }
}
