//! The messages that are being sent: each until the sink has confirmed or refused it.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use bytes::Bytes;
use semel_core::ByteString;
use semel_core::port::sink::Publication;
use semel_core::producer::{MessageIds, ProducerMessage, headers};

/// Messages with sequences that follow each other.
#[derive(Debug)]
pub(super) struct Group {
    first: u64,
    messages: Vec<ProducerMessage>,
    /// The messages that are not settled, by their place, in order.
    open: Vec<usize>,
    /// Those of them that the sink may have, and the time at which it was first given any of these.
    perhaps: BTreeSet<usize>,
    perhaps_since: Option<Duration>,
    /// All that a call of the sink left unsure.
    unsure: HashSet<usize>,
    /// Those of them that went out again.
    resent: HashSet<usize>,
}

/// The identity that every message has.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) ids: MessageIds,
    pub(super) producer: Bytes,
    pub(super) epoch: Bytes,
}

impl Group {
    pub(super) fn new(first: u64, messages: Vec<ProducerMessage>) -> Self {
        Self {
            first,
            open: (0..messages.len()).collect(),
            perhaps: BTreeSet::new(),
            perhaps_since: None,
            unsure: HashSet::new(),
            resent: HashSet::new(),
            messages,
        }
    }

    /// Returns the sequence behind the last message.
    pub(super) fn end(&self) -> u64 {
        self.first + self.messages.len() as u64
    }

    /// Returns the sequence of a message by its place.
    pub(super) fn sequence(&self, at: usize) -> u64 {
        self.first + at as u64
    }

    pub(super) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the sequence up to which all messages are settled.
    pub(super) fn settled_through(&self) -> u64 {
        self.next_open().unwrap_or_else(|| self.end()) - 1
    }

    /// Returns the sequence of the first message that is not settled.
    pub(super) fn next_open(&self) -> Option<u64> {
        self.open.first().map(|at| self.sequence(*at))
    }

    /// Tells whether the message of this sequence is settled.
    pub(super) fn has_settled(&self, sequence: u64) -> bool {
        let place = sequence.checked_sub(self.first);
        let place = place.and_then(|it| usize::try_from(it).ok());
        place.is_some_and(|at| at < self.messages.len() && self.open.binary_search(&at).is_err())
    }

    /// Returns the messages up to this sequence that may go out now: all of them, or one of each order key.
    pub(super) fn next_call(&self, in_waves: bool, limit: u64) -> Vec<usize> {
        let may_go = |at: &&usize| self.sequence(**at) <= limit;
        let open = self.open.iter().take_while(may_go).copied();
        if !in_waves || semel_core::planted("X20") {
            return open.collect();
        }
        let mut keys = HashSet::new();
        let is_first = |at: &usize| match &self.messages[*at].order {
            Some(key) => keys.insert(key.clone()),
            None => true,
        };
        open.filter(is_first).collect()
    }

    /// Notes that messages are settled.
    pub(super) fn settle(&mut self, settled: &HashSet<usize>) {
        self.open.retain(|at| !settled.contains(at));
        self.perhaps.retain(|at| !settled.contains(at));
    }

    /// Notes that the sink may have a message that it was given then.
    pub(super) fn may_be_there(&mut self, at: usize, since: Duration) {
        self.unsure.insert(at);
        self.perhaps.insert(at);
        self.perhaps_since.get_or_insert(since);
    }

    /// Notes that messages go out; returns how many of them a call left unsure, and go out again for the first time.
    pub(super) fn count_resent(&mut self, places: &[usize]) -> u64 {
        let unsure = places.iter().filter(|at| self.unsure.contains(at));
        let resent = unsure.filter(|at| self.resent.insert(**at));
        resent.count() as u64
    }

    /// Takes the sequences of the messages that the sink may have for so long at least.
    pub(super) fn take_late(&mut self, now: Duration, window: Duration) -> Vec<u64> {
        match self.perhaps_since {
            Some(since) if now.saturating_sub(since) >= window => {
                self.perhaps_since = None;
                let late = std::mem::take(&mut self.perhaps).into_iter();
                late.map(|at| self.sequence(at)).collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Returns what is published of a message: the same at every try, but for the epoch.
    pub(super) fn publication(&self, at: usize, identity: &Identity) -> Publication {
        let message = &self.messages[at];
        let sequence = self.sequence(at);
        let id = match &message.id {
            Some(id) => id.clone(),
            None if semel_core::planted("X22") => format!("{:?} {sequence}", identity.epoch).into(),
            None => identity.ids.id(sequence).into(),
        };
        let mut with = Vec::with_capacity(message.headers.len() + 4);
        let theirs = message.headers.iter().filter(|(name, _)| !is_ours(name));
        with.extend(theirs.cloned());
        with.extend([
            (
                ByteString::from_static(headers::ID),
                id.clone().into_bytes(),
            ),
            (
                ByteString::from_static(headers::PRODUCER),
                identity.producer.clone(),
            ),
            (
                ByteString::from_static(headers::EPOCH),
                identity.epoch.clone(),
            ),
            (
                ByteString::from_static(headers::SEQUENCE),
                sequence.to_string().into(),
            ),
        ]);
        Publication {
            id: (&*id).into(),
            order: message.order.clone(),
            payload: message.payload.clone(),
            headers: with,
        }
    }
}

/// Tells whether a header would speak of another message, as one does that was forwarded with all its headers: of its
/// identity, or of the key that Kafka had for it.
fn is_ours(name: &str) -> bool {
    OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours))
}

const OURS: [&str; 6] = [
    headers::ID,
    headers::PRODUCER,
    headers::EPOCH,
    headers::SEQUENCE,
    "nats-msg-id",
    "kafka-key",
];
