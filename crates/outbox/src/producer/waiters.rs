//! The callers that wait for their messages.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use semel_core::port::sink::Placement;
use semel_core::{Error, Result};
use tokio::sync::oneshot;

/// The answer about one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its sequence.
    pub sequence: u64,
    /// Its fate.
    pub fate: Fate,
    /// Its place on the broker, as far as the broker said so when it confirmed the message.
    pub placement: Placement,
}

/// The fate of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The sink confirmed it.
    Published,
    /// It is in the journal, and sent when the producer is thawed or releases it.
    Kept,
    /// The sink takes it in no case: the reason.
    Refused(Box<str>),
}

/// A reply that somebody waits for.
pub(super) type Reply = oneshot::Sender<Result<Vec<Receipt>>>;

/// The place in the journal of messages that were handed over together.
#[derive(Debug, Default)]
pub(super) struct JournalPlace {
    /// The sequence of the first of them, once they are in a batch; 0 until then.
    first: AtomicU64,
    /// Set once the journal said that it has them.
    is_appended: AtomicBool,
}

impl JournalPlace {
    /// Notes the sequence of the first of them, of a batch that is tried now.
    pub(super) fn begins_at(&self, first: u64) {
        self.first.store(first, Ordering::Relaxed);
    }

    /// Notes that the journal has them.
    pub(super) fn is_in_journal(&self) {
        self.is_appended.store(true, Ordering::Relaxed);
    }

    /// Returns the sequence of the first of them, if they were ever in a batch.
    pub(super) fn first(&self) -> Option<u64> {
        let first = self.first.load(Ordering::Relaxed);
        (first > 0).then_some(first)
    }

    /// Tells whether the journal said that it has them.
    pub(super) fn is_appended(&self) -> bool {
        self.is_appended.load(Ordering::Relaxed)
    }
}

/// The callers, in the order of their messages.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    waiting: VecDeque<(u64, u64, Reply)>,
    refused: BTreeMap<u64, Box<str>>,
    placed: BTreeMap<u64, Placement>,
}

impl Waiters {
    /// Adds a caller whose messages have the sequences from `first` to before `end`.
    pub(super) fn push(&mut self, first: u64, end: u64, reply: Reply) {
        self.waiting.push_back((first, end, reply));
    }

    /// Notes that a message is refused.
    pub(super) fn refuse(&mut self, sequence: u64, reason: Box<str>) {
        self.refused.insert(sequence, reason);
    }

    /// Notes where a message is, if the broker said so.
    pub(super) fn place(&mut self, sequence: u64, placement: Placement) {
        if placement != Placement::default() {
            self.placed.insert(sequence, placement);
        }
    }

    /// Answers those whose messages are all settled up to `through`, or are kept behind `limit`, but for those behind
    /// `through` that are settled already.
    pub(super) fn answer(
        &mut self,
        through: u64,
        limit: Option<u64>,
        is_settled: impl Fn(u64) -> bool,
    ) {
        let is_over = |(_, end, _): &(u64, u64, Reply)| {
            *end <= through + 1 || limit.is_some_and(|limit| limit <= through)
        };
        while self.waiting.front().is_some_and(is_over) {
            let Some((first, end, reply)) = self.waiting.pop_front() else {
                return;
            };
            let receipts = (first..end).map(|sequence| {
                let fate = match self.refused.remove(&sequence) {
                    Some(reason) => Fate::Refused(reason),
                    None if sequence <= through || is_settled(sequence) => Fate::Published,
                    None => Fate::Kept,
                };
                Receipt {
                    sequence,
                    fate,
                    placement: self.placed.remove(&sequence).unwrap_or_default(),
                }
            });
            // Whoever gave up waiting is not told.
            let _ = reply.send(Ok(receipts.collect()));
        }
        // Those of an earlier opening have nobody who waits; whoever waits still is told of all of his.
        let awaited = self.waiting.front().map(|(first, _, _)| *first);
        let kept = awaited.unwrap_or(u64::MAX).min(through + 1);
        self.refused = self.refused.split_off(&kept);
        self.placed = self.placed.split_off(&kept);
    }

    /// Tells all of them that the producer has failed.
    pub(super) fn fail(&mut self, error: &Error) {
        for (_, _, reply) in self.waiting.drain(..) {
            let _ = reply.send(Err(error.clone()));
        }
    }
}
