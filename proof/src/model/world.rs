//! All that there is at one instant: store, provider, broker, workers, and what is on its way.

use std::time::Duration;

use bytes::Bytes;
use semel_core::{
    ClaimId, Entity, EntityRecord, FencingToken, Fingerprint, Outcome, Record, Recovery, State,
    Timestamp, VersionGate, Window,
};

use super::setup::{Budget, MOST_OPERATIONS, MOST_POSTS, MOST_WORKERS, Setup};

/// No instant, no claim.
pub(crate) const NONE: u8 = u8::MAX;

/// Milliseconds of a tick. With eight seconds the margin and the forgetting of a window fall between
/// two ticks.
const TICK_MILLIS: u64 = 8_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: u8,
    pub(crate) records: [Option<Rec>; MOST_OPERATIONS],
    pub(crate) entity: Ent,
    pub(crate) next_token: u8,
    /// The highest token that was given out.
    pub(crate) top_token: u8,
    pub(crate) lives: [Life; MOST_OPERATIONS],
    /// The version that the effect applied last.
    pub(crate) version: u8,
    pub(crate) posts: [Message; MOST_POSTS],
    pub(crate) workers: [Worker; MOST_WORKERS],
    pub(crate) late: Option<Late>,
    /// What the newest write of the store replaced, where it may be forgotten.
    pub(crate) before: Option<Before>,
    pub(crate) left: Budget,
    /// The laws that are broken, a bit each.
    pub(crate) broken: u32,
}

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

/// What really became of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Life {
    pub(crate) effects: u8,
    /// Since when the provider knows the key.
    pub(crate) known_since: u8,
    /// The token of the call that the provider remembers.
    pub(crate) answer: u8,
    /// The effect is refused for good, by whoever would have it happen.
    pub(crate) refused: bool,
    pub(crate) acknowledged: bool,
    /// A message of it was set aside, where people find it.
    pub(crate) listed: bool,
    /// A later version was applied before.
    pub(crate) superseded: bool,
    /// It was completed, dead or in doubt at some time.
    pub(crate) ended: bool,
    pub(crate) abandoned: bool,
    /// An operator had it forgotten.
    pub(crate) forgotten: bool,
    /// How often its effect had happened then: what comes after is new.
    pub(crate) before: u8,
    /// The most possible repeats that its record has counted.
    pub(crate) repeats: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) published: bool,
    pub(crate) queued: u8,
    /// The only copy was acknowledged.
    pub(crate) gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Worker {
    pub(crate) phase: Phase,
    pub(crate) post: u8,
    pub(crate) claim: u8,
    pub(crate) token: u8,
    /// When the store's latest answer came.
    pub(crate) since: u8,
    /// The broker has handed its delivery to somebody else.
    pub(crate) stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Idle,
    /// About to claim, for the first time or again.
    Asking {
        asked: bool,
    },
    /// About to mark its claim.
    Starting,
    /// May begin its effect.
    Granted,
    /// The effect happened; about to complete.
    Called {
        answer: u8,
    },
    /// About to release.
    Failed {
        maybe: bool,
    },
    /// About to fail for good.
    Refused,
    Acknowledging {
        lists: bool,
    },
    HandingBack,
}

/// A request on its way of which nobody awaits an answer any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Late {
    Claim {
        post: u8,
        claim: u8,
    },
    Start {
        operation: u8,
        claim: u8,
    },
    Commit {
        operation: u8,
        claim: u8,
        token: u8,
    },
    Complete {
        operation: u8,
        claim: u8,
        answer: u8,
    },
    Release {
        operation: u8,
        claim: u8,
        maybe: bool,
    },
    Call {
        operation: u8,
        token: u8,
        until: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Before {
    pub(crate) operation: u8,
    pub(crate) record: Option<Rec>,
    pub(crate) entity: Ent,
}

pub(crate) const IDLE: Worker = Worker {
    phase: Phase::Idle,
    post: 0,
    claim: NONE,
    token: 0,
    since: 0,
    stale: false,
};

impl World {
    /// Nothing has happened yet.
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut posts = [Message {
            published: false,
            queued: 0,
            gone: false,
        }; MOST_POSTS];
        posts[0].published = true;
        posts[0].queued = 1;
        let life = Life {
            effects: 0,
            known_since: NONE,
            answer: 0,
            refused: false,
            acknowledged: false,
            listed: false,
            superseded: false,
            ended: false,
            abandoned: false,
            forgotten: false,
            before: 0,
            repeats: 0,
        };
        Self {
            now: 0,
            records: [None; MOST_OPERATIONS],
            entity: Ent {
                applied: 0,
                holder: None,
            },
            next_token: 1,
            top_token: 0,
            lives: [life; MOST_OPERATIONS],
            version: 0,
            posts,
            workers: [IDLE; MOST_WORKERS],
            late: None,
            before: None,
            left: setup.budget,
            broken: 0,
        }
    }

    /// A claim id that nobody and nothing knows: as good as a fresh one, and there are few of them.
    pub(crate) fn fresh_claim(&self) -> u8 {
        let before = self.before.and_then(|before| before.record);
        let held = |entity: &Ent| entity.holder.map(|(claim, _)| claim);
        let late = self.late.map(|late| match late {
            Late::Claim { claim, .. }
            | Late::Start { claim, .. }
            | Late::Commit { claim, .. }
            | Late::Complete { claim, .. }
            | Late::Release { claim, .. } => claim,
            Late::Call { .. } => NONE,
        });
        let records = self.records.iter().flatten().chain(before.iter());
        let used = records
            .map(|record| record.claim)
            .chain(held(&self.entity))
            .chain(self.before.and_then(|before| held(&before.entity)))
            .chain(self.workers.iter().map(|worker| worker.claim))
            .chain(late)
            .filter(|&claim| claim != NONE)
            .fold(0_u32, |used, claim| used | 1 << claim);
        u8::try_from(used.trailing_ones()).unwrap_or(NONE)
    }

    /// The record as the protocol sees it: forgotten is absent.
    pub(crate) fn standing(&self, operation: usize, setup: &Setup) -> Option<Rec> {
        self.records[operation].filter(|record| !record.is_forgotten(self.now, setup))
    }
}

impl Rec {
    /// What the store decides on. What no decision depends on is made up: when it was created and
    /// claimed, the transport id, the last error and the past.
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

    /// What the store decided.
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

    /// When it finished, where it has.
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

    /// Whether it is past its window at all.
    pub(crate) fn is_expired(&self, now: u8, setup: &Setup) -> bool {
        let finished = self.finished().filter(|_| !self.held);
        finished.is_some_and(|at| now >= at + setup.window)
    }

    fn is_forgotten(&self, now: u8, setup: &Setup) -> bool {
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

pub(crate) fn window(setup: &Setup) -> Window {
    Window::new(ticks(setup.window))
}

pub(crate) fn ticks(ticks: u8) -> Duration {
    Duration::from_millis(u64::from(ticks) * TICK_MILLIS)
}

pub(crate) fn instant(tick: u8) -> Timestamp {
    Timestamp::from_millis(u64::from(tick) * TICK_MILLIS)
}

fn tick(at: Timestamp) -> u8 {
    small(at.as_millis() / TICK_MILLIS)
}

pub(crate) fn claim_id(number: u8) -> ClaimId {
    ClaimId::from_u128(number.into())
}

fn claim_number(id: ClaimId) -> u64 {
    id.to_bytes()[15].into()
}

pub(crate) fn fingerprint(other_request: bool) -> Fingerprint {
    Fingerprint {
        scheme: 1,
        digest: [u8::from(other_request); 16],
    }
}

static NUMBERS: [u8; 64] = {
    let mut numbers = [0; 64];
    let mut at = 0;
    while at < 64 {
        #[expect(clippy::cast_possible_truncation, reason = "below 64")]
        {
            numbers[at] = at as u8;
        }
        at += 1;
    }
    numbers
};

pub(crate) fn outcome(number: u8) -> Outcome {
    let at = usize::from(number) % NUMBERS.len();
    Outcome::Kept {
        codec: 0,
        bytes: Bytes::from_static(&NUMBERS[at..=at]),
    }
}

pub(crate) fn outcome_number(outcome: &Outcome) -> u8 {
    match outcome {
        Outcome::Kept { bytes, .. } => bytes.first().copied().unwrap_or_default(),
        Outcome::TooLarge { .. } => NONE,
    }
}

/// Numbers of the model are small; one that is not would be a fault of the model, and shows.
fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(NONE)
}
