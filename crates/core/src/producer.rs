//! A producer: an identity that outlives its process, and what it has to send. Not for keeping or sending it.

mod batch;
pub mod ledger;
pub mod row;

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use bytestring::ByteString;

use crate::code::Code;
use crate::error::{Error, ErrorKind};
use crate::time::Timestamp;

pub use batch::{decode, encode};

/// The name of a producer in its store: 1 to 80 printable characters of ASCII, without spaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerName(Box<str>);

impl ProducerName {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ProducerName {
    /// Returns the id of a producer that sends its messages here: 1 to 97 printable characters of ASCII, so that the
    /// id of each [`Incarnation`] of another store is one.
    ///
    /// # Errors
    /// `InvalidInput`: another text
    pub fn of_sender(text: &str) -> Result<Self, Error> {
        Self::of_length(text, 97)
    }

    /// The name of messages that nobody numbers.
    pub(crate) fn unnumbered() -> Self {
        Self(UNNUMBERED.into())
    }

    fn of_length(text: &str, most: usize) -> Result<Self, Error> {
        let is_sound = (1..=most).contains(&text.len());
        if !is_sound || !text.bytes().all(|it| it.is_ascii_graphic()) {
            let message = format!(
                "the name of a producer has from 1 to {most} printable characters of ASCII, and no spaces"
            );
            return Err(Error::new(ErrorKind::InvalidInput, message).not_applied());
        }
        Ok(Self(text.into()))
    }
}

impl FromStr for ProducerName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::of_length(text, 80)
    }
}

impl fmt::Display for ProducerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One opening of a producer: it may append and confirm until there is a later one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// The name in the store.
    pub name: ProducerName,
    /// The id, the same for ever, which no producer of another store has.
    pub id: Box<str>,
    /// The epoch, which rises with each opening.
    pub epoch: u64,
}

impl Incarnation {
    /// Returns the error of an incarnation that is not the latest.
    pub fn fenced_by(&self, epoch: u64) -> Error {
        let Self {
            name, epoch: own, ..
        } = self;
        let message = format!(
            "producer {name}: another process opened it (epoch {epoch}, this one has {own}); run one process for each \
             name, or give this one a name of its own"
        );
        Error::new(ErrorKind::ClaimLost, message)
            .with_code(Code::ProducerFenced)
            .not_applied()
    }
}

/// A request to open a producer for one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The name.
    pub name: ProducerName,
    /// The stream.
    pub stream: Box<str>,
    /// The place that the stream is published to, without secrets.
    pub target: Box<str>,
    /// Chance, for the id of a producer that is new.
    pub chance: [u8; 8],
}

impl Opening {
    /// Returns the id of a producer that is new.
    pub fn id(&self) -> Box<str> {
        let chance = u64::from_be_bytes(self.chance);
        format!("{}-{chance:016x}", self.name).into()
    }

    /// Refuses names that no column of a database has room for.
    ///
    /// # Errors
    /// `InvalidInput`
    pub fn fits_columns(&self) -> Result<(), Error> {
        fits_column("stream", &self.stream)?;
        fits_column("target", &self.target)
    }

    /// Returns the error of a stream with messages for another place.
    pub fn elsewhere(&self, target: &str, waiting: u64) -> Error {
        let Self {
            name,
            stream,
            target: own,
            ..
        } = self;
        let message = format!(
            "producer {name}: {waiting} messages of stream {stream} wait for {target}, and this one publishes to \
             {own}; publish those first, or give this one another --producer"
        );
        Error::new(ErrorKind::InvalidConfig, message)
            .with_code(Code::ProducerElsewhere)
            .not_applied()
    }
}

/// Refuses a name that no column of a database has room for.
pub(crate) fn fits_column(what: &str, text: &str) -> Result<(), Error> {
    if (1..=MOST_COLUMN_BYTES).contains(&text.len()) && !text.contains('\0') {
        return Ok(());
    }
    let message = format!(
        "the {what} of a producer has from 1 to {MOST_COLUMN_BYTES} bytes in this store, none of them zero"
    );
    Err(Error::new(ErrorKind::InvalidInput, message).not_applied())
}

/// A producer that was opened, and the state of its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The incarnation, which fences all earlier ones.
    pub incarnation: Incarnation,
    /// The sequence of the next message.
    pub next: u64,
    /// The state of the stream.
    pub standing: Standing,
}

/// The state of a stream, as far as sending goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The sequence up to which all messages are with the broker.
    pub confirmed: u64,
    /// The sequence up to which messages may be sent, if not all may.
    pub limit: Option<u64>,
}

/// Messages that are appended together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The sequence of the first message.
    pub first: u64,
    /// The number of messages; there may be none.
    pub count: u32,
    /// The messages, as [`encode`] writes them.
    pub body: Bytes,
    /// The progress in the input that they come from.
    pub input: Option<InputMark>,
    /// The sequence up to which all messages are with the broker, by the sender's own knowledge.
    pub confirmed: u64,
    /// The time.
    pub at: Timestamp,
}

impl Batch {
    /// Returns the sequence behind the last message.
    pub fn end(&self) -> u64 {
        self.first.saturating_add(u64::from(self.count))
    }
}

/// A batch as a journal gives it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBatch {
    /// The sequence of the first message.
    pub first: u64,
    /// The number of messages.
    pub count: u32,
    /// The messages.
    pub body: Bytes,
    /// The time at which they were appended.
    pub at: Timestamp,
}

/// The batches that a journal gives back at once: one in any case, and as many as stay within a number of messages and
/// within [`Page::MOST_BYTES`].
#[derive(Clone, Copy, Debug)]
pub struct Page {
    most: u32,
    messages: u32,
    bytes: u64,
}

impl Page {
    /// The most bytes of the batches of a page that has more than one.
    pub const MOST_BYTES: u64 = 16 << 20;

    /// Begins a page of at most so many messages.
    pub fn of(most: u32) -> Self {
        Self {
            most,
            messages: 0,
            bytes: 0,
        }
    }

    /// Takes another batch in; tells whether it has a place.
    pub fn takes(&mut self, count: u32, bytes: u64) -> bool {
        let (messages, bytes) = (
            self.messages.saturating_add(count),
            self.bytes.saturating_add(bytes),
        );
        let is_first = self.messages == 0;
        let is_room = messages <= self.most && bytes <= Self::MOST_BYTES;
        if is_first || is_room {
            (self.messages, self.bytes) = (messages, bytes);
        }
        is_first || is_room
    }
}

/// The progress in an input that can be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputMark {
    /// The hash of the whole content, and of the target.
    pub digest: [u8; 32],
    /// The rows of it that were appended, or left out.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// True once nothing of it is left.
    pub is_whole: bool,
}

/// The most bytes of a stream or a target in a column of a database.
const MOST_COLUMN_BYTES: usize = 1_000;

/// The number of inputs that a journal remembers of a stream; the oldest is forgotten first.
pub const MOST_INPUTS: usize = 1_000;

/// A message that a producer publishes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerMessage {
    /// The id of the caller's, if it has one; else one is made of the sequence.
    pub id: Option<ByteString>,
    /// The value by which messages are kept in order.
    pub order: Option<Bytes>,
    /// Headers, in this order.
    pub headers: Vec<(ByteString, Bytes)>,
    /// The message, byte for byte.
    pub payload: Bytes,
}

impl ProducerMessage {
    /// Returns a message with this payload alone.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self {
            payload: payload.into(),
            ..Self::default()
        }
    }
}

/// The ids of the messages of one producer and stream that have none of their caller's.
#[derive(Clone, Copy, Debug)]
pub struct MessageIds([u8; 10]);

impl MessageIds {
    /// Returns those of this producer id and stream.
    pub fn of(producer: &str, stream: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"semel producer 1\0");
        hasher.update(producer.as_bytes());
        hasher.update(&[0]);
        hasher.update(stream.as_bytes());
        let mut base = [0; 10];
        base.copy_from_slice(&hasher.finalize().as_bytes()[..10]);
        base[6] = base[6] & 0x0f | 0x80;
        base[8] = base[8] & 0x3f | 0x80;
        Self(base)
    }

    /// Returns the id of a sequence: the text of a UUID of version 8.
    pub fn id(&self, sequence: u64) -> String {
        let mut bytes = [0; 16];
        bytes[..10].copy_from_slice(&self.0);
        bytes[10..].copy_from_slice(&sequence.to_be_bytes()[2..]);
        crate::outbox::OutboxId::from_u128(u128::from_be_bytes(bytes)).to_string()
    }
}

/// A producer on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerEntry {
    /// The name.
    pub name: ProducerName,
    /// The id.
    pub id: Box<str>,
    /// The epoch of the latest opening.
    pub epoch: u64,
    /// True if its messages are kept and not published.
    pub is_frozen: bool,
    /// Its streams, by name.
    pub streams: Vec<StreamEntry>,
    /// The damage for which nothing but its name is known; none of one that is sound.
    pub damage: Option<Box<str>>,
}

impl ProducerEntry {
    /// Returns the entry of a producer that is there, and of which nothing can be read for this reason.
    pub fn damaged(name: ProducerName, why: &Error) -> Self {
        Self {
            name,
            id: "".into(),
            epoch: 0,
            is_frozen: false,
            streams: Vec::new(),
            damage: Some(why.to_string().into()),
        }
    }

    /// Returns the error of one that is damaged.
    pub fn fault(&self) -> Option<Error> {
        let damage = self.damage.as_deref()?;
        Some(Error::new(ErrorKind::Corrupt, damage))
    }
}

/// A stream of a producer on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    /// The stream.
    pub stream: Box<str>,
    /// The place that it is published to.
    pub target: Box<str>,
    /// The sequence of the next message.
    pub next: u64,
    /// The sequence up to which all messages are with the broker.
    pub confirmed: u64,
    /// The sequence up to which messages were released while the producer is frozen.
    pub released: u64,
}

impl StreamEntry {
    /// Returns the number of messages that are not confirmed.
    pub fn waiting(&self) -> u64 {
        self.next.saturating_sub(1).saturating_sub(self.confirmed)
    }
}

/// The name under which messages are kept that others send and nobody numbers.
pub const UNNUMBERED: &str = "semel-ingest";

/// An order about a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerOrder {
    /// Keep its messages from now on, and publish none.
    Freeze,
    /// Publish what was kept, and then what is new.
    Thaw,
    /// Publish what was kept until now, and keep what is new.
    Release,
}

/// The headers that every message of a producer has.
pub mod headers {
    /// The id of the message.
    pub const ID: &str = "semel-id";
    /// The id of the producer.
    pub const PRODUCER: &str = "semel-producer";
    /// The epoch of the incarnation that sent it.
    pub const EPOCH: &str = "semel-epoch";
    /// The sequence in its stream.
    pub const SEQUENCE: &str = "semel-sequence";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_id_is_a_uuid_of_its_own_for_each_producer_stream_and_sequence() {
        let places = [("a", "bc"), ("ab", "c"), ("a", "b")];
        let ids: BTreeSet<String> = places
            .iter()
            .flat_map(|(producer, stream)| {
                let ids = MessageIds::of(producer, stream);
                [1, 2, 70_000, u64::from(u32::MAX) + 7].map(|sequence| ids.id(sequence))
            })
            .collect();
        assert_eq!(ids.len(), 12);
        for id in ids {
            assert_eq!(id.as_bytes()[14], b'8', "{id}");
            assert!(id.parse::<crate::outbox::OutboxId>().is_ok());
        }
    }

    #[test]
    fn a_name_that_no_header_takes_is_refused() {
        assert!("billing/eu-1".parse::<ProducerName>().is_ok());
        for wrong in ["", "a b", "é", "a\n", &"x".repeat(81)] {
            let error = wrong.parse::<ProducerName>().expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    }
}
