//! A record of the store and an entity, as small as what a decision depends on, and as the core has them.

use semel_core::{
    Entity, EntityRecord, FencingToken, Record, Recovery, State, Timestamp, VersionGate,
};

use super::numbers::{
    NONE, claim_id, claim_number, fingerprint, instant, outcome, outcome_number, small, tick,
    ticks, window,
};
use super::setup::Setup;

/// A record, as far as a decision depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rec {
    pub(crate) state: Stands,
    pub(crate) claim: u8,
    pub(crate) token: u8,
    pub(crate) attempts: u8,
    pub(crate) vanished: u8,
    pub(crate) repeats: u8,
    pub(crate) doubt: Option<Recover>,
    pub(crate) first_start: u8,
    pub(crate) version: u8,
    pub(crate) other_request: bool,
    pub(crate) held: bool,
    /// The token of the claim whose effect it was; 0 is none.
    pub(crate) outcome: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stands {
    Claimed { until: u8 },
    Started { until: u8, recover: Recover },
    Released { not_before: u8 },
    Completed { at: u8 },
    Dead { at: u8 },
    InDoubt { since: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Recover {
    Rerun,
    Within,
    Park,
}

/// The entity of a gated configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ent {
    /// 0 is none.
    pub(crate) applied: u8,
    /// A claim, and the end of its lease.
    pub(crate) holder: Option<(u8, u8)>,
}

impl Rec {
    /// The core's form, on which the store decides. Values on which no decision depends are made up: the
    /// times of creation and claim, the transport id, the last error and the past.
    pub(crate) fn to_core(self, setup: &Setup, entity: &Entity) -> Record {
        let window = window(setup);
        Record {
            state: match self.state {
                Stands::Claimed { until } => State::Claimed {
                    lease_until: instant(until),
                },
                Stands::Started { until, recover } => State::Started {
                    lease_until: instant(until),
                    recovery: recover.to_core(setup),
                },
                Stands::Released { not_before } => State::Released {
                    not_before: instant(not_before),
                },
                Stands::Completed { at } => State::Completed {
                    at: instant(at),
                    window,
                },
                Stands::Dead { at } => State::Dead {
                    at: instant(at),
                    window,
                },
                Stands::InDoubt { since } => State::InDoubt {
                    since: instant(since),
                },
            },
            fingerprint: Some(fingerprint(self.other_request)),
            members: None,
            transport: None,
            claim_id: claim_id(self.claim),
            token: FencingToken::new(self.token.into()),
            claimed_at: Timestamp::EPOCH,
            attempts: self.attempts.into(),
            vanished: self.vanished.into(),
            possible_repeats: self.repeats.into(),
            doubt: self.doubt.map(|doubt| doubt.to_core(setup)),
            past: Vec::new(),
            created_at: Timestamp::EPOCH,
            first_started_at: (self.first_start != NONE).then(|| instant(self.first_start)),
            last_error: None,
            gate: (self.version > 0).then(|| VersionGate {
                entity: entity.clone(),
                version: self.version.into(),
            }),
            held: self.held,
            outcome: (self.outcome > 0).then(|| outcome(self.outcome)),
        }
    }

    /// The model's form of the record that the store decided.
    pub(crate) fn of(record: &Record) -> Self {
        Self {
            state: match record.state {
                State::Claimed { lease_until } => Stands::Claimed {
                    until: tick(lease_until),
                },
                State::Started {
                    lease_until,
                    recovery,
                } => Stands::Started {
                    until: tick(lease_until),
                    recover: Recover::of(recovery),
                },
                State::Released { not_before } => Stands::Released {
                    not_before: tick(not_before),
                },
                State::Completed { at, .. } => Stands::Completed { at: tick(at) },
                State::Dead { at, .. } => Stands::Dead { at: tick(at) },
                State::InDoubt { since } => Stands::InDoubt { since: tick(since) },
            },
            claim: small(claim_number(record.claim_id)),
            token: small(record.token.get()),
            attempts: small(record.attempts.into()),
            vanished: small(record.vanished.into()),
            repeats: small(record.possible_repeats.into()),
            doubt: record.doubt.map(Recover::of),
            first_start: record.first_started_at.map_or(NONE, tick),
            version: record.gate.as_ref().map_or(0, |gate| small(gate.version)),
            other_request: record.fingerprint == Some(fingerprint(true)),
            held: record.held,
            outcome: record.outcome.as_ref().map_or(0, outcome_number),
        }
    }

    /// The end of its lease, where it has one.
    pub(crate) fn lease(&self) -> Option<u8> {
        match self.state {
            Stands::Claimed { until } | Stands::Started { until, .. } => Some(until),
            Stands::Released { .. }
            | Stands::Completed { .. }
            | Stands::Dead { .. }
            | Stands::InDoubt { .. } => None,
        }
    }

    /// The time at which it finished, if it has.
    pub(crate) fn finished(&self) -> Option<u8> {
        match self.state {
            Stands::Completed { at } | Stands::Dead { at } => Some(at),
            Stands::Claimed { .. }
            | Stands::Started { .. }
            | Stands::Released { .. }
            | Stands::InDoubt { .. } => None,
        }
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(self.state, Stands::InDoubt { .. })
    }

    pub(crate) fn is_completed(&self) -> bool {
        matches!(self.state, Stands::Completed { .. })
    }

    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.state, Stands::Dead { .. })
    }

    /// Returns whether it is past its window at all.
    pub(crate) fn is_expired(&self, now: u8, setup: &Setup) -> bool {
        let finished = self.finished().filter(|_| !self.held);
        finished.is_some_and(|at| now >= at + setup.window)
    }

    pub(crate) fn is_forgotten(&self, now: u8, setup: &Setup) -> bool {
        self.finished()
            .filter(|_| !self.held)
            .is_some_and(|at| window(setup).forgotten_at(instant(at)) <= instant(now))
    }
}

impl Recover {
    pub(crate) fn to_core(self, setup: &Setup) -> Recovery {
        match self {
            Self::Rerun => Recovery::Rerun,
            Self::Within => Recovery::RerunWithin(ticks(setup.provider)),
            Self::Park => Recovery::Park,
        }
    }

    fn of(recovery: Recovery) -> Self {
        match recovery {
            Recovery::Rerun => Self::Rerun,
            Recovery::RerunWithin(_) => Self::Within,
            Recovery::Park => Self::Park,
        }
    }
}

impl Ent {
    pub(crate) fn to_core(self) -> EntityRecord {
        EntityRecord {
            applied: (self.applied > 0).then_some(self.applied.into()),
            holder: self
                .holder
                .map(|(claim, until)| (claim_id(claim), instant(until))),
        }
    }

    pub(crate) fn of(record: &EntityRecord) -> Self {
        Self {
            applied: record.applied.map_or(0, small),
            holder: record
                .holder
                .map(|(claim, until)| (small(claim_number(claim)), tick(until))),
        }
    }
}
