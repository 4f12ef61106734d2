//! The answers of a store.

use semel_core::decide::{Directed, Refusal};
use semel_core::port::store::{Capabilities, Durability, Listed, Page, Stats, Swept};
use semel_core::port::transfer::Item;
use semel_core::{
    Admission, Audited, Claim, Duplicate, Error, ErrorKind, FencingToken, Operation, Parked,
    Record, Renewed, Result, Settled,
};
use serde::{Deserialize, Serialize};

use super::parts::{
    Blob, Failure, Named, Remembered, blob, bytes, claim_id, instant, millis, state,
};
use super::{Items, Lines, split};
use crate::transfer::value::{Hashes, Hex};

/// The answer to a call of [`Store`](semel_core::Store).
#[derive(Debug)]
pub(in crate::control) enum Answer {
    Claimed(Vec<Admission>),
    Settled(Vec<Settled>),
    Renewed(Vec<Renewed>),
    /// Of `park` and `drop_parked`.
    Flags(Vec<bool>),
    /// The records, with the operations that were asked for.
    Records(Vec<(Operation, Option<Record>)>),
    Listed(Page<Listed>),
    Parked(Page<Parked>),
    Directed(Vec<Directed>),
    Audited(Page<Audited>),
    Swept(Swept),
    Stats(Stats),
    Capabilities(Capabilities),
    Failed(Error),
}

impl Answer {
    pub(in crate::control) fn to_bytes(&self) -> Result<Vec<u8>> {
        let head = match self {
            Self::Claimed(all) => Head::Claimed(all.iter().map(ClaimedLine::of).collect()),
            Self::Settled(all) => Head::Settled(all.iter().map(settled_line).collect()),
            Self::Renewed(all) => Head::Renewed(all.iter().map(renewed_line).collect()),
            Self::Flags(flags) => Head::Flags(flags.clone()),
            Self::Records(_) => Head::Records,
            Self::Listed(Page { next, .. })
            | Self::Parked(Page { next, .. })
            | Self::Audited(Page { next, .. }) => Head::Page {
                next: next.as_deref().map(blob),
            },
            Self::Directed(all) => Head::Directed(all.iter().map(directed_line).collect()),
            Self::Swept(swept) => Head::Swept {
                removed: swept.removed,
                doubted: swept.doubted,
                abandoned: swept.abandoned,
                more: swept.more,
            },
            Self::Stats(stats) => Head::Stats {
                records: stats.records,
                entities: stats.entities,
                parked: stats.parked,
                disk_bytes: stats.disk_bytes,
                audited: stats.audited,
                remembered: stats.remembered,
            },
            Self::Capabilities(found) => Head::Capabilities {
                durability: DURABILITIES.iter().position(|it| *it == found.durability),
                shared: found.shared,
                warnings: found.warnings.iter().map(|it| (**it).to_owned()).collect(),
            },
            Self::Failed(error) => Head::Failed(Failure::of(error)),
        };
        let mut lines = Lines::begin(&head)?;
        match self {
            Self::Records(records) => {
                for (operation, record) in records {
                    match record {
                        Some(record) => lines.item(&Item::Record(Box::new(Listed {
                            operation: operation.clone(),
                            record: record.clone(),
                        })))?,
                        None => lines.nothing(),
                    }
                }
            }
            Self::Listed(page) => {
                for listed in &page.items {
                    lines.item(&Item::Record(Box::new(listed.clone())))?;
                }
            }
            Self::Parked(page) => {
                for message in &page.items {
                    lines.item(&Item::Parked(Box::new(message.clone())))?;
                }
            }
            Self::Audited(page) => {
                for entry in &page.items {
                    lines.item(&Item::Audited(Box::new(entry.clone())))?;
                }
            }
            Self::Claimed(_)
            | Self::Settled(_)
            | Self::Renewed(_)
            | Self::Flags(_)
            | Self::Directed(_)
            | Self::Swept(_)
            | Self::Stats(_)
            | Self::Capabilities(_)
            | Self::Failed(_) => {}
        }
        Ok(lines.0)
    }

    /// # Errors   the error that the answer reports; `InvalidInput`: it is no answer
    pub(in crate::control) fn from_bytes(message: &[u8]) -> Result<Reply<'_>> {
        let (head, items) = split(message);
        let head: Head = serde_json::from_slice(head).map_err(|_| unlike("no answer"))?;
        match head {
            Head::Failed(failure) => Err(failure.error()),
            head => Ok(Reply { head, items }),
        }
    }
}

/// An answer, to be read as the type that was asked for.
pub(in crate::control) struct Reply<'m> {
    head: Head,
    items: Items<'m>,
}

impl Reply<'_> {
    pub(in crate::control) fn claimed(self, asked: usize) -> Result<Vec<Admission>> {
        let Head::Claimed(lines) = self.head else {
            return Err(other());
        };
        let all = lines.into_iter().map(ClaimedLine::admission);
        counted(all.collect::<Result<_>>()?, asked)
    }

    pub(in crate::control) fn settled(self, asked: usize) -> Result<Vec<Settled>> {
        let Head::Settled(lines) = self.head else {
            return Err(other());
        };
        let all = lines.into_iter().map(|line| {
            Ok(match line {
                SettledLine::Now(kind) => Settled::Now(state(&kind)?),
                SettledLine::Lost(found) => Settled::Fenced {
                    found: found.as_deref().map(state).transpose()?,
                },
                SettledLine::Failed(failure) => Settled::Failed(failure.error()),
                SettledLine::Until(_) => return Err(other()),
            })
        });
        counted(all.collect::<Result<_>>()?, asked)
    }

    pub(in crate::control) fn renewed(self, asked: usize) -> Result<Vec<Renewed>> {
        let Head::Renewed(lines) = self.head else {
            return Err(other());
        };
        let all = lines.into_iter().map(|line| {
            Ok(match line {
                SettledLine::Until(until) => Renewed::Until(instant(until)),
                SettledLine::Lost(found) => Renewed::Lost {
                    found: found.as_deref().map(state).transpose()?,
                },
                SettledLine::Failed(failure) => Renewed::Failed(failure.error()),
                SettledLine::Now(_) => return Err(other()),
            })
        });
        counted(all.collect::<Result<_>>()?, asked)
    }

    pub(in crate::control) fn flags(self, asked: usize) -> Result<Vec<bool>> {
        let Head::Flags(flags) = self.head else {
            return Err(other());
        };
        counted(flags, asked)
    }

    pub(in crate::control) fn records(self, asked: usize) -> Result<Vec<Option<Record>>> {
        let Head::Records = self.head else {
            return Err(other());
        };
        let records = self.items.map(|item| match item? {
            None => Ok(None),
            Some(Item::Record(listed)) => Ok(Some(listed.record)),
            Some(_) => Err(other()),
        });
        counted(records.collect::<Result<_>>()?, asked)
    }

    pub(in crate::control) fn listed(self) -> Result<Page<Listed>> {
        self.page(|item| match item {
            Item::Record(listed) => Some(*listed),
            _ => None,
        })
    }

    pub(in crate::control) fn parked(self) -> Result<Page<Parked>> {
        self.page(|item| match item {
            Item::Parked(message) => Some(*message),
            _ => None,
        })
    }

    pub(in crate::control) fn audited(self) -> Result<Page<Audited>> {
        self.page(|item| match item {
            Item::Audited(entry) => Some(*entry),
            _ => None,
        })
    }

    fn page<T>(self, read: impl Fn(Item) -> Option<T>) -> Result<Page<T>> {
        let Head::Page { next } = self.head else {
            return Err(other());
        };
        let items = self
            .items
            .map(|item| item?.and_then(&read).ok_or_else(other));
        Ok(Page {
            items: items.collect::<Result<_>>()?,
            next: next.map(bytes),
        })
    }

    pub(in crate::control) fn directed(self, asked: usize) -> Result<Vec<Directed>> {
        let Head::Directed(lines) = self.head else {
            return Err(other());
        };
        let all = lines.into_iter().map(|line| {
            Ok(match line {
                DirectedLine::Now(kind) => Directed::Now(kind.as_deref().map(state).transpose()?),
                DirectedLine::Absent => Directed::Refused(Refusal::Absent),
                DirectedLine::State(kind) => Directed::Refused(Refusal::State(state(&kind)?)),
                DirectedLine::NotQuiet { until } => Directed::Refused(Refusal::NotQuiet {
                    until: instant(until),
                }),
                DirectedLine::Failed(failure) => Directed::Failed(failure.error()),
            })
        });
        counted(all.collect::<Result<_>>()?, asked)
    }

    pub(in crate::control) fn swept(self) -> Result<Swept> {
        let Head::Swept {
            removed,
            doubted,
            abandoned,
            more,
        } = self.head
        else {
            return Err(other());
        };
        Ok(Swept {
            removed,
            doubted,
            abandoned,
            more,
        })
    }

    pub(in crate::control) fn stats(self) -> Result<Stats> {
        let Head::Stats {
            records,
            entities,
            parked,
            disk_bytes,
            audited,
            remembered,
        } = self.head
        else {
            return Err(other());
        };
        let mut stats = Stats::new(records);
        stats.entities = entities;
        stats.parked = parked;
        stats.disk_bytes = disk_bytes;
        stats.audited = audited;
        stats.remembered = remembered;
        Ok(stats)
    }

    /// The capabilities of a store of this kind, which is the one that has a socket.
    pub(in crate::control) fn capabilities(self, kind: &'static str) -> Result<Capabilities> {
        let Head::Capabilities {
            durability,
            shared,
            warnings,
        } = self.head
        else {
            return Err(other());
        };
        let durability = durability.and_then(|at| DURABILITIES.get(at));
        Ok(Capabilities {
            kind,
            durability: *durability.ok_or_else(other)?,
            shared,
            warnings: warnings.into_iter().map(Into::into).collect(),
        })
    }
}

/// Checks that there are as many answers as questions.
fn counted<T>(answers: Vec<T>, asked: usize) -> Result<Vec<T>> {
    if answers.len() == asked {
        return Ok(answers);
    }
    Err(unlike("more or fewer answers than questions"))
}

fn other() -> Error {
    unlike("an answer to another question")
}

/// The error of an answer that cannot be read: the request may have been carried out.
fn unlike(what: &str) -> Error {
    let message =
        format!("the worker's answer cannot be read: {what}; run the same version of semel");
    Error::new(ErrorKind::Internal, message)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    Claimed(Vec<ClaimedLine>),
    Settled(Vec<SettledLine>),
    Renewed(Vec<SettledLine>),
    Flags(Vec<bool>),
    /// The records follow, a line each.
    Records,
    /// Its items follow.
    Page {
        next: Option<Blob>,
    },
    Directed(Vec<DirectedLine>),
    Swept {
        removed: u64,
        doubted: u64,
        abandoned: u64,
        more: bool,
    },
    Stats {
        records: [u64; 6],
        #[serde(default)]
        entities: u64,
        parked: u64,
        disk_bytes: Option<u64>,
        #[serde(default)]
        audited: u64,
        #[serde(default)]
        remembered: Option<u64>,
    },
    Capabilities {
        durability: Option<usize>,
        shared: bool,
        warnings: Vec<String>,
    },
    Failed(Failure),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClaimedLine {
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
struct GrantedLine {
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
    fn of(admission: &Admission) -> Self {
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

    fn admission(self) -> Result<Admission> {
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
enum SettledLine {
    Now(String),
    Until(u64),
    Lost(Option<String>),
    Failed(Failure),
}

fn settled_line(settled: &Settled) -> SettledLine {
    match settled {
        Settled::Now(state) => SettledLine::Now(state.as_str().to_owned()),
        Settled::Fenced { found } => {
            SettledLine::Lost(found.map(|state| state.as_str().to_owned()))
        }
        Settled::Failed(error) => SettledLine::Failed(Failure::of(error)),
    }
}

fn renewed_line(renewed: &Renewed) -> SettledLine {
    match renewed {
        Renewed::Until(until) => SettledLine::Until(millis(*until)),
        Renewed::Lost { found } => SettledLine::Lost(found.map(|state| state.as_str().to_owned())),
        Renewed::Failed(error) => SettledLine::Failed(Failure::of(error)),
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DirectedLine {
    Now(Option<String>),
    Absent,
    State(String),
    NotQuiet { until: u64 },
    Failed(Failure),
}

fn directed_line(directed: &Directed) -> DirectedLine {
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

const DURABILITIES: [Durability; 4] = [
    Durability::Process,
    Durability::Kill,
    Durability::PowerCut,
    Durability::NodeLoss,
];
