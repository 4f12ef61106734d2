//! The answers of a store.

mod lines;

use semel_core::decide::{Directed, Refusal};
use semel_core::port::store::{Capabilities, Durability, Listed, Page, Stats, Swept};
use semel_core::port::transfer::Item;
use semel_core::{
    Admission, Audited, Error, ErrorKind, Operation, Parked, Record, Renewed, Result, Settled,
};
use serde::{Deserialize, Serialize};

use self::lines::{
    ClaimedLine, DirectedLine, SettledLine, directed_line, renewed_line, settled_line,
};
use super::parts::{Blob, Failure, blob, bytes, instant, state};
use super::{Items, Lines, split};

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
    Exported(Page<Item>),
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
            | Self::Audited(Page { next, .. })
            | Self::Exported(Page { next, .. }) => Head::Page {
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
            Self::Exported(page) => {
                for item in &page.items {
                    lines.item(item)?;
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

    pub(in crate::control) fn exported(self) -> Result<Page<Item>> {
        self.page(Some)
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

const DURABILITIES: [Durability; 4] = [
    Durability::Process,
    Durability::Kill,
    Durability::PowerCut,
    Durability::NodeLoss,
];
