//! `semel producers`: what they are and have, and the orders that freeze and release them.

mod audit_entry;

use std::ops::ControlFlow;

use semel_backends::{ingest, producers};
use semel_config::StoreUrl;
use semel_core::port::ingest::{AnyIngestJournal, IngestJournal};
use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder, StreamEntry};
use semel_core::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::Exit;
use crate::args::producers::{Change, List, Producers, Show};
use crate::command::operate;
use crate::output::{self, Answer, Answers, Block, Column, Entry, Plan, Row};

use self::audit_entry::Trail;

/// Carries out one of the verbs.
pub(crate) fn run(verb: &Producers) -> Result<Exit> {
    match verb {
        Producers::List(arguments) => list(arguments),
        Producers::Show(arguments) => show(arguments),
        Producers::Freeze(arguments) => change(arguments, ProducerOrder::Freeze),
        Producers::Thaw(arguments) => change(arguments, ProducerOrder::Thaw),
        Producers::Release(arguments) => change(arguments, ProducerOrder::Release),
    }
}

fn list(arguments: &List) -> Result<Exit> {
    operate::at(&arguments.place.common(), async |url| {
        let entries = Journals::open(url)?.list().await?;
        let mut list = output::List::new(&arguments.listing);
        for (side, entry) in &entries {
            if list.push(&Listed::of(*side, entry))?.is_break() {
                break;
            }
        }
        list.end()?;
        Ok(Exit::Done)
    })
}

fn show(arguments: &Show) -> Result<Exit> {
    operate::at(&arguments.place.common(), async |url| {
        let entries = Journals::open(url)?.list().await?;
        let Some((side, entry)) = find(&entries, arguments) else {
            return Ok(Exit::No);
        };
        let answered = Answers::new(arguments.format).print(&Listed::of(*side, entry));
        answered.map(|_| Exit::Done)
    })
}

fn change(arguments: &Change, order: ProducerOrder) -> Result<Exit> {
    operate::at(&arguments.which.place.common(), async |url| {
        let journals = Journals::open(url)?;
        let entries = journals.list().await?;
        let Some((side, entry)) = find(&entries, &arguments.which) else {
            return Ok(Exit::No);
        };
        let (verb, done) = match order {
            ProducerOrder::Freeze => ("freeze", "froze"),
            ProducerOrder::Thaw => ("thaw", "thawed"),
            ProducerOrder::Release => ("release", "released"),
        };
        let means = side.meaning(order);
        let name = &entry.name;
        if order == ProducerOrder::Release && !entry.is_frozen {
            output::note(format_args!(
                "producer {name} is not frozen: nothing of it is kept"
            ));
            return Ok(Exit::No);
        }
        let mut plan = Plan::new(verb, "producer", "producers");
        plan.add(Listed::of(*side, entry));
        plan.remark(means);
        if let ControlFlow::Break(exit) = plan.confirmed(arguments.confirm) {
            return Ok(exit);
        }
        // An order is not given where the trail cannot be opened, but for what `Trail::open` warns of.
        let trail = Trail::open(url).await?;
        if !journals.order(*side, name, order).await? {
            output::note(format_args!("there is no producer {name} any more"));
            return Ok(Exit::No);
        }
        output::note(format_args!("{done} `{name}`"));
        if let Some(trail) = trail {
            let entered = trail.enter(&arguments.audit, (*side, entry), order).await;
            entered.map_err(|error| unentered(done, name, error))?;
        }
        Ok(Exit::Done)
    })
}

/// The error for an order that was carried out and is in no trail.
fn unentered(done: &str, name: &ProducerName, error: Error) -> Error {
    let message = format!(
        "{done} `{name}`, but the order is perhaps in no audit trail: {error}; note yourself who gave it"
    );
    Error::new(error.kind(), message)
        .with_code(error.code())
        .with_source(error)
}

/// The side of this store on which a producer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// It publishes from here.
    Publishes,
    /// It sends its messages here.
    Sends,
}

impl Side {
    const fn word(self) -> &'static str {
        match self {
            Self::Publishes => "publisher",
            Self::Sends => "sender",
        }
    }

    const fn meaning(self, order: ProducerOrder) -> &'static str {
        match (self, order) {
            (Self::Publishes, ProducerOrder::Freeze) => {
                "its messages are kept from now on, and none is published; one that is under way may still go out"
            }
            (Self::Publishes, ProducerOrder::Thaw) => {
                "the process that publishes for it, or the next one, sends what was kept, and then what is new"
            }
            (Self::Publishes, ProducerOrder::Release) => {
                "the process that publishes for it, or the next one, sends what was kept until now; what is new is kept"
            }
            (Self::Sends, ProducerOrder::Freeze) => {
                "its messages are taken and kept from now on, and none runs; those that a worker has in hand still run"
            }
            (Self::Sends, ProducerOrder::Thaw) => {
                "the worker runs what was kept, and then what is new"
            }
            (Self::Sends, ProducerOrder::Release) => {
                "the worker runs what was kept until now; what is new is kept"
            }
        }
    }
}

/// The journals of a store.
struct Journals {
    own: AnyProducerJournal,
    /// None of a store that keeps no messages of others.
    others: Option<AnyIngestJournal>,
}

impl Journals {
    fn open(url: &StoreUrl) -> Result<Self> {
        Ok(Self {
            own: producers::open(url)?,
            others: match ingest::open(url) {
                Ok(journal) => Some(journal),
                Err(error) if error.kind() == ErrorKind::Unsupported => None,
                Err(error) => return Err(error),
            },
        })
    }

    /// Lists the producers of both sides.
    async fn list(&self) -> Result<Vec<(Side, ProducerEntry)>> {
        let own = self.own.list().await?.into_iter();
        let others = match &self.others {
            Some(others) => others.list().await?,
            None => Vec::new(),
        };
        let others = others.into_iter();
        let own = own.map(|it| (Side::Publishes, it));
        Ok(own.chain(others.map(|it| (Side::Sends, it))).collect())
    }

    async fn order(&self, side: Side, name: &ProducerName, order: ProducerOrder) -> Result<bool> {
        match side {
            Side::Publishes => self.own.order(name, order).await,
            Side::Sends => match &self.others {
                Some(others) => others.order(name, order).await,
                None => Ok(false),
            },
        }
    }
}

/// Finds a producer by its name or its id; says so if there is none, or more than one.
fn find<'a>(
    entries: &'a [(Side, ProducerEntry)],
    which: &Show,
) -> Option<&'a (Side, ProducerEntry)> {
    let asked = which.producer.as_str();
    let only = match (which.publisher, which.sender) {
        (true, _) => Some(Side::Publishes),
        (_, true) => Some(Side::Sends),
        (false, false) => None,
    };
    match matching(entries, asked, only)[..] {
        [one] => return Some(one),
        [] => output::note(format_args!(
            "there is no producer `{asked}`; `semel producers list` names those of the store"
        )),
        _ => output::note(format_args!(
            "`{asked}` is a producer that publishes from here, and one that sends its messages here; say which: \
             `--publisher` or `--sender`"
        )),
    }
    None
}

/// Returns the producers of this name, of one side or both; if there is none, those of this id.
fn matching<'a>(
    entries: &'a [(Side, ProducerEntry)],
    asked: &str,
    only: Option<Side>,
) -> Vec<&'a (Side, ProducerEntry)> {
    let is_meant = |side: Side| only.is_none_or(|it| it == side);
    let those = || entries.iter().filter(|(side, _)| is_meant(*side));
    let by_name: Vec<_> = those()
        .filter(|(_, it)| it.name.as_str() == asked)
        .collect();
    if !by_name.is_empty() {
        return by_name;
    }
    those().filter(|(_, it)| *it.id == *asked).collect()
}

/// A producer.
#[derive(Serialize)]
struct Listed {
    producer: String,
    side: &'static str,
    id: Box<str>,
    epoch: u64,
    frozen: bool,
    /// Messages that are not confirmed.
    waiting: u64,
    streams: Vec<ListedStream>,
}

/// A stream of a producer.
#[derive(Serialize)]
struct ListedStream {
    stream: Box<str>,
    target: Box<str>,
    /// The sequence of the next message.
    next: u64,
    confirmed: u64,
    waiting: u64,
}

impl Listed {
    fn of(side: Side, entry: &ProducerEntry) -> Self {
        let streams = entry.streams.iter().map(|it| ListedStream {
            stream: it.stream.clone(),
            target: it.target.clone(),
            next: it.next,
            confirmed: it.confirmed,
            waiting: it.waiting(),
        });
        Self {
            producer: entry.name.to_string(),
            side: side.word(),
            id: entry.id.clone(),
            epoch: entry.epoch,
            frozen: entry.is_frozen,
            waiting: entry.streams.iter().map(StreamEntry::waiting).sum(),
            streams: streams.collect(),
        }
    }

    const fn state(&self) -> &'static str {
        if self.frozen { "frozen" } else { "open" }
    }
}

impl std::fmt::Display for Listed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (producer, side, state, waiting) =
            (&self.producer, self.side, self.state(), self.waiting);
        write!(f, "{producer}  {side}  {state}  {waiting} messages wait")
    }
}

impl Entry for Listed {
    const COLUMNS: &'static [Column] = &[
        Column::text("producer"),
        Column::word("side"),
        Column::number("epoch"),
        Column::word("state"),
        Column::number("waiting"),
        Column::text("streams"),
    ];
    const NONE: &'static str = "no producers";

    fn fill(&self, row: &mut Row) {
        let streams: Vec<_> = self.streams.iter().map(|it| &*it.stream).collect();
        row.text(&self.producer)
            .text(self.side)
            .show(self.epoch)
            .text(self.state())
            .show(self.waiting)
            .text(&streams.join(", "));
    }
}

impl Answer for Listed {
    fn describe(&self, block: &mut Block) {
        block.heading(&self.producer);
        block.field("side", self.side);
        block.field("id", &self.id);
        block.field("epoch", self.epoch);
        block.field("state", self.state());
        for stream in &self.streams {
            let ListedStream {
                stream,
                target,
                confirmed,
                waiting,
                ..
            } = stream;
            block.field(
                "stream",
                format_args!("{stream} to {target}: {confirmed} confirmed, {waiting} waiting"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_both_sides_is_no_choice_between_them() {
        let entry = |name: &str, id: &str| ProducerEntry {
            name: ProducerName::of_sender(name).expect("a name"),
            id: id.into(),
            epoch: 1,
            is_frozen: false,
            streams: Vec::new(),
        };
        let entries = [
            (Side::Publishes, entry("billing", "billing-7f")),
            (Side::Sends, entry("billing", "billing")),
            (Side::Sends, entry("till", "till")),
        ];
        let sides = |asked, only| {
            let found = matching(&entries, asked, only);
            found.iter().map(|it| it.0).collect::<Vec<_>>()
        };
        let (publishes, sends) = (Side::Publishes, Side::Sends);
        assert_eq!(sides("billing", None), [publishes, sends]);
        assert_eq!(sides("billing", Some(publishes)), [publishes]);
        assert_eq!(sides("billing", Some(sends)), [sends]);
        assert_eq!(sides("billing-7f", None), [publishes]);
        assert_eq!(sides("till", None), [sends]);
        assert_eq!(sides("till", Some(publishes)), []);
    }
}
