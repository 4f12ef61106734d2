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
mod line;
mod lookup;
mod placement;
mod pool;
mod producer;
mod restore;
mod transactor;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;
use semel_core::partition::Image;
use semel_core::port::streamed::{
    Claimed, CommitProgress, Committed, Finished, Restored, Standing, StreamedStore, Turn,
};
use semel_core::{Admission, Clock, Code, Error, ErrorKind, Result, Window};

use crate::consumer_thread::Context;
use crate::options::Options;
use crate::shared::{AssignmentId, Position, Shared};
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

/// The images of the partitions that this member has.
pub(crate) struct Images {
    window: Window,
    clock: Arc<dyn Clock>,
    /// Number of partitions of the input, once that is known.
    partitions: AtomicI32,
    state: Mutex<Known>,
    /// Notified when an image is to be restored, or no longer is.
    changed: Condvar,
}

type Known = BTreeMap<AssignmentId, Partition>;

/// State of one assignment of one partition.
struct Partition {
    number: i32,
    image: Image,
    /// The offset of the changelog behind the image's last record, once something was read.
    next: Option<i64>,
    /// The range of the changelog that is read, once that is known.
    reach: Option<(i64, i64)>,
    /// Operations that were found there.
    operations: usize,
    /// Set once the image has everything that was committed before.
    is_restored: bool,
}

impl Partition {
    /// Returns an error while the image may lack committed operations.
    fn is_known(&self) -> Result<()> {
        if self.is_restored {
            return Ok(());
        }
        let message = "what was committed is being restored from the changelog";
        Err(unavailable(message).not_applied())
    }

    fn restored(&self) -> Restored {
        let (from, end) = self.reach.unwrap_or_default();
        let records = u64::try_from(end - from).unwrap_or_default();
        let read = self.next.map_or(0, |next| next - from);
        let read = u64::try_from(read).unwrap_or_default().min(records);
        Restored {
            partition: self.number,
            read: if self.is_restored { records } else { read },
            records: self.reach.map(|_| records),
            operations: self.operations as u64,
            is_done: self.is_restored,
        }
    }
}

impl Images {
    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.state)
    }

    /// Marks all images as incomplete, since it is unknown how the last transaction ended: they are restored again.
    fn doubt(&self) {
        for known in self.lock().values_mut() {
            known.is_restored = false;
            known.reach = None;
        }
        self.changed.notify_all();
    }
}

/// Receiver of a consumer's assignments.
pub(crate) struct Restoring(Arc<Images>);

impl Restoring {
    /// Notes that a partition was assigned.
    pub(crate) fn begin(&self, id: AssignmentId, partition: i32) {
        let known = Partition {
            number: partition,
            image: Image::new(self.0.window),
            next: None,
            reach: None,
            operations: 0,
            is_restored: false,
        };
        self.0.lock().insert(id, known);
        self.0.changed.notify_all();
    }

    /// Notes that these assignments are over.
    pub(crate) fn end(&self, ids: &[AssignmentId]) {
        let mut state = self.0.lock();
        for id in ids {
            state.remove(id);
        }
        self.0.changed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Error for transactions that are unavailable now.
fn unavailable(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unavailable, message.into())
        .with_code(Code::TargetUnavailable)
        .retry_after(AGAIN)
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorKind::Internal, "committing to Kafka panicked").with_source(error)
}

/// Operations whose entries are loaded at once: few enough to stay in the cache.
const AT_HAND: usize = 64;
/// Pause before the next look at a partition whose image is being restored.
const AGAIN: Duration = Duration::from_millis(50);
