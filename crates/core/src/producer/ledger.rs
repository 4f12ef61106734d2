//! The rules of a journal, over the state of one producer: the model that every store is compared with, and the core
//! of those that keep it in memory beside a log.

use std::collections::{BTreeMap, VecDeque};

use super::{
    Batch, Incarnation, InputMark, MOST_INPUTS, Opened, Opening, ProducerEntry, ProducerName,
    ProducerOrder, Standing, StreamEntry,
};
use crate::error::{Error, ErrorKind, Result};
use crate::time::Timestamp;

/// The state of one producer. `B` is where the messages of a batch are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger<B> {
    /// The name.
    pub name: ProducerName,
    /// The id.
    pub id: Box<str>,
    /// The epoch of the latest opening.
    pub epoch: u64,
    /// True if messages are kept and not published.
    pub is_frozen: bool,
    /// The streams.
    pub streams: BTreeMap<Box<str>, Stream<B>>,
}

/// The state of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream<B> {
    /// The place that it is published to.
    pub target: Box<str>,
    /// The sequence of the next message.
    pub next: u64,
    /// The sequence up to which all messages are with the broker.
    pub confirmed: u64,
    /// The sequence up to which messages may be sent while the producer is frozen.
    pub released: u64,
    /// The batches with a message that is not confirmed.
    pub batches: VecDeque<KeptBatch<B>>,
    /// The inputs, the oldest first.
    pub inputs: VecDeque<InputMark>,
    /// The time at which a stream of messages that others send was begun; 0 if that is not on record.
    pub begun: u64,
    /// The time at which a message, or an epoch, came last, or was settled; that of 1970 if it is not on record.
    pub heard: Timestamp,
}

/// A batch that is not confirmed whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptBatch<B> {
    /// The sequence of the first message.
    pub first: u64,
    /// The number of messages.
    pub count: u32,
    /// The place of the messages.
    pub body: B,
    /// The time at which they were appended.
    pub at: Timestamp,
}

/// The meaning of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    /// The batch is new.
    New,
    /// It is on record already: the answer to the first call was lost.
    Known,
}

impl<B> Ledger<B> {
    /// Returns the state of a producer that nobody has opened.
    pub fn new(opening: &Opening) -> Self {
        Self {
            name: opening.name.clone(),
            id: opening.id(),
            epoch: 0,
            is_frozen: false,
            streams: BTreeMap::new(),
        }
    }

    /// Opens the producer: a new epoch, and the stream if it is new.
    ///
    /// # Errors
    /// `InvalidConfig` with code `producer-elsewhere`: messages wait for another place
    pub fn open(&mut self, opening: &Opening) -> Result<Opened> {
        if let Some(stream) = self.streams.get(&opening.stream) {
            let waiting = (stream.next - 1).saturating_sub(stream.confirmed);
            if stream.target != opening.target && waiting > 0 {
                return Err(opening.elsewhere(&stream.target, waiting));
            }
        }
        let stream = self.streams.entry(opening.stream.clone());
        let stream = stream.or_insert_with(|| Stream {
            target: opening.target.clone(),
            next: 1,
            confirmed: 0,
            released: 0,
            batches: VecDeque::new(),
            inputs: VecDeque::new(),
            begun: 0,
            heard: Timestamp::EPOCH,
        });
        stream.target = opening.target.clone();
        self.epoch += 1;
        let next = stream.next;
        Ok(Opened {
            incarnation: Incarnation {
                name: self.name.clone(),
                id: self.id.clone(),
                epoch: self.epoch,
            },
            next,
            standing: self.standing(&opening.stream)?,
        })
    }

    /// Refuses an incarnation that is not the latest.
    ///
    /// # Errors
    /// `ClaimLost` with code `producer-fenced`
    pub fn check(&self, incarnation: &Incarnation) -> Result<()> {
        if incarnation.epoch == self.epoch && incarnation.id == self.id {
            return Ok(());
        }
        Err(incarnation.fenced_by(self.epoch))
    }

    /// Decides an append.
    ///
    /// # Errors
    /// As [`Ledger::check`]; `Conflict`: the batch is not the next one
    pub fn check_append(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        batch: &Batch,
    ) -> Result<Append> {
        self.check(incarnation)?;
        let next = self.stream(stream)?.next;
        if batch.first == next {
            return Ok(Append::New);
        }
        // Only one incarnation appends, one batch after the other: this is the last one once more.
        if batch.count > 0 && batch.end() == next {
            return Ok(Append::Known);
        }
        Err(not_next(batch.first, next))
    }

    /// Takes an append that was decided to be new.
    pub fn append(&mut self, stream: &str, batch: &Batch, body: B) {
        let Some(state) = self.streams.get_mut(stream) else {
            return;
        };
        state.next = batch.end();
        state.heard = state.heard.max(batch.at);
        if batch.count > 0 {
            state.batches.push_back(KeptBatch {
                first: batch.first,
                count: batch.count,
                body,
                at: batch.at,
            });
        }
        if let Some(input) = batch.input {
            state.inputs.retain(|it| it.digest != input.digest);
            state.inputs.push_back(input);
            if state.inputs.len() > MOST_INPUTS {
                state.inputs.pop_front();
            }
        }
        self.confirm(stream, batch.confirmed);
    }

    /// Takes a confirmation.
    pub fn confirm(&mut self, stream: &str, through: u64) {
        if let Some(state) = self.streams.get_mut(stream) {
            state.confirmed = state.confirmed.max(through.min(state.next - 1));
            let confirmed = state.confirmed;
            let is_done = |it: &KeptBatch<B>| it.first + u64::from(it.count) - 1 <= confirmed;
            while state.batches.front().is_some_and(is_done) {
                state.batches.pop_front();
            }
        }
    }

    /// Takes a confirmation, and its time.
    pub fn settle(&mut self, stream: &str, through: u64, at: Timestamp) {
        self.confirm(stream, through);
        if let Some(state) = self.streams.get_mut(stream) {
            state.heard = state.heard.max(at);
        }
    }

    /// Takes an order.
    pub fn order(&mut self, order: ProducerOrder) {
        match order {
            ProducerOrder::Freeze => {
                self.is_frozen = true;
                for stream in self.streams.values_mut() {
                    stream.released = stream.confirmed;
                }
            }
            ProducerOrder::Thaw => self.is_frozen = false,
            ProducerOrder::Release => {
                for stream in self.streams.values_mut() {
                    stream.released = stream.next - 1;
                }
            }
        }
    }

    /// Returns the state of a stream as far as sending goes.
    ///
    /// # Errors
    /// As [`Ledger::stream`]
    pub fn standing(&self, stream: &str) -> Result<Standing> {
        let stream = self.stream(stream)?;
        Ok(Standing {
            confirmed: stream.confirmed,
            limit: self.is_frozen.then_some(stream.released),
        })
    }

    /// Returns a stream that was opened.
    ///
    /// # Errors
    /// `InvalidInput`: nobody opened the producer for it
    pub fn stream(&self, stream: &str) -> Result<&Stream<B>> {
        let found = self.streams.get(stream);
        found.ok_or_else(|| not_opened(&self.name, stream))
    }

    /// Returns the batches with a message behind a sequence that is not confirmed, in order.
    ///
    /// # Errors
    /// As [`Ledger::stream`]
    pub fn kept_behind(
        &self,
        stream: &str,
        after: u64,
    ) -> Result<impl Iterator<Item = &KeptBatch<B>>> {
        let kept = &self.stream(stream)?.batches;
        // They are in order.
        let begin =
            kept.partition_point(|it| it.first + u64::from(it.count) <= after.saturating_add(1));
        Ok(kept.range(begin..))
    }

    /// Returns the progress in an input.
    ///
    /// # Errors
    /// As [`Ledger::stream`]
    pub fn input(&self, stream: &str, digest: &[u8; 32]) -> Result<Option<InputMark>> {
        let mut inputs = self.stream(stream)?.inputs.iter();
        Ok(inputs.find(|it| it.digest == *digest).copied())
    }

    /// Returns the entry of the producer.
    pub fn entry(&self) -> ProducerEntry {
        let streams = self.streams.iter().map(|(name, stream)| StreamEntry {
            stream: name.clone(),
            target: stream.target.clone(),
            next: stream.next,
            confirmed: stream.confirmed,
            released: stream.released,
        });
        ProducerEntry {
            name: self.name.clone(),
            id: self.id.clone(),
            epoch: self.epoch,
            is_frozen: self.is_frozen,
            streams: streams.collect(),
            damage: None,
        }
    }
}

/// Returns the error of a batch that is not the next one.
pub fn not_next(first: u64, next: u64) -> Error {
    let message = format!("a batch begins at sequence {first}, and the next one is {next}");
    Error::new(ErrorKind::Conflict, message).not_applied()
}

/// Returns the error of a stream that nobody opened.
pub fn not_opened(name: &ProducerName, stream: &str) -> Error {
    let message = format!("producer {name} was not opened for stream {stream}");
    Error::new(ErrorKind::InvalidInput, message).not_applied()
}
