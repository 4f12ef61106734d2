//! The source: deliveries come in, acknowledgements go back.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;

use crate::error::{Error, Result};
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

    /// Tells the broker that these are settled. A stale id is ignored: its message is delivered again.
    ///
    /// # Errors      `Unavailable`: they may be delivered again, which is harmless
    fn acknowledge(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

    /// Gives these back to be delivered again, now or after this source was closed.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn requeue(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

    /// Tells the broker that these are still worked on, so that it does not hand them to others.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn extend(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

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

/// One handing-over of a message.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The id to acknowledge.
    pub id: DeliveryId,
    /// The message, byte for byte; empty where `oversize` is set.
    pub payload: Bytes,
    /// Headers in the order of the broker.
    pub headers: Vec<(ByteString, Bytes)>,
    /// Topic, partition and offset, or file and line: the same for each redelivery.
    pub coordinates: ByteString,
    /// The time at which the broker took it in, if it says so.
    pub appended_at: Option<Timestamp>,
    /// The message exceeded the limit: its length. The payload holds its beginning.
    pub oversize_bytes: Option<u64>,
}

/// The progress of reading a source that has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes handed over.
    pub read_bytes: u64,
    /// Bytes in all, if known.
    pub total_bytes: Option<u64>,
}
