//! One item of an answer, as it is written.

use semel_core::decide::{Directed, Refusal};
use semel_core::{Admission, Claim, Duplicate, FencingToken, Renewed, Result, Settled};
use serde::{Deserialize, Serialize};

use super::super::parts::{Failure, Named, Remembered, claim_id, instant, millis, state};
use super::other;
use crate::transfer::value::{Hashes, Hex};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ClaimedLine {
    Granted(Box<GrantedLine>),
    Replay {
        outcome: Option<Remembered>,
        duplicate: usize,
    },
    Busy {
        until: u64,
        now: u64,
    },
    Conflict {
        duplicate: usize,
        #[serde(default)]
        first: Option<Hashes>,
    },
    Stale {
        applied: u64,
    },
    Parked {
        state: String,
        duplicate: usize,
        now: u64,
    },
    TooOld,
    Failed(Failure),
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "those of a claim")]
pub(super) struct GrantedLine {
    of: Named,
    claim: Hex<16>,
    token: u64,
    lease_until: u64,
    attempt: u32,
    takeover: bool,
    resumed: bool,
    formerly_expired: bool,
    possible_repeat: bool,
    first_started_at: Option<u64>,
}

impl ClaimedLine {
    pub(super) fn of(admission: &Admission) -> Self {
        let place = |it| {
            DUPLICATES
                .iter()
                .position(|known| *known == it)
                .unwrap_or_default()
        };
        match admission {
            Admission::Granted(claim) => Self::Granted(Box::new(GrantedLine {
                of: Named::of(&claim.operation),
                claim: Hex(claim.claim_id.to_bytes()),
                token: claim.token.get(),
                lease_until: millis(claim.lease_until),
                attempt: claim.attempt,
                takeover: claim.takeover,
                resumed: claim.resumed,
                formerly_expired: claim.formerly_expired,
                possible_repeat: claim.possible_repeat,
                first_started_at: claim.first_started_at.map(millis),
            })),
            Admission::Replay { outcome, duplicate } => Self::Replay {
                outcome: outcome.as_ref().map(Remembered::of),
                duplicate: place(*duplicate),
            },
            Admission::Busy { until, now } => Self::Busy {
                until: millis(*until),
                now: millis(*now),
            },
            Admission::Conflict { duplicate, first } => Self::Conflict {
                duplicate: place(*duplicate),
                first: first.clone().map(Hashes),
            },
            Admission::Stale { applied } => Self::Stale { applied: *applied },
            Admission::Parked {
                state,
                duplicate,
                now,
            } => Self::Parked {
                state: state.as_str().to_owned(),
                duplicate: place(*duplicate),
                now: millis(*now),
            },
            Admission::TooOld => Self::TooOld,
            Admission::Failed(error) => Self::Failed(Failure::of(error)),
        }
    }

    pub(super) fn admission(self) -> Result<Admission> {
        let duplicate = |at: usize| DUPLICATES.get(at).copied().ok_or_else(other);
        Ok(match self {
            Self::Granted(line) => Admission::Granted(Claim {
                operation: line.of.operation()?,
                claim_id: claim_id(line.claim),
                token: FencingToken::new(line.token),
                lease_until: instant(line.lease_until),
                attempt: line.attempt,
                takeover: line.takeover,
                resumed: line.resumed,
                formerly_expired: line.formerly_expired,
                possible_repeat: line.possible_repeat,
                first_started_at: line.first_started_at.map(instant),
            }),
            Self::Replay {
                outcome,
                duplicate: of,
            } => Admission::Replay {
                outcome: outcome.map(Remembered::outcome),
                duplicate: duplicate(of)?,
            },
            Self::Busy { until, now } => Admission::Busy {
                until: instant(until),
                now: instant(now),
            },
            Self::Conflict {
                duplicate: of,
                first,
            } => Admission::Conflict {
                duplicate: duplicate(of)?,
                first: first.map(|members| members.0),
            },
            Self::Stale { applied } => Admission::Stale { applied },
            Self::Parked {
                state: kind,
                duplicate: of,
                now,
            } => Admission::Parked {
                state: state(&kind)?,
                duplicate: duplicate(of)?,
                now: instant(now),
            },
            Self::TooOld => Admission::TooOld,
            Self::Failed(failure) => Admission::Failed(failure.error()),
        })
    }
}

/// The answer to a settlement, or to a renewal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SettledLine {
    Now(String),
    Until(u64),
    Lost(Option<String>),
    Failed(Failure),
}

pub(super) fn settled_line(settled: &Settled) -> SettledLine {
    match settled {
        Settled::Now(state) => SettledLine::Now(state.as_str().to_owned()),
        Settled::Fenced { found } => {
            SettledLine::Lost(found.map(|state| state.as_str().to_owned()))
        }
        Settled::Failed(error) => SettledLine::Failed(Failure::of(error)),
    }
}

pub(super) fn renewed_line(renewed: &Renewed) -> SettledLine {
    match renewed {
        Renewed::Until(until) => SettledLine::Until(millis(*until)),
        Renewed::Lost { found } => SettledLine::Lost(found.map(|state| state.as_str().to_owned())),
        Renewed::Failed(error) => SettledLine::Failed(Failure::of(error)),
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DirectedLine {
    Now(Option<String>),
    Absent,
    State(String),
    NotQuiet { until: u64 },
    Failed(Failure),
}

pub(super) fn directed_line(directed: &Directed) -> DirectedLine {
    match directed {
        Directed::Now(state) => DirectedLine::Now(state.map(|it| it.as_str().to_owned())),
        Directed::Refused(Refusal::Absent) => DirectedLine::Absent,
        Directed::Refused(Refusal::State(state)) => DirectedLine::State(state.as_str().to_owned()),
        Directed::Refused(Refusal::NotQuiet { until }) => DirectedLine::NotQuiet {
            until: millis(*until),
        },
        Directed::Failed(error) => DirectedLine::Failed(Failure::of(error)),
    }
}

const DUPLICATES: [Duplicate; 4] = [
    Duplicate::Own,
    Duplicate::Redelivery,
    Duplicate::Republish,
    Duplicate::Unknown,
];
