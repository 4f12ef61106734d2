//! Effects that a broker commits together with their records and with the position of its input (class E).

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;

use crate::claim::{Admission, ClaimRequest, Grant};
use crate::error::{Error, Result};
use crate::key::{Key, OpId};
use crate::partition::Entry;
use crate::port::source::DeliveryId;

/// A broker's transactions. The output of a batch, the completion of its operations and the position of the input
/// become visible at once, or none of them does.
///
/// A streamed store belongs to one source, whose deliveries it names. Only the consumer to which the broker delivers
/// its messages ever claims an operation, so no claim is stored: a worker that is gone has committed its
/// transaction, or has not.
pub trait StreamedStore: Send + Sync + 'static {
    /// Answers which of these may be worked on. Writes nothing.
    ///
    /// # Guarantee   an operation that was committed within its window is a replay
    /// # Shape       one answer per item, in the same order
    /// # Errors      those after which no item can be decided
    fn admit(&self, batch: &[Claimed<'_>]) -> impl Future<Output = Result<Vec<Standing>>> + Send;

    /// Commits a batch in one transaction. Items that answer [`Committed::Gone`] or [`Committed::Refused`] are left
    /// out. Batches commit in the order of their turns, and the caller has no operation in two of them. The same
    /// batch may be passed again while it is being committed. An implementation may write a batch before its turn to
    /// be committed, once the previous one is written.
    ///
    /// # Guarantee   a reader of committed messages sees the output of each operation once
    /// # Shape       one answer per item, in the same order
    /// # Errors      `Unavailable`, `Timeout`: maybe applied; commit the same again, and the store recognises
    /// what was applied
    /// # Cancel safety   as an error
    fn commit(
        &self,
        batch: &Arc<Vec<Finished>>,
        turn: impl Turn,
    ) -> impl Future<Output = Result<Vec<Committed>>> + Send;
}

/// The progress of a batch on its way into the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitProgress {
    /// Nothing of it is in the broker, or nothing any more.
    #[default]
    Unwritten,
    /// All of it is written, and it is not committed.
    Written,
    /// It is committed.
    Committed,
}

/// The turn of a batch: says when it may be written and when it may be committed, behind the previous one.
pub trait Turn: Send + 'static {
    /// Waits until the previous batch has come at least this far.
    ///
    /// # Errors      not applied, `Unavailable`: its caller has given up, so it may never come this far
    /// # Cancel safety   safe
    fn come(&self, progress: CommitProgress) -> impl Future<Output = Result<()>> + Send;

    /// Waits until the previous batch is unwritten, although it was written at the last answer of [`Turn::come`]: a
    /// batch written behind it has to be unwritten, too, before it is written again.
    ///
    /// # Cancel safety   safe
    fn falls_back(&self) -> impl Future<Output = ()> + Send;

    /// Lets the next batch come as far as this one has, before the caller of this one has its answer. A batch that
    /// is passed as committed stays committed.
    fn pass(&self, progress: CommitProgress);
}

/// The turn of a batch with no batch before it and none that waits for it.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce;

impl Turn for AtOnce {
    async fn come(&self, _progress: CommitProgress) -> Result<()> {
        Ok(())
    }

    async fn falls_back(&self) {
        std::future::pending::<()>().await;
    }

    fn pass(&self, _progress: CommitProgress) {}
}

/// A delivery and the claim that it asks for.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'a> {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The identity of its operation.
    pub id: OpId,
    /// The claim.
    pub request: &'a ClaimRequest,
}

/// A delivery whose effect is ready to be committed.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The delivery.
    pub delivery: DeliveryId,
    /// The key of its operation.
    pub key: Key,
    /// The identity of its operation.
    pub id: OpId,
    /// The entry to remember of its operation.
    pub entry: Entry,
    /// The output of the effect; possibly none.
    pub output: Option<Outgoing>,
}

/// The output of an operation. The operation's key orders it, unless it carries an order of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The message, byte for byte.
    pub payload: Bytes,
    /// Headers, in this order.
    pub headers: Vec<(ByteString, Bytes)>,
}

/// The state of a delivery.
#[derive(Debug)]
pub enum Standing {
    /// Nothing is committed for its operation, or nothing that is still inside its window: it may be worked on.
    Free(Grant),
    /// Another answer about its operation.
    Ours(Box<Admission>),
    /// Another consumer owns its messages now.
    Gone,
}

/// The result of committing a delivery.
#[derive(Clone, Debug)]
pub enum Committed {
    /// It is committed, now or before.
    Done,
    /// Another consumer owns its messages now; nothing of it was committed.
    Gone,
    /// The broker refuses such an output for good: it is too large. Nothing of it was committed.
    Refused(Error),
}

/// The progress of restoring what was committed in one partition of the input. Until all of it is known, nothing of
/// the partition is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The partition.
    pub partition: i32,
    /// Records of its changelog that were read; counted in offsets, so the marks of transactions count, too.
    pub read: u64,
    /// The number of records to read, once it is known.
    pub records: Option<u64>,
    /// Operations that were found in them.
    pub operations: u64,
    /// True if all of them are read.
    pub is_done: bool,
}
