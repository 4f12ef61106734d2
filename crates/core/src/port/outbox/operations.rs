//! The outbox as its operators see it: the messages that were given up, and the counts of what waits.

use std::future::Future;
use std::time::Duration;

use super::super::erased::Answer;
use crate::ByteString;
use crate::audit::Audited;
use crate::error::Result;
use crate::key::Key;
use crate::note::Note;
use crate::outbox::{OutboxId, Outgoing};
use crate::time::Timestamp;

/// The verbs of a person over the outbox of a stream. They need no lease: what they change is what no relay publishes,
/// and they may be called while relays run.
pub trait OutboxOperations: Send + Sync + 'static {
    /// Lists dead messages of the stream, at most so many behind `after`: first those without an order key, by their
    /// places, then by order key and place.
    ///
    /// # Shape   the next page begins behind [`DeadMessage::position`] of the last one; a short page is not the last, an
    /// empty one is
    /// # Cost    one page, found by an index; on MySQL, all dead messages of the stream without their payloads
    /// # Errors  `InvalidConfig`: no outbox, or a newer one; those of a store that is away
    /// # Cancel safety   safe
    fn dead(
        &self,
        stream: &str,
        after: Option<&DeadPosition>,
        most: u32,
    ) -> impl Future<Output = Result<Vec<DeadMessage>>> + Send;

    /// Reads one dead message of the stream whole; none if it is not there, not dead or published.
    ///
    /// # Errors   as [`OutboxOperations::dead`]
    /// # Cancel safety   safe
    fn dead_whole(
        &self,
        stream: &str,
        id: OutboxId,
    ) -> impl Future<Output = Result<Option<WholeDeadMessage>>> + Send;

    /// Carries out an order about dead messages of the stream. With a note, one audit entry for each message that was
    /// changed is written in the same transaction, if there is an audit trail in this database that the user may write.
    ///
    /// # Guarantee   a message that is tried again keeps its place: those behind it in its order key wait for it
    /// # Shape   messages that are not there, not dead, published or of another stream are left alone, and not counted
    /// # Cost    one transaction; at most [`MOST_ORDERED`] ids
    /// # Errors  as [`OutboxOperations::dead`]; repeating it is harmless
    /// # Cancel safety   safe: a call that is dropped may have been carried out
    fn order_dead(
        &self,
        stream: &str,
        ids: &[OutboxId],
        order: DeadOrder,
        note: Option<&Note>,
    ) -> impl Future<Output = Result<Changed>> + Send;

    /// Counts what is not published of the stream, up to [`MOST_COUNTED`] messages of each kind.
    ///
    /// # Cost   reads at most [`MOST_COUNTED`] messages that wait and as many dead ones, without their payloads
    /// # Errors   as [`OutboxOperations::dead`]
    /// # Cancel safety   safe
    fn backlog(&self, stream: &str) -> impl Future<Output = Result<Backlog>> + Send;
}

/// The most ids of one order.
pub const MOST_ORDERED: usize = 256;

/// The number of messages beyond which [`OutboxOperations::backlog`] does not count.
pub const MOST_COUNTED: u32 = 100_000;

/// A message that its relay has given up, without its headers and payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadMessage {
    /// The id.
    pub id: OutboxId,
    /// The order key, if there is one.
    pub order_key: Option<ByteString>,
    /// The place in the order of its stream.
    pub place: i64,
    /// The number of tries that failed and were counted.
    pub attempts: u32,
    /// The reason of the last failure, one line.
    pub error: Box<str>,
    /// The time at which it was written, by whoever wrote it or by the database.
    pub created_at: Timestamp,
    /// The time at which it was given up, by the clock of the database.
    pub dead_at: Timestamp,
    /// The length of its payload.
    pub size_bytes: u64,
}

/// The position of a message in the list of dead ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPosition {
    /// Its order key.
    pub order_key: Option<ByteString>,
    /// Its place.
    pub place: i64,
    /// Its id, by which those of one place are told apart: messages without an order key may share one.
    pub id: OutboxId,
}

impl DeadMessage {
    /// Returns its position in the list.
    pub fn position(&self) -> DeadPosition {
        DeadPosition {
            order_key: self.order_key.clone(),
            place: self.place,
            id: self.id,
        }
    }
}

/// A message that its relay has given up, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeDeadMessage {
    /// The facts about it.
    pub facts: DeadMessage,
    /// The message as a relay reads it.
    pub message: Outgoing,
}

/// An order about dead messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadOrder {
    /// Relays try the message again, in the place that it had; its tries are counted anew.
    TryAgain,
    /// The message is removed and never published; those that waited behind it go out.
    Drop,
}

impl DeadOrder {
    /// Returns the entry of the audit trail about one message. It has no scope: a stream is no operation.
    pub fn audited(self, stream: &str, id: OutboxId, note: &Note, at: Timestamp) -> Audited {
        let (action, after) = match self {
            Self::TryAgain => ("requeue", "to be published"),
            Self::Drop => ("drop", "message dropped"),
        };
        Audited {
            at,
            note: note.clone(),
            action: action.into(),
            scope: None,
            key: Key::parse(&id.to_string()).ok(),
            before: format!("dead in the outbox of {stream}").into(),
            after: after.into(),
        }
    }
}

/// The result of an order about dead messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Messages that were changed.
    pub count: u64,
    /// True if the audit trail has an entry for each of them.
    pub is_audited: bool,
}

/// The counts of a stream that is not published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Messages that wait, dead ones left out; [`MOST_COUNTED`] stands for that many or more.
    pub waiting: u64,
    /// Dead messages; [`MOST_COUNTED`] stands for that many or more.
    pub dead: u64,
    /// The time since the oldest of those counted as waiting was written; none if none waits.
    pub oldest: Option<Duration>,
}

/// The boxed form of the verbs.
pub(super) trait Erased: Send + Sync {
    fn dead<'a>(
        &'a self,
        stream: &'a str,
        after: Option<&'a DeadPosition>,
        most: u32,
    ) -> Answer<'a, Vec<DeadMessage>>;
    fn dead_whole<'a>(
        &'a self,
        stream: &'a str,
        id: OutboxId,
    ) -> Answer<'a, Option<WholeDeadMessage>>;
    fn order_dead<'a>(
        &'a self,
        stream: &'a str,
        ids: &'a [OutboxId],
        order: DeadOrder,
        note: Option<&'a Note>,
    ) -> Answer<'a, Changed>;
    fn backlog<'a>(&'a self, stream: &'a str) -> Answer<'a, Backlog>;
}

impl<S: OutboxOperations> Erased for S {
    fn dead<'a>(
        &'a self,
        stream: &'a str,
        after: Option<&'a DeadPosition>,
        most: u32,
    ) -> Answer<'a, Vec<DeadMessage>> {
        Box::pin(OutboxOperations::dead(self, stream, after, most))
    }

    fn dead_whole<'a>(
        &'a self,
        stream: &'a str,
        id: OutboxId,
    ) -> Answer<'a, Option<WholeDeadMessage>> {
        Box::pin(OutboxOperations::dead_whole(self, stream, id))
    }

    fn order_dead<'a>(
        &'a self,
        stream: &'a str,
        ids: &'a [OutboxId],
        order: DeadOrder,
        note: Option<&'a Note>,
    ) -> Answer<'a, Changed> {
        Box::pin(OutboxOperations::order_dead(self, stream, ids, order, note))
    }

    fn backlog<'a>(&'a self, stream: &'a str) -> Answer<'a, Backlog> {
        Box::pin(OutboxOperations::backlog(self, stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_on_the_trail_under_the_id_of_its_message() {
        let note = Note {
            by: "ann".into(),
            reason: "too large".into(),
        };
        let id = OutboxId::from_u128(7);
        for (order, action) in [(DeadOrder::TryAgain, "requeue"), (DeadOrder::Drop, "drop")] {
            let entry = order.audited("orders", id, &note, Timestamp::EPOCH);
            assert_eq!((&*entry.action, entry.note), (action, note.clone()));
            let key = entry.key.expect("the id");
            assert_eq!(key.as_str(), "00000000-0000-0000-0000-000000000007");
            assert!(entry.before.contains("orders"), "{}", entry.before);
        }
    }
}
