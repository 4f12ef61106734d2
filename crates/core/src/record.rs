//! What a store remembers of one key.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use crate::attempt::PastAttempt;
use crate::claim::{ClaimId, FencingToken};
use crate::entity::VersionGate;
use crate::fingerprint::{Fingerprint, Members};
use crate::outcome::Outcome;
use crate::time::Timestamp;
use crate::window::Window;

/// What is done about a started effect whose attempt vanished or ended in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Run it again; every possible repeat is counted and listed (`on_doubt = "repeat"`).
    Rerun,
    /// Run it again while the provider still recognises the key: this long after the first start.
    RerunWithin(Duration),
    /// Never run it again; it is in doubt until somebody resolves it (`on_doubt = "park"`).
    Park,
}

/// The state of a record, with what each state needs. Absent is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody may attempt the effect; nothing was sent yet.
    Claimed {
        /// End of the lease.
        lease_until: Timestamp,
    },
    /// The effect may have been sent.
    Started {
        /// End of the lease.
        lease_until: Timestamp,
        /// What a takeover does.
        recovery: Recovery,
    },
    /// Nobody is at it; the next claim after `not_before` is granted.
    Released {
        /// End of the backoff.
        not_before: Timestamp,
    },
    /// The effect happened and its outcome is remembered.
    Completed {
        /// When.
        at: Timestamp,
        /// How long the record is kept.
        window: Window,
    },
    /// Failed for good or out of attempts.
    Dead {
        /// When.
        at: Timestamp,
        /// How long the record is kept.
        window: Window,
    },
    /// The effect may have happened; nobody may retry it on their own.
    InDoubt {
        /// Since when.
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

/// What a store remembers of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where the operation stands.
    pub state: State,
    /// Digest of the request that first claimed the key.
    pub fingerprint: Option<Fingerprint>,
    /// The members of that request, where they were kept.
    pub members: Option<Members>,
    /// Transport id of the message that first claimed the key.
    pub transport: Option<Bytes>,
    /// The latest claim.
    pub claim_id: ClaimId,
    /// Its fencing token.
    pub token: FencingToken,
    /// When it was granted.
    pub claimed_at: Timestamp,
    /// Claims granted so far, resumed ones not counted.
    pub attempts: u32,
    /// How many of those vanished with their worker.
    pub vanished: u32,
    /// How many attempts may have repeated the effect.
    pub possible_repeats: u32,
    /// An earlier attempt may have applied the effect; this is what its class does about it.
    pub doubt: Option<Recovery>,
    /// Attempts that ended without completing the operation, the latest [`Record::MAX_PAST`], oldest
    /// first; where there are more, of two in a row that were given back the earlier goes. ATT-3.
    pub past: Vec<PastAttempt>,
    /// When the key was first claimed.
    pub created_at: Timestamp,
    /// When the effect was first started.
    pub first_started_at: Option<Timestamp>,
    /// Why the last attempt failed.
    pub last_error: Option<Box<str>>,
    /// The version gate that the latest claim passed.
    pub gate: Option<VersionGate>,
    /// An operator wants it kept beyond its window.
    pub held: bool,
    /// The outcome of a completed operation; a store may leave it on disk until it is wanted.
    pub outcome: Option<Outcome>,
}

impl Record {
    /// How many past attempts a record keeps.
    pub const MAX_PAST: usize = 16;

    /// Attempts that ended with a failure, given that none is running.
    pub const fn failed_attempts(&self) -> u32 {
        self.attempts.saturating_sub(self.vanished)
    }

    /// The same in memory of its own. The transport id and the entity may be slices of a message, and a slice
    /// keeps all that it was cut from, so whatever is kept for long is detached first.
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

    /// When the record may be removed, if it ever may on its own. WIN-1, WIN-3.
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

    /// Whether the record counts as absent at `now`, swept or not. WIN-4.
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
