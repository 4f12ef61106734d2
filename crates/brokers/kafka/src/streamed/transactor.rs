//! Commits everything of a batch at once, or nothing: a batch is written behind the batch before, and committed when
//! that one is.
//!
//! A decision may be out of date when it is committed: an earlier caller may have committed the same batch, or its
//! partition may have gone. So one transaction at a time is committed, and checked before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{CommitProgress, Committed, Finished, Turn};
use semel_core::{Error, ErrorKind, Result, Timestamp};

use super::StreamOptions;
use super::batch::{self, Batch, Doubts, first, in_turns, leave_out_committed, sort, sorted};
use super::block;
use super::images::{AGAIN, Images, lock};
use super::line::Line;
use super::pool::Producers;
use super::producer::{Reports, drain, publish, retried, send};
use crate::context::Context;
use crate::error::TOO_LARGE;
use crate::options::Options;
use crate::shared::{AssignmentId, Position, Shared};

/// Commits the finished deliveries of a member.
pub(super) struct Transactor {
    options: StreamOptions,
    pub(super) producers: Arc<Producers>,
    pub(super) images: Arc<Images>,
    pub(super) shared: Arc<Shared>,
    pub(super) consumer: OnceLock<Weak<BaseConsumer<Context>>>,
    /// The lock is taken before those of the others, and behind the right to commit.
    doubts: Mutex<Doubts>,
}

/// Reason why a transaction did not come about.
enum Failed {
    /// It was aborted, or never begun.
    Aborted(Error),
    /// Its commit was asked for, and the result is unknown.
    Unknown(Error),
    /// Some of it belongs to another member by now; aborted.
    Gone,
    /// The batch before is to be written first, or some of it is committed by now; aborted.
    Again,
    /// The brokers never take the output of this delivery; aborted.
    Refused(DeliveryId, Error),
}

impl Transactor {
    pub(super) fn new(
        options: StreamOptions,
        source: &Options,
        images: Arc<Images>,
        shared: Arc<Shared>,
    ) -> Result<Self> {
        Ok(Self {
            producers: Arc::new(Producers::new(&options, source)?),
            options,
            images,
            shared,
            consumer: OnceLock::new(),
            doubts: Mutex::default(),
        })
    }

    /// Commits the deliveries that are still this member's. `places` are those of all of them, as far as they were
    /// known.
    pub(super) fn commit(
        &self,
        finished: &[Finished],
        places: Vec<Option<Position>>,
        line: &Line<impl Turn>,
    ) -> Result<Vec<Committed>> {
        let mut places = Some(places);
        let mut refused = BTreeMap::new();
        let mut is_alone = false;
        // A granted delivery was not committed at that time, so only a repeated call need look before it writes.
        let mut looks = !lock(&self.doubts).is_empty();
        loop {
            line.come(if is_alone {
                CommitProgress::Committed
            } else {
                CommitProgress::Written
            })?;
            let mut answers = vec![Committed::Gone; finished.len()];
            let places = places.take();
            let places = places.unwrap_or_else(|| batch::places(&self.shared, finished));
            let mut batch = sort(&self.images, finished, places, &refused, &mut answers)?;
            if std::mem::replace(&mut looks, true) {
                leave_out_committed(&self.images, &mut batch, &mut lock(&self.doubts))?;
            }
            let count = batch.values().map(Vec::len).sum::<usize>();
            if count == 0 {
                line.come(CommitProgress::Committed)?;
                return Ok(self.is_known(answers));
            }
            if is_alone && count > 1 {
                batch = first(batch);
            }
            match self.transact(&mut batch, line, is_alone) {
                Ok(()) if is_alone => {}
                Ok(()) => return Ok(self.is_known(answers)),
                Err(Failed::Again) => {}
                // Until the consumer has reported the partitions that it lost.
                Err(Failed::Gone) => std::thread::sleep(AGAIN),
                // The broker refuses the records that came with it, too. Sent one by one, they show which it is.
                Err(Failed::Refused(..)) if count > 1 && !is_alone => is_alone = true,
                Err(Failed::Refused(delivery, error)) => {
                    refused.insert(delivery, error);
                }
                Err(Failed::Aborted(error)) => return Err(error.not_applied()),
                Err(Failed::Unknown(error)) => return Err(error),
            }
        }
    }

    /// Clears the doubts: the end of every transaction over the batch is known.
    fn is_known(&self, answers: Vec<Committed>) -> Vec<Committed> {
        *lock(&self.doubts) = Doubts::default();
        self.shared.lock().is_in_doubt = false;
        answers
    }

    /// Runs one transaction over the batch. Afterwards `batch` holds the part that was committed.
    fn transact(
        &self,
        batch: &mut Batch<'_>,
        line: &Line<impl Turn>,
        is_alone: bool,
    ) -> std::result::Result<(), Failed> {
        let mut taken = self.producers.take().map_err(Failed::Aborted)?;
        let at = self.images.clock.now();
        let done = (|| {
            let producer = taken.producer(&self.options.changelog)?;
            drop(producer.context().refused());
            self.write(producer, batch, at)?;
            if !is_alone {
                self.wait(producer, line)?;
            }
            self.finish(producer, batch, line, at, is_alone)
        })();
        let Err(ended) = done else {
            return Ok(());
        };
        line.pass(CommitProgress::Unwritten);
        if let Ended::Unknown(error) = ended {
            taken.replace();
            return Err(Failed::Unknown(taken.refused(error)));
        }
        let refused = taken.made().and_then(|it| it.producer.context().refused());
        taken.abort(self.options.transaction_timeout);
        Err(match (ended, refused) {
            (Ended::Gone, _) => Failed::Gone,
            (Ended::Again, _) => Failed::Again,
            (Ended::Ours(error), _) => Failed::Aborted(error),
            (Ended::Abort(_), Some((delivery, error))) => {
                // The record that is missing leaves a gap in the sequence numbers of this producer.
                taken.lose();
                Failed::Refused(delivery, self.too_large(error))
            }
            (Ended::Abort(error) | Ended::Unknown(error), _) => {
                Failed::Aborted(taken.refused(error))
            }
        })
    }

    /// Hands a transaction's records over.
    fn write(
        &self,
        producer: &BaseProducer<Reports>,
        batch: &Batch<'_>,
        at: Timestamp,
    ) -> std::result::Result<(), KafkaError> {
        let StreamOptions {
            output,
            changelog,
            has_id_header,
            ..
        } = &self.options;
        producer.begin_transaction()?;
        // The changelog first: librdkafka adds to the transaction the partitions that it was given meanwhile, one
        // request behind the other, and sends nothing to a partition before.
        for items in batch.values() {
            let entries: Vec<_> = items.iter().map(|item| item.finished.entry).collect();
            let partition = items.first().map_or(0, |item| item.place.partition);
            for block in block::write(at, &entries) {
                let record: BaseRecord<'_, [u8], [u8], usize> =
                    BaseRecord::with_opaque_to(changelog, 0)
                        .partition(partition)
                        .payload(&block);
                send(producer, record)?;
            }
        }
        publish(producer, output, in_turns(batch), *has_id_header)
    }

    /// Waits for the batch before, and lets the next one be written meanwhile.
    fn wait(
        &self,
        producer: &BaseProducer<Reports>,
        line: &Line<impl Turn>,
    ) -> std::result::Result<(), Ended> {
        let timeout = self.options.transaction_timeout;
        // Records of one key are never in two batches, so they stay in order. Where keys of records are not those of
        // operations, the brokers must have them first.
        if !self.options.is_copartitioned || semel_core::planted("K10") {
            line.pass(CommitProgress::Written);
        }
        if line.may_commit()? {
            return Ok(());
        }
        drain(producer, timeout)?;
        line.pass(CommitProgress::Written);
        // The time of the transaction runs meanwhile.
        if line.may_commit_within(timeout / 2)? {
            return Ok(());
        }
        Err(Ended::Again)
    }

    /// Commits the written records, after a last check.
    fn finish(
        &self,
        producer: &BaseProducer<Reports>,
        batch: &mut Batch<'_>,
        line: &Line<impl Turn>,
        at: Timestamp,
        is_alone: bool,
    ) -> std::result::Result<(), Ended> {
        let timeout = self.options.transaction_timeout;
        let alone = self.shared.commits_alone();
        if leave_out_committed(&self.images, batch, &mut lock(&self.doubts))?
            && !semel_core::planted("K08")
        {
            return Err(Ended::Again);
        }
        let (positions, metadata) = self.positions(batch)?;
        let mut offsets = TopicPartitionList::new();
        for (topic, partition, behind) in positions.values() {
            offsets.add_partition_offset(topic, *partition, Offset::Offset(*behind))?;
        }
        // While the brokers take the records that were handed over.
        let told = if semel_core::planted("K03") {
            Ok(())
        } else {
            retried(timeout, || {
                producer.send_offsets_to_transaction(&offsets, &metadata, timeout)
            })
        };
        drain(producer, timeout)?;
        told?;
        if !is_alone {
            line.pass(CommitProgress::Written);
        }
        // Whatever this returns, except for an abort, the coordinator may have heard the commit.
        match retried(timeout, || producer.commit_transaction(timeout)) {
            Ok(()) => {}
            Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => {
                return Err(Ended::Abort(KafkaError::Transaction(error)));
            }
            Err(error) => {
                // Before any other commit looks.
                let mut doubts = lock(&self.doubts);
                for item in batch.values().flatten() {
                    doubts.tried.insert(item.finished.delivery, at);
                }
                self.shared.lock().is_in_doubt = true;
                self.images.doubt();
                return Err(Ended::Unknown(error));
            }
        }
        let mut state = self.shared.lock();
        for ((id, items), (_, _, behind)) in batch.iter().zip(positions.into_values()) {
            state.committed(*id, &sorted(items), behind);
        }
        drop(state);
        let mut known = self.images.lock();
        for (id, items) in &*batch {
            if let Some(known) = known.get_mut(id) {
                let entries = items.iter().map(|item| item.finished.entry);
                known.image.insert(at, entries);
                known.image.sweep(at);
            }
        }
        drop((known, alone));
        self.shared.wake();
        Ok(())
    }

    /// Returns how far the input is read with this batch, and the group's metadata that prove it ours.
    fn positions(
        &self,
        batch: &Batch<'_>,
    ) -> std::result::Result<(Positions, ConsumerGroupMetadata), Ended> {
        let consumer = self.consumer.get().and_then(Weak::upgrade);
        let consumer = consumer.ok_or(Ended::Gone)?;
        // First the metadata, then the check: a partition that is ours after it was ours in its generation. A member
        // that was thrown out has metadata of no generation, and knows that its assignment is lost.
        let metadata = consumer.group_metadata().ok_or(Ended::Gone)?;
        if consumer.assignment_lost() {
            return Err(Ended::Gone);
        }
        let state = self.shared.lock();
        let mut positions = Positions::new();
        for (id, items) in batch {
            let position = state.behind(*id, &sorted(items)).ok_or(Ended::Gone)?;
            positions.insert(*id, position);
        }
        Ok((positions, metadata))
    }

    fn too_large(&self, error: KafkaError) -> Error {
        let output = &self.options.output;
        Error::new(ErrorKind::InvalidInput, format!("{output}: {TOO_LARGE}"))
            .not_applied()
            .with_source(error)
    }
}

/// Positions up to which the input is read with a batch, by assignment.
type Positions = BTreeMap<AssignmentId, (Box<str>, i32, i64)>;

/// Ways in which a transaction ends without success.
enum Ended {
    /// It is to be aborted: nothing of it can have been committed.
    Abort(KafkaError),
    /// The result is unknown.
    Unknown(KafkaError),
    /// It is to be aborted: not all of it is ours.
    Gone,
    /// It is to be aborted, and written again.
    Again,
    /// It is to be aborted, and not because of any error of Kafka's.
    Ours(Error),
}

impl From<KafkaError> for Ended {
    /// Converts a failure before the commit was asked for.
    fn from(error: KafkaError) -> Self {
        Self::Abort(error)
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}
