//! The source: deliveries come in, acknowledgements go back.

mod forward;

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;

use super::erased::Answer;
use crate::error::{Error, Result};
use crate::fate::Fate;
use crate::key::{Key, Unusable};
use crate::time::Timestamp;

/// Delivers messages of a broker, each at least once.
///
/// An adapter absorbs its broker's hazards: it commits only contiguous prefixes, drops stale
/// acknowledgements, and reconnects by itself. The engine acknowledges in any order, and extends the
/// deliveries that it still works on.
///
/// Dropping a source is as safe as `kill -9`: what was not acknowledged is delivered again.
pub trait Source: Send + 'static {
    /// Waits for the next deliveries, at most `max`.
    ///
    /// # Shape       at least one delivery, or another variant of [`Fetched`]
    /// # Errors      those that end the source. A broker that is only unreachable is
    /// [`Fetched::Away`]
    /// # Cancel safety   safe: what was not returned is returned by the next call
    fn fetch(&mut self, max: usize) -> impl Future<Output = Result<Fetched>> + Send;

    /// Tells the broker that these are settled, and how: most brokers have no use for the fate, but a source
    /// that has somebody to answer says it. A stale id is ignored: its message is delivered again.
    ///
    /// # Guarantee   every fate is on record or parked before it is told, but for [`Fate::Unprotected`]. It is
    /// never [`Fate::Released`]
    /// # Errors      `Unavailable`: they may be delivered again, which is harmless
    fn acknowledge(&mut self, batch: &[Acknowledgement])
    -> impl Future<Output = Result<()>> + Send;

    /// Gives these back to be delivered again, now or after this source was closed.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn requeue(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

    /// Tells the broker that these are still worked on, so that it does not hand them to others.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn extend(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

    /// Lets more deliveries come although so many are not settled: none of them can be before one that is still with the
    /// broker. Nothing is to be done where any number of them comes. Where the broker has to be asked anew, what is not
    /// settled is revoked, and delivered again.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn prefetch_more(&mut self, _unsettled: usize) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Waits until everything that the engine reported has reached the broker, and gives the deliveries up,
    /// so that another consumer takes over at once. Nothing is called after this.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn close(&mut self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// The progress of reading, if the source has an end.
    fn progress(&self) -> Option<Progress>;

    /// The time for which the broker leaves a delivery with this source without an extension; `None` if it
    /// sets no time limit.
    fn hold(&self) -> Option<Duration> {
        None
    }
}

/// Any source, picked at run time.
pub struct AnySource(Box<dyn Erased>);

impl AnySource {
    /// Erases `source`.
    pub fn new(source: impl Source) -> Self {
        Self(Box::new(source))
    }
}

// A method that is not handed on would be the default one.
#[deny(clippy::missing_trait_methods)]
impl Source for AnySource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        self.0.fetch(max).await
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.0.acknowledge(batch).await
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.0.requeue(batch).await
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.0.extend(batch).await
    }

    async fn prefetch_more(&mut self, unsettled: usize) -> Result<()> {
        self.0.prefetch_more(unsettled).await
    }

    async fn close(&mut self) -> Result<()> {
        self.0.close().await
    }

    fn progress(&self) -> Option<Progress> {
        self.0.progress()
    }

    fn hold(&self) -> Option<Duration> {
        self.0.hold()
    }
}

impl fmt::Debug for AnySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnySource")
    }
}

/// The boxed form of a source.
trait Erased: Send {
    fn fetch(&mut self, max: usize) -> Answer<'_, Fetched>;
    fn acknowledge<'a>(&'a mut self, batch: &'a [Acknowledgement]) -> Answer<'a, ()>;
    fn requeue<'a>(&'a mut self, batch: &'a [DeliveryId]) -> Answer<'a, ()>;
    fn extend<'a>(&'a mut self, batch: &'a [DeliveryId]) -> Answer<'a, ()>;
    fn prefetch_more(&mut self, unsettled: usize) -> Answer<'_, ()>;
    fn close(&mut self) -> Answer<'_, ()>;
    fn progress(&self) -> Option<Progress>;
    fn hold(&self) -> Option<Duration>;
}

impl<S: Source> Erased for S {
    fn fetch(&mut self, max: usize) -> Answer<'_, Fetched> {
        Box::pin(Source::fetch(self, max))
    }

    fn acknowledge<'a>(&'a mut self, batch: &'a [Acknowledgement]) -> Answer<'a, ()> {
        Box::pin(Source::acknowledge(self, batch))
    }

    fn requeue<'a>(&'a mut self, batch: &'a [DeliveryId]) -> Answer<'a, ()> {
        Box::pin(Source::requeue(self, batch))
    }

    fn extend<'a>(&'a mut self, batch: &'a [DeliveryId]) -> Answer<'a, ()> {
        Box::pin(Source::extend(self, batch))
    }

    fn prefetch_more(&mut self, unsettled: usize) -> Answer<'_, ()> {
        Box::pin(Source::prefetch_more(self, unsettled))
    }

    fn close(&mut self) -> Answer<'_, ()> {
        Box::pin(Source::close(self))
    }

    fn progress(&self) -> Option<Progress> {
        Source::progress(self)
    }

    fn hold(&self) -> Option<Duration> {
        Source::hold(self)
    }
}

/// The result of [`Source::fetch`].
#[derive(Debug)]
pub enum Fetched {
    /// Deliveries, in source order.
    Deliveries(Vec<Delivery>),
    /// Another consumer owns these deliveries now, or is about to. The engine requeues those that it has not
    /// begun; the others may still be acknowledged, which counts if it is in time.
    Revoked(Vec<DeliveryId>),
    /// The broker cannot be reached, for this reason; the next call tries again. A source returns this once
    /// in a while, not once a try. Earlier deliveries may be delivered again, under other ids.
    Away(Error),
    /// The broker that was [`Fetched::Away`] is back. Deliveries show that as well; this is for a source that
    /// has none.
    Back,
    /// There is nothing to deliver now, and other workers of this consumer hold deliveries, or held them when
    /// they vanished. A source returns this once in a while.
    Elsewhere {
        /// The number of those deliveries.
        deliveries: u64,
        /// The time within which the broker takes back the deliveries that nobody extends.
        within: Duration,
    },
    /// There will never be another delivery.
    Ended,
}

/// Identifies one delivery of a message towards its source. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// One handing-over of a message: made by [`Delivery::new`], with whatever else the broker tells set then.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Delivery {
    /// The id to acknowledge.
    pub id: DeliveryId,
    /// The message, byte for byte; its beginning where `oversize_bytes` is set.
    pub payload: Bytes,
    /// Headers in the order of the broker.
    pub headers: Vec<(ByteString, Bytes)>,
    /// Topic, partition and offset, or file and line: the same for each redelivery.
    pub coordinates: ByteString,
    /// The time at which the broker took it in, if it says so.
    pub appended_at: Option<Timestamp>,
    /// The message exceeded the limit: its length. The payload holds its beginning.
    pub oversize_bytes: Option<u64>,
    /// The number of times that the broker says it has handed the message over, this one included; `None`
    /// where it does not count. Brokers count differently, and some forget: no more than a hint.
    pub received: Option<u32>,
    /// The key that a person gave the message, in place of the one that its pipeline finds in it.
    pub given_key: Option<Key>,
    /// The judgement of a sequence gate on a message that is not to be run.
    pub judgement: Option<Judgement>,
}

/// The judgement of a sequence gate on a message that is not to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It was taken before: a duplicate.
    Known,
    /// It is to be set aside for this reason.
    Refused(Unusable),
}

impl Delivery {
    /// A whole message without headers, of which the broker tells nothing more.
    pub fn new(
        id: DeliveryId,
        payload: impl Into<Bytes>,
        coordinates: impl Into<ByteString>,
    ) -> Self {
        Self {
            id,
            payload: payload.into(),
            headers: Vec::new(),
            coordinates: coordinates.into(),
            appended_at: None,
            oversize_bytes: None,
            received: None,
            given_key: None,
            judgement: None,
        }
    }
}

/// The word that a delivery is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Acknowledgement {
    /// The delivery that is settled.
    pub delivery: DeliveryId,
    /// Its final fate.
    pub fate: Fate,
}

impl Acknowledgement {
    /// Says that `delivery` has met `fate`.
    pub const fn new(delivery: DeliveryId, fate: Fate) -> Self {
        Self { delivery, fate }
    }
}

/// The progress of reading a source that has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes handed over.
    pub read_bytes: u64,
    /// Bytes in all, if known.
    pub total_bytes: Option<u64>,
}
