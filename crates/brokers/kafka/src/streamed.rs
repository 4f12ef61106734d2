//! Class E: outputs, records of the operations done and the offsets read, committed in one Kafka transaction.
//!
//! Operations that were done go to a **changelog**: a topic with as many partitions as the input, to whose partition N
//! every transaction writes the operations that it committed for records of partition N. The [`Image`] of a partition
//! is its part of the changelog, in memory. A member that is given a partition first waits until no transaction over it
//! is open, and restores its image from the changelog, up to the end that it had then; only then are records of the
//! partition read.
//!
//! A worker that lost a partition commits nothing for it any more: its transactions carry the group's metadata, read
//! before the check whether the partition is still ours, so the group coordinator refuses a member of another
//! generation.
//!
//! Records of one key must be in one partition. Where they are not, another image has them: see [`placement`].
//!
//! Of the locks, the right to commit is taken before that of [`Shared`], and that before that of [`Images`].

mod batch;
mod block;
mod changelog;
pub(crate) mod images;
mod line;
mod lookup;
mod placement;
mod pool;
mod producer;
mod restore;
mod transactor;

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use semel_core::port::streamed::{
    Claimed, CommitProgress, Committed, Finished, Restored, Standing, StreamedStore, Turn,
};
use semel_core::{Admission, Clock, Error, ErrorKind, Result, Window};

use crate::context::Context;
use crate::options::Options;
use crate::shared::{Position, Shared};
use images::{AGAIN, Images, Partition, Restoring, lock};
use line::Line;
pub use lookup::{Remembered, find};
use placement::Placement;
use transactor::Transactor;

/// Settings of the transactions of a source.
#[derive(Clone)]
pub struct StreamOptions {
    /// The topic for outputs.
    pub output: Box<str>,
    /// The changelog; created where it is not there. Used by one group and one pipeline alone.
    pub changelog: Box<str>,
    /// Name of the producer: a new one of the same name ends the open transaction of the former. Two live ones throw
    /// each other out. A second producer, which writes a batch while the one before it is committed, has `.alternate`
    /// behind that name; a user that has no right to it goes without ([`KafkaStream::hindrance`]).
    pub transactional_id: Box<str>,
    /// Time for which a transaction may be open before the broker aborts it: for so long a crash holds others up.
    pub transaction_timeout: Duration,
    /// librdkafka's own settings of the producer, by name.
    pub properties: Vec<(Box<str>, Box<str>)>,
    /// Time for which an operation is remembered.
    pub window: Window,
    /// Trusts the user that records of one key are in one partition. Otherwise Semel checks each record: its own key
    /// must be that of its operation, and one partitioner must place it where it is.
    pub is_copartitioned: bool,
    /// Sends the id of its operation with each output, as the header `semel-id`. A reader of committed records sees
    /// each output once and needs none; a record of 200 bytes costs a sixth more with it.
    pub has_id_header: bool,
}

impl StreamOptions {
    /// Returns the usual settings: ten seconds a transaction.
    pub fn new(output: &str, changelog: &str, transactional_id: &str, window: Window) -> Self {
        Self {
            output: output.into(),
            changelog: changelog.into(),
            transactional_id: transactional_id.into(),
            transaction_timeout: Duration::from_secs(10),
            properties: Vec::new(),
            window,
            is_copartitioned: false,
            has_id_header: false,
        }
    }
}

impl fmt::Debug for StreamOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of properties may be secrets.
        f.debug_struct("StreamOptions")
            .field("output", &self.output)
            .field("changelog", &self.changelog)
            .field("transactional_id", &self.transactional_id)
            .finish_non_exhaustive()
    }
}

/// The transactions of a [`KafkaSource`](crate::KafkaSource), made together with it.
///
/// # Guarantee   those of [`StreamedStore`], where all records of a key are in one partition
/// # Cost        about sixty bytes of memory for each operation inside its window; one transaction a batch, at most two
/// of them open
#[derive(Clone)]
pub struct KafkaStream {
    transactor: Arc<Transactor>,
    /// Common properties of the records seen so far; `None` where the user vouches for the placement.
    placement: Option<Arc<Mutex<Placement>>>,
}

impl KafkaStream {
    /// Creates the transactions over the records that `consumer` reads, and the receiver of its assignments.
    pub(crate) fn new(
        options: StreamOptions,
        source: &Options,
        shared: Arc<Shared>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Restoring)> {
        let images = Arc::new(Images {
            window: options.window,
            clock,
            partitions: AtomicI32::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        restore::spawn(&options, source, Arc::clone(&images), Arc::clone(&shared))?;
        let placement = (!options.is_copartitioned).then(Placement::new);
        let restoring = Restoring(Arc::clone(&images));
        let transactor = Transactor::new(options, source, images, shared)?;
        let stream = Self {
            transactor: Arc::new(transactor),
            placement: placement.map(|it| Arc::new(Mutex::new(it))),
        };
        Ok((stream, restoring))
    }

    /// Sets the consumer whose generation the transactions carry. The producers are created while the group is joined.
    pub(crate) fn reads_by(&self, consumer: Weak<BaseConsumer<Context>>) -> Result<()> {
        self.transactor.consumer.get_or_init(|| consumer);
        self.transactor.producers.begin()
    }

    /// Refuses records if others of the same key may be in another partition.
    fn look_at_places(&self, batch: &[Finished], places: &[Option<Position>]) -> Result<()> {
        let Some(placement) = &self.placement else {
            return Ok(());
        };
        let partitions = self.transactor.images.partitions.load(Ordering::Relaxed);
        let mut placement = lock(placement);
        for (finished, place) in batch.iter().zip(places) {
            let Some(Position {
                partition, offset, ..
            }) = *place
            else {
                continue;
            };
            let key = finished.key.as_bytes();
            let seen = placement.see(batch::record_key(finished), key, partition, partitions);
            seen.map_err(|why| {
                let message = format!(
                    "partition {partition}, offset {offset}: {why}. What is committed for an operation \
                     is known in its partition alone: publish with the operation's key as record key and \
                     one partitioner, or vouch for it (`copartitioned = true`)"
                );
                Error::new(ErrorKind::InvalidConfig, message).not_applied()
            })?;
        }
        Ok(())
    }

    /// Returns the number of operations that are remembered now, in the partitions of this member.
    pub fn remembered(&self) -> usize {
        let state = self.transactor.images.lock();
        state.values().map(|known| known.image.len()).sum()
    }

    /// Returns the reason why one transaction is written after the other instead of while the one before is committed,
    /// if that is so: the user may not use the name of the second producer's transactions. It is tried again every ten
    /// seconds.
    pub fn hindrance(&self) -> Option<Error> {
        self.transactor.producers.hindrance()
    }

    /// Returns how far the images of this member's partitions are restored, in the order of the partitions.
    pub fn restored(&self) -> Vec<Restored> {
        let state = self.transactor.images.lock();
        let mut all: Vec<_> = state.values().map(Partition::restored).collect();
        all.sort_by_key(|restored| restored.partition);
        all
    }
}

impl StreamedStore for KafkaStream {
    async fn admit(&self, batch: &[Claimed<'_>]) -> Result<Vec<Standing>> {
        let ids: Vec<_> = batch.iter().map(|claimed| claimed.delivery).collect();
        let places = self.transactor.shared.lock().places(&ids);
        let now = self.transactor.images.clock.now();
        let images = self.transactor.images.lock();
        let known = |place: Option<Position>| {
            let place = place?;
            Some((place, images.get(&place.assignment)?))
        };
        let mut standings = Vec::with_capacity(batch.len());
        for (batch, places) in batch.chunks(AT_HAND).zip(places.chunks(AT_HAND)) {
            for (claimed, place) in batch.iter().zip(places) {
                if let Some((_, known)) = known(*place) {
                    known.image.warm(claimed.id);
                }
            }
            let standing = batch.iter().zip(places).map(|(claimed, place)| {
                let Claimed { id, request, .. } = *claimed;
                match known(*place) {
                    None => Standing::Gone,
                    Some((_, known)) if !known.is_restored => {
                        let until = now.plus(AGAIN);
                        Standing::Ours(Box::new(Admission::Busy { until, now }))
                    }
                    Some((place, known)) => known.image.admit(id, request, place.offset, now),
                }
            });
            standings.extend(standing);
        }
        Ok(standings)
    }

    async fn commit(&self, batch: &Arc<Vec<Finished>>, turn: impl Turn) -> Result<Vec<Committed>> {
        let (stream, batch) = (self.clone(), Arc::clone(batch));
        let asked = Arc::new(());
        let line = Line::new(turn, Arc::downgrade(&asked));
        // librdkafka waits for the brokers in these calls. The turn is waited for here, too: the one before passes it
        // on from thread to thread.
        let committing = tokio::task::spawn_blocking(move || {
            let places = batch::places(&stream.transactor.shared, &batch);
            stream.look_at_places(&batch, &places)?;
            let answers = stream.transactor.commit(&batch, places, &line)?;
            line.pass(CommitProgress::Committed);
            Ok(answers)
        });
        committing
            .await
            .unwrap_or_else(|error| Err(panicked(error)))
    }
}

impl fmt::Debug for KafkaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KafkaStream")
    }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, "committing to Kafka panicked").with_source(error)
}

/// Operations whose entries are loaded at once: few enough to stay in the cache.
const AT_HAND: usize = 64;
