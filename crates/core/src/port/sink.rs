//! The sink: messages go out, confirmations come back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;

use crate::error::Result;

/// Publishes messages to a place of a broker, each at least once.
pub trait Sink: Send + Sync + 'static {
    /// Publishes these in order, and waits until the broker has confirmed each of them.
    ///
    /// # Guarantee   SNK-1: what is answered `Ok` is with the broker, whole
    /// # Shape       one answer per message, in the same order; each succeeds or fails on its own
    /// # Errors      `Unavailable` or `Timeout`, `MaybeApplied` where it was sent and not confirmed;
    /// `InvalidInput`: the broker takes no such message (too large, no such place)
    /// # Cancel safety   what was sent may be published
    fn publish(&self, batch: &[Publication]) -> impl Future<Output = Vec<Result<()>>> + Send;

    /// Publishes as [`Sink::publish`] does, and tells of each message where it is, as far as the broker says so.
    ///
    /// # Guarantee   SNK-1
    /// # Shape       as [`Sink::publish`]; a sink that learns nothing of it tells nothing
    /// # Errors      as [`Sink::publish`]
    /// # Cancel safety   as [`Sink::publish`]
    fn place(&self, batch: &[Publication]) -> impl Future<Output = Vec<Result<Placement>>> + Send {
        async move {
            let answers = self.publish(batch).await.into_iter();
            let placed = answers.map(|answer| answer.map(|()| Placement::default()));
            placed.collect()
        }
    }

    /// Returns whether [`Publication::id`] is sent. If it is not, it may be empty, and the publisher need not make it.
    fn sends_ids(&self) -> bool {
        true
    }
}

/// Any sink, picked at run time.
#[derive(Clone)]
pub struct AnySink(Arc<dyn Erased>);

impl AnySink {
    /// Erases `sink`.
    pub fn new(sink: impl Sink) -> Self {
        Self(Arc::new(sink))
    }
}

impl Sink for AnySink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        self.0.publish(batch).await
    }

    async fn place(&self, batch: &[Publication]) -> Vec<Result<Placement>> {
        self.0.place(batch).await
    }

    fn sends_ids(&self) -> bool {
        self.0.sends_ids()
    }
}

impl fmt::Debug for AnySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnySink")
    }
}

/// The boxed form of a sink.
trait Erased: Send + Sync {
    fn publish<'a>(&'a self, batch: &'a [Publication]) -> Answers<'a, ()>;
    fn place<'a>(&'a self, batch: &'a [Publication]) -> Answers<'a, Placement>;
    fn sends_ids(&self) -> bool;
}

type Answers<'a, T> = Pin<Box<dyn Future<Output = Vec<Result<T>>> + Send + 'a>>;

impl<S: Sink> Erased for S {
    fn publish<'a>(&'a self, batch: &'a [Publication]) -> Answers<'a, ()> {
        Box::pin(Sink::publish(self, batch))
    }

    fn place<'a>(&'a self, batch: &'a [Publication]) -> Answers<'a, Placement> {
        Box::pin(Sink::place(self, batch))
    }

    fn sends_ids(&self) -> bool {
        Sink::sends_ids(self)
    }
}

/// The place of a message that a broker confirmed, as far as the broker says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The partition of a Kafka topic.
    pub partition: Option<i32>,
    /// The offset in that partition, or the sequence in a stream of NATS.
    pub offset: Option<u64>,
    /// True if the broker says that it had a message with this id already, and dropped this one.
    pub is_duplicate: bool,
}

/// A message to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Identifies the message: the same for each try to publish it, so that readers can recognise it, and a broker with
    /// duplicate detection of its own drops the second.
    pub id: Box<str>,
    /// The value by which messages are kept in order, if the broker has partitions.
    pub order: Option<Bytes>,
    /// The message, byte for byte.
    pub payload: Bytes,
    /// Headers, in this order.
    pub headers: Vec<(ByteString, Bytes)>,
}
