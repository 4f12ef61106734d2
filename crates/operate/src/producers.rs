//! Producers as operators see them: those that publish from a store, and those that send their messages to it; and the
//! orders that freeze and release them. Whoever opens their journals hands them in.

use std::fmt;
use std::ops::ControlFlow;

use semel_core::port::ingest::{AnyIngestJournal, IngestJournal};
use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::producer::{ProducerEntry, ProducerName, ProducerOrder, StreamEntry};
use semel_core::{Audited, Note, Result, Timestamp};
use serde::Serialize;

/// The side of a store on which a producer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It publishes from here.
    Publishes,
    /// It sends its messages here.
    Sends,
}

/// The producers of a store.
#[derive(Clone, Debug)]
pub struct Producers {
    /// The journal of those that publish from here.
    pub own: AnyProducerJournal,
    /// The journal of those that send their messages here; none of a store that keeps no messages of others.
    pub others: Option<AnyIngestJournal>,
}

/// The number of the producers of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerCounts {
    /// Those that publish from here.
    pub publishers: u64,
    /// Those that send their messages here.
    pub senders: u64,
    /// Messages of both that are not confirmed, or have not run.
    pub waiting: u64,
}

impl ProducerCounts {
    /// Tells whether there are none.
    pub const fn is_none(&self) -> bool {
        self.publishers == 0 && self.senders == 0
    }
}

/// A producer: the documented object.
#[derive(Clone, Debug, Serialize)]
pub struct ProducerLine {
    /// Its name.
    pub producer: String,
    /// Its side: `publisher` or `sender`.
    pub side: &'static str,
    /// Its id.
    pub id: Box<str>,
    /// The epoch of its latest opening.
    pub epoch: u64,
    /// True if its messages are kept, and go no further.
    pub frozen: bool,
    /// Messages that are not confirmed.
    pub waiting: u64,
    /// Its streams, by name.
    pub streams: Vec<ProducerStreamLine>,
    /// The damage for which nothing but its name is known; left out of one that is sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damage: Option<Box<str>>,
}

/// A stream of a producer.
#[derive(Clone, Debug, Serialize)]
pub struct ProducerStreamLine {
    /// The stream.
    pub stream: Box<str>,
    /// The place that it goes to.
    pub target: Box<str>,
    /// The sequence of the next message.
    pub next: u64,
    /// The sequence up to which all messages are confirmed.
    pub confirmed: u64,
    /// Messages that are not confirmed.
    pub waiting: u64,
}

/// An order about a producer that would change something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedProducer {
    side: Side,
    name: ProducerName,
    order: ProducerOrder,
    is_frozen: bool,
    waiting: u64,
}

/// A sentence that says why an order would change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unchanged {
    /// The producer is as the order would make it.
    Already(&'static str),
    /// The order is of no use to it.
    Impossible(&'static str),
}

/// The result for one producer: the documented object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProducerChange {
    /// The producer.
    pub producer: String,
    /// Its side: `publisher` or `sender`.
    pub side: &'static str,
    /// The order: `freeze`, `thaw` or `release`.
    pub action: &'static str,
    /// Its state until then: `open` or `frozen`.
    pub before: &'static str,
    /// Its state after that.
    pub after: &'static str,
    /// Messages that were not confirmed when it was looked at.
    pub waiting: u64,
}

impl Side {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Publishes => "publisher",
            Self::Sends => "sender",
        }
    }

    /// Finds the side of a word.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Publishes, Self::Sends]
            .into_iter()
            .find(|it| it.word() == word)
    }

    /// The meaning of an order for a producer of this side.
    pub const fn meaning(self, order: ProducerOrder) -> &'static str {
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

impl Producers {
    /// Reads a page of the producers of both sides, by name, those that publish from here first: of those behind `after`,
    /// the first `most`, at least one. Fewer are the end.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn page(
        &self,
        after: Option<&(Side, ProducerName)>,
        most: u32,
    ) -> Result<Vec<(Side, ProducerEntry)>> {
        let most = most.max(1);
        let behind = |side| after.filter(|it| it.0 == side).map(|it| &it.1);
        let mut page = Vec::new();
        if after.is_none_or(|it| it.0 == Side::Publishes) {
            let own = self.own.page(behind(Side::Publishes), most).await?;
            page.extend(own.into_iter().map(|it| (Side::Publishes, it)));
        }
        let rest = most.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        if let Some(others) = self.others.as_ref().filter(|_| rest > 0) {
            let others = others.page(behind(Side::Sends), rest).await?;
            page.extend(others.into_iter().map(|it| (Side::Sends, it)));
        }
        Ok(page)
    }

    /// Reads all of them, page by page, and hands each to `each` until that says that it is enough.
    ///
    /// # Errors
    ///
    /// Those of the store, and of `each`.
    pub async fn visit(
        &self,
        mut each: impl FnMut(Side, ProducerEntry) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let page = self.page(after.as_ref(), PAGE).await?;
            let is_end = page.len() < PAGE as usize;
            after = page.last().map(|(side, it)| (*side, it.name.clone()));
            for (side, entry) in page {
                if each(side, entry)?.is_break() {
                    return Ok(());
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }

    /// Counts them, and the messages of theirs that wait.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn count(&self) -> Result<ProducerCounts> {
        let mut counts = ProducerCounts::default();
        let counted = self.visit(|side, entry| {
            *match side {
                Side::Publishes => &mut counts.publishers,
                Side::Sends => &mut counts.senders,
            } += 1;
            counts.waiting += entry.streams.iter().map(StreamEntry::waiting).sum::<u64>();
            Ok(ControlFlow::Continue(()))
        });
        counted.await?;
        Ok(counts)
    }

    /// Returns those that [`matching`] may choose from, for any of these names or ids: of the others nothing is kept.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn named(&self, names: &[&str]) -> Result<Vec<(Side, ProducerEntry)>> {
        let mut found = Vec::new();
        let visit = self.visit(|side, entry| {
            if names
                .iter()
                .any(|it| *it == entry.name.as_str() || *it == &*entry.id)
            {
                found.push((side, entry));
            }
            Ok(ControlFlow::Continue(()))
        });
        visit.await?;
        Ok(found)
    }

    /// Carries out an order about a producer. Tells whether there is one.
    ///
    /// # Errors
    ///
    /// Those of the store; repeating it is harmless
    pub async fn order(
        &self,
        side: Side,
        name: &ProducerName,
        order: ProducerOrder,
    ) -> Result<bool> {
        match (side, &self.others) {
            (Side::Publishes, _) => self.own.order(name, order).await,
            (Side::Sends, Some(others)) => others.order(name, order).await,
            (Side::Sends, None) => Ok(false),
        }
    }
}

/// Returns the producers of this name, of one side or both; if there is none, those of this id.
pub fn matching<'a>(
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

impl ProducerLine {
    /// Lays out a producer.
    pub fn of(side: Side, entry: &ProducerEntry) -> Self {
        let streams = entry.streams.iter().map(|it| ProducerStreamLine {
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
            waiting: waiting(entry),
            streams: streams.collect(),
            damage: entry.damage.clone(),
        }
    }

    /// Its state, in a word.
    pub const fn state(&self) -> &'static str {
        if self.damage.is_some() {
            return "damaged";
        }
        state(self.frozen)
    }
}

/// Shows it on one line.
impl fmt::Display for ProducerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (producer, side, state, waiting) =
            (&self.producer, self.side, self.state(), self.waiting);
        write!(f, "{producer}  {side}  {state}  {waiting} messages wait")
    }
}

impl PlannedProducer {
    /// Plans an order about a producer.
    ///
    /// # Errors
    ///
    /// Why nothing would change
    pub fn of(
        side: Side,
        entry: &ProducerEntry,
        order: ProducerOrder,
    ) -> std::result::Result<Self, Unchanged> {
        match (order, entry.is_frozen) {
            (ProducerOrder::Freeze, true) => Err(Unchanged::Already("it is frozen already")),
            (ProducerOrder::Thaw, false) => Err(Unchanged::Already("it is not frozen")),
            (ProducerOrder::Release, false) => Err(Unchanged::Impossible(
                "it is not frozen: nothing of it is kept",
            )),
            (ProducerOrder::Freeze, false)
            | (ProducerOrder::Thaw | ProducerOrder::Release, true) => Ok(Self {
                side,
                name: entry.name.clone(),
                order,
                is_frozen: entry.is_frozen,
                waiting: waiting(entry),
            }),
        }
    }

    /// The object that tells of the change.
    pub fn change(&self) -> ProducerChange {
        ProducerChange {
            producer: self.name.to_string(),
            side: self.side.word(),
            action: action(self.order),
            before: state(self.is_frozen),
            after: state(self.order != ProducerOrder::Thaw),
            waiting: self.waiting,
        }
    }

    /// Leaves an entry in the audit trail where the store takes one, and carries the order out then, so that no order is
    /// carried out without its entry; tells whether there is such a producer.
    ///
    /// # Errors
    ///
    /// Those of the store, `NotApplied` if the trail does not take the entry. After another one, the trail has an order
    /// that may not have been carried out
    pub async fn give(
        &self,
        producers: &Producers,
        trail: Option<&AnyTransferStore>,
        note: &Note,
        now: Timestamp,
    ) -> Result<bool> {
        if let Some(trail) = trail {
            let before = (self.is_frozen, self.waiting);
            let entry = audited(
                (self.side, &self.name),
                before,
                self.order,
                note.clone(),
                now,
            );
            let entered = trail.import([Item::Audited(Box::new(entry))].into()).await;
            entered.map_err(semel_core::Error::not_applied)?;
        }
        producers.order(self.side, &self.name, self.order).await
    }
}

/// Returns the entry of an order about a producer in the audit trail; `before` is whether it was frozen, and how many
/// messages waited.
pub fn audited(
    (side, name): (Side, &ProducerName),
    before: (bool, u64),
    order: ProducerOrder,
    note: Note,
    at: Timestamp,
) -> Audited {
    let name = match side {
        Side::Publishes => name.to_string(),
        Side::Sends => format!("{name} (sender)"),
    };
    let before = match before {
        (false, _) => "open".to_owned(),
        (true, 0) => "frozen".to_owned(),
        (true, kept) => format!("frozen, {kept} kept"),
    };
    let after = match order {
        ProducerOrder::Freeze => "frozen",
        ProducerOrder::Thaw => "open",
        ProducerOrder::Release => "frozen, released until then",
    };
    Audited {
        at,
        note,
        action: format!("producer-{}", action(order)).into(),
        scope: None,
        key: None,
        before: format!("{name}: {before}").into(),
        after: format!("{name}: {after}").into(),
    }
}

const fn action(order: ProducerOrder) -> &'static str {
    match order {
        ProducerOrder::Freeze => "freeze",
        ProducerOrder::Thaw => "thaw",
        ProducerOrder::Release => "release",
    }
}

const fn state(is_frozen: bool) -> &'static str {
    if is_frozen { "frozen" } else { "open" }
}

fn waiting(entry: &ProducerEntry) -> u64 {
    entry.streams.iter().map(StreamEntry::waiting).sum()
}

/// The producers that are read at once.
const PAGE: u32 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, id: &str) -> ProducerEntry {
        ProducerEntry {
            name: ProducerName::of_sender(name).expect("a name"),
            id: id.into(),
            epoch: 1,
            is_frozen: false,
            streams: Vec::new(),
            damage: None,
        }
    }

    #[test]
    fn a_name_of_both_sides_is_no_choice_between_them() {
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

    #[test]
    fn an_order_that_changes_nothing_is_no_plan() {
        let orders = [
            ProducerOrder::Freeze,
            ProducerOrder::Thaw,
            ProducerOrder::Release,
        ];
        let mut till = entry("till", "till");
        let plans = |till: &ProducerEntry| {
            orders.map(|it| PlannedProducer::of(Side::Sends, till, it).map(|it| it.change().after))
        };
        let [freeze, thaw, release] = plans(&till);
        assert_eq!(freeze, Ok("frozen"));
        assert!(thaw.is_err() && release.is_err());
        till.is_frozen = true;
        let [freeze, thaw, release] = plans(&till);
        assert!(freeze.is_err());
        assert_eq!((thaw, release), (Ok("open"), Ok("frozen")));
    }
}
