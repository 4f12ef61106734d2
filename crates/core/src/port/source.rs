//! The source: deliveries come in, acknowledgements go back.

use std::future::Future;

use bytes::Bytes;

use crate::error::Result;
use crate::time::Timestamp;

/// Hands over messages of a broker, at least once each.
///
/// An adapter absorbs its broker's hazards: it commits only contiguous prefixes, drops stale
/// acknowledgements, extends what is held. The engine acknowledges in any order.
pub trait Source: Send + 'static {
    /// Waits for the next deliveries, at most `max`.
    ///
    /// # Shape       at least one delivery, or [`Fetched::Ended`], or [`Fetched::Revoked`]
    /// # Errors      `Unavailable`: the source cannot be read; nothing was lost
    /// # Cancel safety   safe: what was not returned is returned by the next call
    fn fetch(&mut self, max: usize) -> impl Future<Output = Result<Fetched>> + Send;

    /// Tells the broker that these are settled. A stale id is ignored.
    ///
    /// # Errors      `Unavailable`: they may be delivered again, which is harmless
    fn acknowledge(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

    /// Gives these back to be delivered again.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn requeue(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

    /// Tells the broker that these are still worked on, so that it does not hand them to others.
    ///
    /// # Errors      as [`Source::acknowledge`]
    fn extend(&mut self, batch: &[DeliveryId]) -> impl Future<Output = Result<()>> + Send;

    /// How far it is read, where the source has an end.
    fn progress(&self) -> Option<Progress>;
}

/// What [`Source::fetch`] found.
#[derive(Debug)]
pub enum Fetched {
    /// Deliveries, in source order.
    Deliveries(Vec<Delivery>),
    /// These deliveries belong to somebody else now; acknowledging them is pointless.
    Revoked(Vec<DeliveryId>),
    /// There will never be more.
    Ended,
}

/// Names one handing-over of a message towards its source. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// One handing-over of a message.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What to acknowledge.
    pub id: DeliveryId,
    /// The message, byte for byte; empty where `oversize` is set.
    pub payload: Bytes,
    /// Headers in the order of the broker.
    pub headers: Vec<(Box<str>, Bytes)>,
    /// Topic, partition and offset, or file and line: the same for each redelivery.
    pub coordinates: Box<str>,
    /// When the broker took it in, if it says so.
    pub appended_at: Option<Timestamp>,
    /// The message exceeded the limit: its length. The payload holds its beginning.
    pub oversize_bytes: Option<u64>,
}

/// How far a source with an end is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes handed over.
    pub read_bytes: u64,
    /// Bytes in all, if known.
    pub total_bytes: Option<u64>,
}
