//! The producers that have series of their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semel_core::producer::{ProducerEntry, ProducerName, StreamEntry};
use tokio::time::Instant;

use super::{Listed, kept};

/// The producers that are shown by name: as many as there are, up to [`PLACES`], and of more those with most that waits.
///
/// One that is shown keeps its place while it has as much as any other, by a quarter and in two counts: producers that are
/// quick one time and slow the next do not take turns. One that has lost its place is shown with nothing for
/// [`LEAVING`], since whoever asks for the last value of ten minutes would take the last one for that of now; what it has
/// is among the others.
#[derive(Debug, Default)]
pub(super) struct Shown {
    names: BTreeSet<ProducerName>,
    /// Those that have lost their places, and until when they are shown.
    leaving: BTreeMap<ProducerName, Instant>,
    /// The last figures of all.
    last: BTreeMap<ProducerName, Figures>,
}

/// The messages that wait for a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Figures {
    /// Messages that are not confirmed and that are to be sent.
    free: u64,
    /// Messages that are not confirmed.
    pub(super) waiting: u64,
    /// Those of them that are kept.
    pub(super) kept: u64,
}

/// The series of a producer, or of all others.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) producer: Box<str>,
    pub(super) figures: Figures,
    /// The time for which the oldest message has waited that is not kept; none if that is not known.
    pub(super) oldest: Option<Duration>,
}

impl Shown {
    /// Chooses who is shown, after a count.
    pub(super) fn choose(&mut self, listed: &Listed, now: Instant) {
        self.leaving.retain(|_, until| *until > now);
        let found = listed.entries.iter();
        let found: BTreeMap<_, _> = found.map(|it| (it.name.clone(), Figures::of(it))).collect();
        // Whoever has the name of all others is one of them.
        let others = || {
            let others = found.keys().filter(|it| it.as_str() != OTHER);
            others.filter(|it| !self.names.contains(*it))
        };
        let mut by_size: Vec<_> = others().collect();
        by_size.sort_by_key(|it| Reverse(found.get(*it).copied()));
        let free = PLACES.saturating_sub(self.names.len());
        let new: Vec<_> = by_size.into_iter().take(free).cloned().collect();
        for name in new {
            self.leaving.remove(&name);
            self.names.insert(name);
        }
        for (smaller, larger) in self.exchanges(&found, listed.is_whole) {
            if self.leaving.len() >= PLACES {
                break;
            }
            self.names.remove(&smaller);
            self.leaving.remove(&larger);
            self.leaving.insert(smaller, now + LEAVING);
            self.names.insert(larger);
        }
        self.last = found;
    }

    /// Returns who loses a place, and who gets it.
    fn exchanges(
        &self,
        found: &BTreeMap<ProducerName, Figures>,
        is_whole: bool,
    ) -> Vec<(ProducerName, ProducerName)> {
        let before = |name: &ProducerName| self.last.get(name).copied().unwrap_or_default();
        let others = found.iter().filter(|(name, _)| name.as_str() != OTHER);
        let others = others.filter(|(name, _)| !self.names.contains(*name));
        let mut larger: Vec<_> = others
            .map(|(name, now)| (now.lesser(before(name)), name))
            .collect();
        larger.sort_by_key(|&(figures, _)| Reverse(figures));
        // Nothing is known of one that the count did not come to.
        let shown = self
            .names
            .iter()
            .filter(|it| is_whole || found.contains_key(*it));
        let mut smaller: Vec<_> = shown
            .map(|name| {
                let now = found.get(name).copied().unwrap_or_default();
                (now.greater(before(name)), name)
            })
            .collect();
        smaller.sort();
        let pairs = smaller.into_iter().zip(larger);
        let pairs = pairs.take_while(|((smaller, _), (larger, _))| larger.exceed(*smaller));
        let pairs = pairs.map(|((_, smaller), (_, larger))| (smaller.clone(), larger.clone()));
        pairs.collect()
    }

    /// Tells whether a producer is shown with what it has.
    pub(super) fn has(&self, name: &ProducerName) -> bool {
        self.names.contains(name)
    }

    /// Returns the series of the same count.
    pub(super) fn rows(
        &self,
        listed: &Listed,
        age: impl Fn(&ProducerEntry) -> Option<Duration>,
    ) -> Vec<Row> {
        let (mut rows, mut others, mut is_unknown) = (Vec::new(), None::<Row>, false);
        for entry in &listed.entries {
            let row = Row {
                producer: entry.name.as_str().into(),
                figures: Figures::of(entry),
                oldest: age(entry),
            };
            if self.has(&entry.name) {
                rows.push(row);
            } else {
                is_unknown |= row.oldest.is_none();
                others.get_or_insert_with(Row::others).add(&row);
            }
        }
        let is_gone = |name: &&ProducerName| listed.is_whole && !self.last.contains_key(*name);
        let gone = self.names.iter().filter(is_gone);
        rows.extend(
            gone.chain(self.leaving.keys())
                .map(|it| Row::of(it.as_str())),
        );
        if self.names.len() >= PLACES {
            others.get_or_insert_with(Row::others);
        }
        if let Some(others) = others.as_mut().filter(|_| is_unknown) {
            // Of some it is known, or of none.
            others.oldest = others.oldest.filter(|it| !it.is_zero());
        }
        rows.extend(others);
        rows
    }
}

impl Figures {
    fn of(entry: &ProducerEntry) -> Self {
        let waiting = entry.streams.iter().map(StreamEntry::waiting).sum();
        let kept = entry.streams.iter().map(|it| kept(entry, it)).sum();
        Self {
            free: u64::saturating_sub(waiting, kept),
            waiting,
            kept,
        }
    }

    fn lesser(self, other: Self) -> Self {
        self.each(other, u64::min)
    }

    fn greater(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn each(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            free: of(self.free, other.free),
            waiting: of(self.waiting, other.waiting),
            kept: of(self.kept, other.kept),
        }
    }

    /// Tells whether they are more by a quarter. What is kept counts where nothing is to be sent.
    const fn exceed(self, other: Self) -> bool {
        let (more, less) = if self.free > 0 || other.free > 0 {
            (self.free, other.free)
        } else {
            (self.waiting, other.waiting)
        };
        more.saturating_mul(4) > less.saturating_mul(5)
    }
}

impl Row {
    /// That of a producer of which nothing waits.
    fn of(producer: &str) -> Self {
        Self {
            producer: producer.into(),
            figures: Figures::default(),
            oldest: Some(Duration::ZERO),
        }
    }

    /// That of all others, before any is added.
    fn others() -> Self {
        Self::of(OTHER)
    }

    /// Adds one of the others. The oldest of those that are known is that of all.
    fn add(&mut self, row: &Self) {
        let Figures {
            free,
            waiting,
            kept,
        } = row.figures;
        self.figures.free = self.figures.free.saturating_add(free);
        self.figures.waiting = self.figures.waiting.saturating_add(waiting);
        self.figures.kept = self.figures.kept.saturating_add(kept);
        self.oldest = self.oldest.max(row.oldest);
    }
}

/// The producers that have series of their own at most, beside those that have just lost them, which are as many at most.
pub(super) const PLACES: usize = 20;
/// The time for which one that has lost its place is shown: longer than the last value is asked for.
const LEAVING: Duration = Duration::from_secs(11 * 60);
/// The name of all others.
const OTHER: &str = "other";
