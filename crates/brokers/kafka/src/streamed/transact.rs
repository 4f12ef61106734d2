//! The transactional producer: everything of a batch at once, or nothing.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use rdkafka::Offset;
use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{Committed, Finished};
use semel_core::{Error, ErrorKind, Result, Timestamp};

use super::batch::{self, Batch, Doubts, first, in_turns, sort, sorted};
use super::block;
use super::producer::{Reports, drain, publish, retried, send};
use super::{AGAIN, Images, StreamOptions, unavailable};
use crate::consume::Context;
use crate::error::{NO_RIGHT, NO_TOPIC, TOO_LARGE, not_made};
use crate::options::{AUTO_CREATE, Options, client};
use crate::shared::{AssignmentId, Place, Shared};

/// One producer, one transaction at a time.
pub(super) struct Transactor {
    options: StreamOptions,
    config: ClientConfig,
    made: Option<Made>,
    doubts: Doubts,
    pub(super) consumer: Weak<BaseConsumer<Context>>,
}

/// A producer whose transactions may begin.
struct Made {
    producer: BaseProducer<Reports>,
    /// Whether it has looked the changelog up, which may be made after it.
    has_changelog: bool,
}

/// Why a transaction did not come about.
enum Failed {
    /// It was aborted, or never begun.
    Aborted(Error),
    /// Its commit was asked for, and nobody knows what came of it.
    Unknown(Error),
    /// Some of it belongs to somebody else by now; aborted.
    Gone,
    /// The brokers never take what this delivery puts out; aborted.
    Refused(DeliveryId, Error),
}

impl Transactor {
    pub(super) fn new(options: StreamOptions, source: &Options) -> Result<Self> {
        let mut config = client(&source.brokers, &options.properties, OURS)?;
        config.set("transactional.id", &*options.transactional_id);
        config.set(
            "transaction.timeout.ms",
            options.transaction_timeout.as_millis().to_string(),
        );
        for (name, value) in [
            ("linger.ms", "5"),
            // What was taken needs no word of its own.
            ("delivery.report.only.error", "true"),
            ("queue.buffering.max.messages", "200000"),
            // A look makes nothing, and a name that is misspelt is no topic.
            (AUTO_CREATE, "false"),
        ] {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        Ok(Self {
            options,
            config,
            made: None,
            doubts: Doubts::default(),
            consumer: Weak::new(),
        })
    }

    /// Makes the producer ahead of its first transaction. What fails now is met again then.
    pub(super) fn begin(&mut self) {
        let _ = self.made();
    }

    /// Commits what is still this member's. `places` are those of all of them, as far as they were known.
    pub(super) fn commit(
        &mut self,
        images: &Images,
        shared: &Shared,
        finished: &[Finished],
        places: Vec<Option<Place>>,
    ) -> Result<Vec<Committed>> {
        let answers = self.commit_all(images, shared, finished, places)?;
        self.doubts = Doubts::default();
        Ok(answers)
    }

    fn commit_all(
        &mut self,
        images: &Images,
        shared: &Shared,
        finished: &[Finished],
        places: Vec<Option<Place>>,
    ) -> Result<Vec<Committed>> {
        let mut places = Some(places);
        let mut refused = BTreeMap::new();
        let mut is_alone = false;
        loop {
            let mut answers = vec![Committed::Gone; finished.len()];
            let places = places.take();
            let places = places.unwrap_or_else(|| batch::places(shared, finished));
            let mut batch = sort(
                images,
                finished,
                places,
                &refused,
                &mut self.doubts,
                &mut answers,
            )?;
            let count = batch.values().map(Vec::len).sum::<usize>();
            if count == 0 {
                return Ok(answers);
            }
            if is_alone && count > 1 {
                batch = first(batch);
            }
            let at = images.clock.now();
            match self.transact(shared, &batch, at) {
                Ok(()) => {}
                Err(Failed::Gone) => {
                    // Until the consumer has told what it lost.
                    std::thread::sleep(AGAIN);
                    continue;
                }
                // The broker refuses the records that came with it, too. One by one, it tells which it is.
                Err(Failed::Refused(..)) if count > 1 && !is_alone => {
                    is_alone = true;
                    continue;
                }
                Err(Failed::Refused(delivery, error)) => {
                    refused.insert(delivery, error);
                    continue;
                }
                Err(Failed::Aborted(error)) => return Err(error.not_applied()),
                Err(Failed::Unknown(error)) => {
                    for item in batch.values().flatten() {
                        self.doubts.tried.insert(item.finished.delivery, at);
                    }
                    images.doubt();
                    return Err(error);
                }
            }
            let mut known = images.lock();
            for (id, items) in &batch {
                if let Some(known) = known.get_mut(id) {
                    known
                        .image
                        .insert(at, items.iter().map(|item| item.finished.entry));
                    known.image.sweep(at);
                }
            }
            drop(known);
            if !is_alone {
                return Ok(answers);
            }
        }
    }

    fn transact(
        &mut self,
        shared: &Shared,
        batch: &Batch<'_>,
        at: Timestamp,
    ) -> std::result::Result<(), Failed> {
        let consumer = self.consumer.clone();
        let timeout = self.options.transaction_timeout;
        let StreamOptions {
            output,
            changelog,
            has_id_header,
            ..
        } = self.options.clone();
        let Made {
            producer,
            has_changelog,
        } = self.made()?;
        if !std::mem::replace(has_changelog, true) {
            look_up(producer, &changelog);
        }
        drop(producer.context().refused());
        let done = (|| {
            producer.begin_transaction().map_err(Ended::of)?;
            // The changelog first: librdkafka adds to the transaction what partitions it was given meanwhile, one
            // request behind the other, and sends nothing to a partition before.
            for items in batch.values() {
                let entries: Vec<_> = items.iter().map(|item| item.finished.entry).collect();
                let partition = items.first().map_or(0, |item| item.place.partition);
                for block in block::write(at, &entries) {
                    let record: BaseRecord<'_, [u8], [u8], usize> =
                        BaseRecord::with_opaque_to(&changelog, 0)
                            .partition(partition)
                            .payload(&block);
                    send(producer, record).map_err(Ended::of)?;
                }
            }
            publish(producer, &output, in_turns(batch), has_id_header).map_err(Ended::of)?;
            let alone = shared.commits_alone();
            let (positions, metadata) = positions(&consumer, shared, batch)?;
            let mut offsets = TopicPartitionList::new();
            for (topic, partition, behind) in positions.values() {
                let behind = Offset::Offset(*behind);
                offsets
                    .add_partition_offset(topic, *partition, behind)
                    .map_err(Ended::of)?;
            }
            // While the brokers take what was handed over.
            let told = if semel_core::planted("K03") {
                Ok(())
            } else {
                retried(timeout, || {
                    producer.send_offsets_to_transaction(&offsets, &metadata, timeout)
                })
            };
            drain(producer, timeout).map_err(Ended::of)?;
            told.map_err(Ended::of)?;
            // Whatever this says but for an abort, the coordinator may have heard it.
            retried(timeout, || producer.commit_transaction(timeout)).map_err(Ended::of_commit)?;
            Ok((positions, alone))
        })();
        match done {
            Ok((positions, _alone)) => {
                let mut state = shared.lock();
                for ((id, items), (_, _, behind)) in batch.iter().zip(positions.into_values()) {
                    state.committed(*id, &sorted(items), behind);
                }
                drop(state);
                shared.wake();
                Ok(())
            }
            Err(Ended::Gone) => {
                self.abort();
                Err(Failed::Gone)
            }
            Err(Ended::Abort(error)) => {
                let made = self.made.as_ref();
                let refused = made.and_then(|it| it.producer.context().refused());
                self.abort();
                Err(match refused {
                    Some((delivery, error)) => {
                        // The record that is missing leaves a gap in the sequence numbers of this one.
                        self.made = None;
                        Failed::Refused(delivery, self.too_large(error))
                    }
                    None => Failed::Aborted(self.refused(error)),
                })
            }
            Err(Ended::Unknown(error)) => {
                // A new producer of the same name makes the coordinator end it, one way or the other. Without
                // one, the coordinator does so by itself when the transaction's time is over.
                self.made = None;
                let _ = self.made();
                Err(Failed::Unknown(self.refused(error)))
            }
        }
    }

    /// The producer, made where there is none; its former transaction has ended then.
    fn made(&mut self) -> std::result::Result<&mut Made, Failed> {
        if self.made.is_none() {
            let producer = self.make()?;
            self.made = Some(Made {
                producer,
                has_changelog: false,
            });
        }
        self.made
            .as_mut()
            .ok_or_else(|| Failed::Aborted(unavailable("no producer")))
    }

    fn make(&self) -> std::result::Result<BaseProducer<Reports>, Failed> {
        let producer: BaseProducer<Reports> = self
            .config
            .create_with_context(Reports::default())
            .map_err(|error| Failed::Aborted(not_made(error)))?;
        // Whoever begins before a broker is connected begins again half a second later. What answers a look is the
        // connection that the client began with, which counts as none of a broker.
        let output = &self.options.output;
        if look_up(&producer, output) {
            let _ = producer.client().fetch_watermarks(output, 0, LOOK_UP);
        }
        let begun = retried(INIT, || producer.init_transactions(INIT));
        begun.map_err(|error| Failed::Aborted(self.refused(error)))?;
        Ok(producer)
    }

    /// Ends the open transaction; without success, a new producer does.
    fn abort(&mut self) {
        if let Some(Made { producer, .. }) = &self.made {
            let timeout = self.options.transaction_timeout;
            if retried(timeout, || producer.abort_transaction(timeout)).is_err() {
                self.made = None;
            }
        }
    }

    fn too_large(&self, error: KafkaError) -> Error {
        let output = &self.options.output;
        Error::new(ErrorKind::InvalidInput, format!("{output}: {TOO_LARGE}"))
            .not_applied()
            .with_source(error)
    }

    fn refused(&self, error: KafkaError) -> Error {
        let StreamOptions {
            output,
            transactional_id,
            ..
        } = &self.options;
        let message = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch) => {
                format!(
                    "transactions as {transactional_id}: another producer of the same name is at \
                     work, or the transaction took longer than its timeout"
                )
            }
            Some(RDKafkaErrorCode::TransactionalIdAuthorizationFailed) => format!(
                "transactions as {transactional_id}: the user may not use the name; grant Write \
                 and Describe on the transactional id"
            ),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
                format!("{output}: {NO_TOPIC}")
            }
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => {
                format!("{output}: {NO_RIGHT}")
            }
            _ => format!("{output}: the transaction was not committed"),
        };
        unavailable(message).with_source(error)
    }
}

/// Looks up a topic, so that the first record need not wait for that. Whether the brokers say that it is there.
fn look_up(producer: &BaseProducer<Reports>, topic: &str) -> bool {
    let found = producer.client().fetch_metadata(Some(topic), LOOK_UP);
    found.is_ok_and(|it| it.topics().iter().any(|topic| topic.error().is_none()))
}

/// How far the input is read with this batch, by assignment.
type Positions = BTreeMap<AssignmentId, (Box<str>, i32, i64)>;

/// How far the input is read with this batch, and the group's metadata that prove it ours.
fn positions(
    consumer: &Weak<BaseConsumer<Context>>,
    shared: &Shared,
    batch: &Batch<'_>,
) -> std::result::Result<(Positions, ConsumerGroupMetadata), Ended> {
    let consumer = consumer.upgrade().ok_or(Ended::Gone)?;
    // First the metadata, then the look: a partition that is ours after it was ours in its generation. A
    // member that was thrown out has metadata of no generation, and knows that its assignment is lost.
    let metadata = consumer.group_metadata().ok_or(Ended::Gone)?;
    if consumer.assignment_lost() {
        return Err(Ended::Gone);
    }
    let state = shared.lock();
    let mut positions = Positions::new();
    for (id, items) in batch {
        let position = state.behind(*id, &sorted(items)).ok_or(Ended::Gone)?;
        positions.insert(*id, position);
    }
    Ok((positions, metadata))
}

/// How a transaction ended that did not succeed.
enum Ended {
    /// It is to be aborted.
    Abort(KafkaError),
    /// Nobody knows.
    Unknown(KafkaError),
    /// It is to be aborted: not all of it is ours.
    Gone,
}

impl Ended {
    /// Before its commit was asked for: nothing of it can have been committed.
    fn of(error: KafkaError) -> Self {
        Self::Abort(error)
    }

    fn of_commit(error: KafkaError) -> Self {
        match &error {
            KafkaError::Transaction(it) if it.txn_requires_abort() => Self::Abort(error),
            _ => Self::Unknown(error),
        }
    }
}

/// How long a producer may take to begin, which ends what its predecessor left open.
const INIT: Duration = Duration::from_secs(30);

/// How long a producer may take to look a topic up before anything is sent there.
const LOOK_UP: Duration = Duration::from_secs(1);

/// Settings of the producer that the user cannot have.
const OURS: &[&str] = &[
    "acks",
    "bootstrap.servers",
    "enable.idempotence",
    "request.required.acks",
    "transaction.timeout.ms",
    "transactional.id",
];
