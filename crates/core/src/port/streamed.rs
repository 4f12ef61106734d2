//! Effects that a broker commits together with their records and with how far its input was read (class E).

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;

use crate::claim::{Admission, ClaimRequest, Grant};
use crate::error::{Error, Result};
use crate::key::{Key, OpId};
use crate::partition::Entry;
use crate::port::source::DeliveryId;

/// A broker's transactions: what a batch puts out, that its operations are done, and how far the input was
/// read become true at once, or none of it does.
///
/// It belongs to one source, whose deliveries it names. An operation is only ever claimed by whoever the
/// broker hands its messages to, so a claim is not stored: a worker that is gone has committed its
/// transaction, or has not.
pub trait StreamedStore: Send + Sync + 'static {
    /// Says which of these may be worked on. Nothing is written.
    ///
    /// # Guarantee   what was committed within its window is a replay
    /// # Shape       one answer per item, in the same order
    /// # Errors      those after which no item can be decided
    fn admit(&self, batch: &[Claimed<'_>]) -> impl Future<Output = Result<Vec<Standing>>> + Send;

    /// Commits what came of these, all in one transaction but those that answer [`Committed::Gone`] or
    /// [`Committed::Refused`]. One batch after the other, as their turns come: whoever asks has no operation in two
    /// batches. It may be asked for the same batch again while it still commits it. What can be written ahead may be
    /// written before its turn to be committed has come, once the batch before is written.
    ///
    /// # Guarantee   a reader of committed messages sees the output of each operation once
    /// # Shape       one answer per item, in the same order
    /// # Errors      `Unavailable`, `Timeout`: maybe applied; commit the same again, and what was applied is
    /// known again
    /// # Cancel safety   as an error
    fn commit(
        &self,
        batch: &Arc<Vec<Finished>>,
        turn: impl Turn,
    ) -> impl Future<Output = Result<Vec<Committed>>> + Send;
}

/// How far a batch is on its way into the broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitProgress {
    /// Nothing of it is there, or nothing any more.
    #[default]
    Unwritten,
    /// All of it is, and not committed.
    Written,
    /// It is committed.
    Committed,
}

/// When a batch may be written and when it may be committed: behind the one before it.
pub trait Turn: Send + 'static {
    /// Waits until the batch before is at least so far.
    ///
    /// # Errors      not applied, `Unavailable`: whoever asked for it has given up, so it may never be
    /// # Cancel safety   safe
    fn come(&self, progress: CommitProgress) -> impl Future<Output = Result<()>> + Send;

    /// Waits until the batch before is unwritten, though it was written when [`Turn::come`] was answered last: what
    /// was written behind it is to be unwritten, too, before it is written again.
    ///
    /// # Cancel safety   safe
    fn falls_back(&self) -> impl Future<Output = ()> + Send;

    /// This batch is so far, so that the next one may be, before whoever asked has heard of it. Nothing undoes that
    /// it is committed.
    fn pass(&self, progress: CommitProgress);
}

/// The turn of a batch that is behind no other and that none waits for.
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
    /// What is remembered of its operation.
    pub entry: Entry,
    /// What it puts out; possibly nothing.
    pub output: Option<Outgoing>,
}

/// What an operation puts out. It is kept in order by the operation's key, where it carries none of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The message, byte for byte.
    pub payload: Bytes,
    /// Headers, in this order.
    pub headers: Vec<(ByteString, Bytes)>,
}

/// Where a delivery stands.
#[derive(Debug)]
pub enum Standing {
    /// Nothing was committed for its operation, or nothing that is still inside its window: it may be worked on.
    Free(Grant),
    /// What else is to be said of its operation.
    Ours(Box<Admission>),
    /// Somebody else has its messages now.
    Gone,
}

/// What became of a delivery.
#[derive(Clone, Debug)]
pub enum Committed {
    /// It is done, now or before.
    Done,
    /// Somebody else has its messages now; nothing of it was committed.
    Gone,
    /// The broker takes no such output, and never will: it is too large. Nothing of it was committed.
    Refused(Error),
}

/// How far it is known what was committed in one partition of the input. Before all of it is known, nothing of
/// the partition is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The partition.
    pub partition: i32,
    /// Records of its changelog that were read; offsets, so the marks of transactions count, too.
    pub read: u64,
    /// How many there are to read, once that is known.
    pub records: Option<u64>,
    /// Operations that were found in them.
    pub operations: u64,
    /// Whether all is known.
    pub is_done: bool,
}
