//! The outbox as its relays see it: committed messages, the partitions that are leased, and what became of each. What a person
//! does with them is in [`operations`].

pub mod operations;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::erased::Answer;
use crate::error::{Error, ErrorKind, Result};
use crate::note::Note;
use crate::outbox::{OutboxId, Outgoing, PartitionLease};

use operations::{
    Backlog, Changed, DeadMessage, DeadOrder, DeadPosition, OutboxOperations, WholeDeadMessage,
};

/// The table that committed messages are read from by the relays of a stream.
///
/// Any number of processes may relay one stream under one name; each publishes the partitions that it has leased.
pub trait OutboxStore: Send + Sync + 'static {
    /// Renews the leases of this process, and gives all of them that are good now. With `balanced`, it also takes its
    /// share of what nobody holds, and gives back what is more than its share.
    ///
    /// # Guarantee   no two processes hold a partition at once, by the clock of the database; a token rises with each
    /// change of hands
    /// # Errors      `Unavailable`: no table, an older or a newer one; `InvalidConfig`: another relay, or one of this name
    /// with another sink, is at the stream; those of a store that is away
    /// # Cancel safety   safe: a lease that nobody knows of runs out
    fn lease(
        &self,
        relay: &RelayName,
        lease: Duration,
        balanced: bool,
    ) -> impl Future<Output = Result<Vec<PartitionLease>>> + Send;

    /// Returns committed messages that nobody has published, in the order in which they are to go out: at most so many,
    /// and none behind those that have [`MOST_BATCH_BYTES`] together.
    ///
    /// Left out are those of partitions whose lease has run out or changed hands, those that were put off, and those
    /// that come after one of their order key that was put off or is dead.
    ///
    /// # Errors   those of a store that is away
    /// # Cancel safety   safe
    fn pending(
        &self,
        relay: &RelayName,
        leases: &[PartitionLease],
        most: u32,
    ) -> impl Future<Output = Result<Vec<Outgoing>>> + Send;

    /// Records that these messages are published: removes them, or keeps them if `keep` says so. Not fenced, since it is
    /// true whoever says it. Returns the number of those that were still on record.
    ///
    /// # Errors   those of a store that is away; repeating it is harmless
    /// # Cancel safety   safe: a call that is dropped may have been carried out
    fn sent(&self, ids: &[OutboxId], keep: bool) -> impl Future<Output = Result<u64>> + Send;

    /// Records that messages could not be published, each for so long or for good. Changes nothing of a partition whose
    /// lease has run out or changed hands. Returns those that were changed.
    ///
    /// # Errors   those of a store that is away
    /// # Cancel safety   as [`OutboxStore::sent`]
    fn put_off(
        &self,
        relay: &RelayName,
        unsent: &[Unsent],
    ) -> impl Future<Output = Result<Vec<OutboxId>>> + Send;

    /// Removes messages that were published longer ago than this, at most so many; returns their number.
    ///
    /// # Errors   those of a store that is away
    /// # Cancel safety   safe
    fn forget(
        &self,
        stream: &str,
        published_for: Duration,
        most: u32,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// Gives back every lease of this process.
    ///
    /// # Errors   those of a store that is away; the leases run out then
    /// # Cancel safety   safe
    fn leave(&self, relay: &RelayName) -> impl Future<Output = Result<()>> + Send;

    /// Waits until a message may have been committed. It need not notice each: a relay looks now and then as well.
    ///
    /// # Cancel safety   safe
    fn committed(&self) -> impl Future<Output = Result<()>> + Send;
}

/// The bytes of payload after which a batch has no further message.
pub const MOST_BATCH_BYTES: i64 = 16 * 1_024 * 1_024;

/// A relay process, and what it relays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayName {
    /// The name of the relay, the same for all of its processes.
    pub name: Box<str>,
    /// The stream.
    pub stream: Box<str>,
    /// The sink, without secrets: that of all processes of the relay.
    pub sink: Box<str>,
    /// The process.
    pub process: Box<str>,
}

impl RelayName {
    /// Returns the error of a process whose stream another relay is at, or the same one with another sink.
    pub fn refused_by(&self, relay: &str, to: &str) -> Error {
        let Self {
            name, stream, sink, ..
        } = self;
        let message = if **name == *relay {
            format!(
                "relay {name}: another process of this name publishes stream {stream} to {to}, and this one would to \
                 {sink}; give both the same sink, or stop the other one first"
            )
        } else {
            format!(
                "relay {name}: stream {stream} is published by relay {relay}, to {to}; stop that one first, or give \
                 this one another stream"
            )
        };
        Error::new(ErrorKind::InvalidConfig, message)
    }
}

/// The contents of an outbox, in the view of one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutboxContents {
    /// Messages of the stream that are not published, dead ones left out.
    pub waiting: u64,
    /// Messages of the stream that are dead.
    pub dead: u64,
    /// Other streams with messages that are not published, each with its relay if it ever had one.
    pub others: Vec<(String, Option<String>)>,
}

/// A message that could not be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsent {
    /// The message.
    pub id: OutboxId,
    /// The lease of its partition.
    pub lease: PartitionLease,
    /// The reason, one line without secrets.
    pub error: Box<str>,
    /// The time until the next try; `None` if there is none, and the message is dead.
    pub wait: Option<Duration>,
    /// True if the try counts as one of those after which the message is dead.
    pub counted: bool,
}

/// Any outbox, picked at run time.
#[derive(Clone)]
pub struct AnyOutbox(Arc<dyn Erased>);

impl AnyOutbox {
    /// Erases `outbox`.
    pub fn new(outbox: impl OutboxStore + OutboxOperations) -> Self {
        Self(Arc::new(outbox))
    }
}

impl fmt::Debug for AnyOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyOutbox")
    }
}

impl OutboxStore for AnyOutbox {
    async fn lease(
        &self,
        relay: &RelayName,
        lease: Duration,
        balanced: bool,
    ) -> Result<Vec<PartitionLease>> {
        self.0.lease(relay, lease, balanced).await
    }

    async fn pending(
        &self,
        relay: &RelayName,
        leases: &[PartitionLease],
        most: u32,
    ) -> Result<Vec<Outgoing>> {
        self.0.pending(relay, leases, most).await
    }

    async fn sent(&self, ids: &[OutboxId], keep: bool) -> Result<u64> {
        self.0.sent(ids, keep).await
    }

    async fn put_off(&self, relay: &RelayName, unsent: &[Unsent]) -> Result<Vec<OutboxId>> {
        self.0.put_off(relay, unsent).await
    }

    async fn forget(&self, stream: &str, published_for: Duration, most: u32) -> Result<u64> {
        self.0.forget(stream, published_for, most).await
    }

    async fn leave(&self, relay: &RelayName) -> Result<()> {
        self.0.leave(relay).await
    }

    async fn committed(&self) -> Result<()> {
        self.0.committed().await
    }
}

impl OutboxOperations for AnyOutbox {
    async fn dead(
        &self,
        stream: &str,
        after: Option<&DeadPosition>,
        most: u32,
    ) -> Result<Vec<DeadMessage>> {
        self.0.dead(stream, after, most).await
    }

    async fn dead_whole(&self, stream: &str, id: OutboxId) -> Result<Option<WholeDeadMessage>> {
        self.0.dead_whole(stream, id).await
    }

    async fn order_dead(
        &self,
        stream: &str,
        ids: &[OutboxId],
        order: DeadOrder,
        note: Option<&Note>,
    ) -> Result<Changed> {
        self.0.order_dead(stream, ids, order, note).await
    }

    async fn backlog(&self, stream: &str) -> Result<Backlog> {
        self.0.backlog(stream).await
    }
}

/// The boxed form of an outbox.
trait Erased: operations::Erased {
    fn lease<'a>(
        &'a self,
        relay: &'a RelayName,
        lease: Duration,
        balanced: bool,
    ) -> Answer<'a, Vec<PartitionLease>>;
    fn pending<'a>(
        &'a self,
        relay: &'a RelayName,
        leases: &'a [PartitionLease],
        most: u32,
    ) -> Answer<'a, Vec<Outgoing>>;
    fn sent<'a>(&'a self, ids: &'a [OutboxId], keep: bool) -> Answer<'a, u64>;
    fn put_off<'a>(
        &'a self,
        relay: &'a RelayName,
        unsent: &'a [Unsent],
    ) -> Answer<'a, Vec<OutboxId>>;
    fn forget<'a>(&'a self, stream: &'a str, published_for: Duration, most: u32)
    -> Answer<'a, u64>;
    fn leave<'a>(&'a self, relay: &'a RelayName) -> Answer<'a, ()>;
    fn committed(&self) -> Answer<'_, ()>;
}

impl<S: OutboxStore + OutboxOperations> Erased for S {
    fn lease<'a>(
        &'a self,
        relay: &'a RelayName,
        lease: Duration,
        balanced: bool,
    ) -> Answer<'a, Vec<PartitionLease>> {
        Box::pin(OutboxStore::lease(self, relay, lease, balanced))
    }

    fn pending<'a>(
        &'a self,
        relay: &'a RelayName,
        leases: &'a [PartitionLease],
        most: u32,
    ) -> Answer<'a, Vec<Outgoing>> {
        Box::pin(OutboxStore::pending(self, relay, leases, most))
    }

    fn sent<'a>(&'a self, ids: &'a [OutboxId], keep: bool) -> Answer<'a, u64> {
        Box::pin(OutboxStore::sent(self, ids, keep))
    }

    fn put_off<'a>(
        &'a self,
        relay: &'a RelayName,
        unsent: &'a [Unsent],
    ) -> Answer<'a, Vec<OutboxId>> {
        Box::pin(OutboxStore::put_off(self, relay, unsent))
    }

    fn forget<'a>(
        &'a self,
        stream: &'a str,
        published_for: Duration,
        most: u32,
    ) -> Answer<'a, u64> {
        Box::pin(OutboxStore::forget(self, stream, published_for, most))
    }

    fn leave<'a>(&'a self, relay: &'a RelayName) -> Answer<'a, ()> {
        Box::pin(OutboxStore::leave(self, relay))
    }

    fn committed(&self) -> Answer<'_, ()> {
        Box::pin(OutboxStore::committed(self))
    }
}
