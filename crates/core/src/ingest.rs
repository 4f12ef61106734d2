//! The gate before messages that others send here: by producer, epoch and sequence it knows what is next, what was
//! taken before, what is missing, and who was fenced. Not for keeping or running them.

mod silence;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::error::Error;
use crate::producer::ledger::{Ledger, Stream};
use crate::producer::{Batch, InputMark, ProducerMessage, ProducerName, encode, fits_column};
use crate::time::Timestamp;

pub use crate::producer::UNNUMBERED;
pub use silence::{Forgotten, Silence, SilentStream};

/// Messages that came together.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The place of the messages in the order of their producer.
    pub numbering: Numbering,
    /// The stream that they are for.
    pub stream: Box<str>,
    /// The messages, in order.
    pub messages: Arc<[ProducerMessage]>,
    /// The time.
    pub at: Timestamp,
}

/// The place of messages in the order of their producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Their producer numbers them.
    Sender {
        /// The id of the producer.
        producer: ProducerName,
        /// The epoch of the opening that sends them.
        epoch: u64,
        /// The sequence of the first; the rest follow.
        first: u64,
        /// True if a producer that is not on record may begin with any sequence.
        is_any_first: bool,
    },
    /// Nobody does: they are put behind what came before, once for each digest that is remembered.
    Arrival {
        /// The hash that the same messages have when they come again.
        digest: Option<[u8; 32]>,
    },
}

/// The record of a producer and a stream, as far as the gate goes by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The highest epoch of which a message was taken.
    pub epoch: u64,
    /// The sequence of the next message; none if the stream is not on record.
    pub next: Option<u64>,
    /// True if messages are kept and not run.
    pub is_frozen: bool,
}

/// The answer of the gate. All but [`GateAnswer::Taken`] change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateAnswer {
    /// The messages are taken, in this call or before.
    Taken {
        /// The number at the beginning that were taken before.
        known: u32,
        /// The number of those behind them, which are new.
        new: u32,
        /// The sequence of the next message.
        next: u64,
        /// True if the new ones are kept, and not run before they are released.
        is_kept: bool,
    },
    /// A later opening of the producer was heard of.
    Fenced {
        /// Its epoch.
        epoch: u64,
    },
    /// Messages before these are missing.
    Gap {
        /// The sequence of the first that is missing.
        expected: u64,
    },
    /// The producer is not on record for this stream, and begins later than at its beginning.
    Unknown {
        /// The sequence that it would have to begin with.
        expected: u64,
    },
}

/// The target of the streams of those that send here.
pub const SENDERS_TARGET: &str = "ingest";

/// The highest epoch and the highest sequence of a first message: what is added to it stays a number of every store.
pub const HIGHEST: u64 = 1 << 60;

impl Submission {
    /// Returns the producer that the messages are kept under.
    pub fn producer(&self) -> ProducerName {
        match &self.numbering {
            Numbering::Sender { producer, .. } => producer.clone(),
            Numbering::Arrival { .. } => ProducerName::unnumbered(),
        }
    }

    /// Returns the epoch; that of messages that nobody numbers is 1 for ever.
    pub const fn epoch(&self) -> u64 {
        match &self.numbering {
            Numbering::Sender { epoch, .. } => *epoch,
            Numbering::Arrival { .. } => 1,
        }
    }

    /// Returns the sequence with which the stream begins if it is new.
    pub const fn first(&self) -> u64 {
        match &self.numbering {
            Numbering::Sender { first, .. } => *first,
            Numbering::Arrival { .. } => 1,
        }
    }

    /// Returns the digest by which messages that nobody numbers are known, if they have one.
    pub const fn digest(&self) -> Option<&[u8; 32]> {
        match &self.numbering {
            Numbering::Arrival { digest } => digest.as_ref(),
            Numbering::Sender { .. } => None,
        }
    }

    /// Returns the number of messages.
    pub fn count(&self) -> u32 {
        u32::try_from(self.messages.len()).unwrap_or(u32::MAX)
    }

    /// Refuses a stream that no column of a database has room for.
    ///
    /// # Errors
    /// `InvalidInput`
    pub fn fits_columns(&self) -> Result<(), Error> {
        fits_column("stream", &self.stream)
    }

    /// Decides, by what is on record of the producer and stream, and whether the digest is.
    pub fn decide(&self, on_record: Option<Position>, is_remembered: bool) -> GateAnswer {
        let count = self.count();
        let (epoch, first, is_any_first) = match &self.numbering {
            Numbering::Sender {
                epoch,
                first,
                is_any_first,
                ..
            } => (*epoch, *first, *is_any_first),
            Numbering::Arrival { .. } => {
                let next = on_record.and_then(|it| it.next).unwrap_or(1);
                let (known, new) = if is_remembered {
                    (count, 0)
                } else {
                    (0, count)
                };
                return GateAnswer::Taken {
                    known,
                    new,
                    next: next + u64::from(new),
                    is_kept: new > 0 && on_record.is_some_and(|it| it.is_frozen),
                };
            }
        };
        decide(on_record, epoch, first, count, is_any_first)
    }

    /// Decides, by the state of the producer, if it has one.
    pub fn decide_in<B>(&self, ledger: Option<&Ledger<B>>) -> GateAnswer {
        let input = |(ledger, digest): (&Ledger<B>, _)| ledger.input(&self.stream, digest).ok()?;
        let is_remembered = ledger.zip(self.digest()).and_then(input).is_some();
        self.decide(ledger.map(|it| it.position(&self.stream)), is_remembered)
    }

    /// Returns the batch with the messages behind so many that were taken before; `next` is the answer's.
    pub fn batch(&self, known: u32, new: u32, next: u64) -> Batch {
        let from = usize::try_from(known).unwrap_or(usize::MAX);
        let messages = self.messages.get(from..).unwrap_or_default();
        Batch {
            first: next - u64::from(new),
            count: new,
            body: encode(messages),
            input: self.digest().map(|digest| InputMark {
                digest: *digest,
                rows: new.into(),
                bytes: 0,
                is_whole: true,
            }),
            confirmed: 0,
            at: self.at,
        }
    }
}

/// The state of producers that send here.
impl<B> Ledger<B> {
    /// Returns the state of a producer that sends here and was not heard of.
    pub fn of_sender(name: &ProducerName) -> Self {
        Self {
            name: name.clone(),
            id: name.as_str().into(),
            epoch: 0,
            is_frozen: false,
            streams: BTreeMap::new(),
        }
    }

    /// Returns what the gate goes by.
    pub fn position(&self, stream: &str) -> Position {
        Position {
            epoch: self.epoch,
            next: self.streams.get(stream).map(|it| it.next),
            is_frozen: self.is_frozen,
        }
    }

    /// Returns the number by which the life of a stream is told from an earlier one.
    pub fn begun(&self, stream: &str) -> u64 {
        self.streams.get(stream).map_or(0, |it| it.begun)
    }

    /// Takes the epoch of a submission that the gate takes, and begins its stream where it begins if it is new. Tells
    /// whether anything changed.
    pub fn adopt(&mut self, submission: &Submission) -> bool {
        let (first, epoch) = (submission.first(), submission.epoch());
        let is_later = self.epoch < epoch;
        self.epoch = self.epoch.max(epoch);
        let is_known = self.streams.contains_key(&submission.stream);
        if !is_known {
            let stream = Stream {
                target: SENDERS_TARGET.into(),
                next: first,
                confirmed: first - 1,
                released: first - 1,
                batches: VecDeque::new(),
                inputs: VecDeque::new(),
                begun: submission.at.as_millis(),
                heard: submission.at,
            };
            self.streams.insert(submission.stream.clone(), stream);
        }
        let is_changed = is_later || !is_known;
        if is_changed && let Some(stream) = self.streams.get_mut(&submission.stream) {
            stream.heard = stream.heard.max(submission.at);
        }
        is_changed
    }
}

/// Decides about `count` messages from `first` on, of an opening with this epoch.
///
/// An older epoch is fenced, also for what is known. What comes before the next sequence is known, what comes behind it
/// is new, and a first one that is later leaves a gap.
pub fn decide(
    on_record: Option<Position>,
    epoch: u64,
    first: u64,
    count: u32,
    is_any_first: bool,
) -> GateAnswer {
    let position = on_record.unwrap_or_default();
    if epoch < position.epoch && !crate::planted("X25") {
        return GateAnswer::Fenced {
            epoch: position.epoch,
        };
    }
    let next = match position.next {
        Some(next) => next,
        None if first == 1 || is_any_first => first,
        None => return GateAnswer::Unknown { expected: 1 },
    };
    if first > next && !crate::planted("X26") {
        return GateAnswer::Gap { expected: next };
    }
    let known = if crate::planted("X27") && first.saturating_add(count.into()) > next {
        0
    } else {
        u32::try_from(next.saturating_sub(first))
            .unwrap_or(u32::MAX)
            .min(count)
    };
    let new = count - known;
    GateAnswer::Taken {
        known,
        new,
        next: next.saturating_add(new.into()),
        is_kept: position.is_frozen && new > 0,
    }
}

#[cfg(test)]
mod tests;
