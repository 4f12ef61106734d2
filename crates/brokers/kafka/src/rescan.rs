//! One more reading of a topic: its present records, without a group, and then the end.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};
use semel_core::port::rescan::RescanSource;
use semel_core::port::source::Fetched;
use semel_core::{Result, Timestamp};
use tokio::sync::mpsc;

use crate::arena::Arena;
use crate::connection_error::ConnectionError;
use crate::delivery::{Names, record};
use crate::error::{away, no_thread, not_made};
use crate::options::{Options, invalid};

/// Reads the records that a topic has when it is opened, from its earliest on, or those of `since`. It belongs to no
/// group, not even to that of `options`: it commits nothing and moves no member's partitions.
///
/// # Guarantee   every record that is still there when it is read, in the order of its partition
/// # Cost        a thread of its own, and a few thousand records read ahead
/// # Errors      `InvalidConfig`: a setting that librdkafka does not take, or that is not the user's
pub fn rescan(options: Options, since: Option<Timestamp>) -> Result<RescanSource> {
    if options.topics.len() != 1 {
        return Err(invalid("one topic is read again at a time"));
    }
    let mut config = options.config()?;
    config.set("enable.partition.eof", "true");
    config.remove("group.instance.id");
    let consumer: BaseConsumer = config.create().map_err(not_made)?;
    let (sender, mut batches) = mpsc::channel(2);
    let reading = Reading {
        consumer,
        options,
        since,
        sender,
    };
    let thread = std::thread::Builder::new()
        .name("semel-kafka-again".into())
        .spawn(move || reading.run());
    thread.map_err(no_thread)?;
    Ok(RescanSource::new(move |context| batches.poll_recv(context)))
}

struct Reading {
    consumer: BaseConsumer,
    options: Options,
    since: Option<Timestamp>,
    sender: mpsc::Sender<Result<Fetched>>,
}

/// End of each partition, by topic and partition.
type Ends = BTreeMap<(String, i32), i64>;

impl Reading {
    fn run(self) {
        let mut ends = loop {
            match self.begin() {
                Ok(ends) => break ends,
                Err(error) => {
                    if !self.tell_away(&error) {
                        return;
                    }
                    std::thread::sleep(AGAIN);
                }
            }
        };
        while !ends.is_empty() && !self.sender.is_closed() {
            let mut batch = Vec::new();
            let mut names = Names::default();
            let mut arena = Arena::default();
            let mut patience = POLL;
            while batch.len() < MOST && !ends.is_empty() {
                match self.consumer.poll(patience) {
                    None => break,
                    Some(Err(KafkaError::PartitionEOF(partition))) => {
                        ends.retain(|(_, it), _| *it != partition);
                    }
                    Some(Err(error)) => {
                        if !self.tell_away(&error) {
                            return;
                        }
                        break;
                    }
                    Some(Ok(message)) => {
                        let place = (message.topic().to_owned(), message.partition());
                        let Some(end) = ends.get(&place).copied() else {
                            continue;
                        };
                        if message.offset() < end {
                            batch.push(record(&message, &self.options, &mut names, &mut arena).3);
                        }
                        if message.offset() + 1 >= end {
                            ends.remove(&place);
                        }
                    }
                }
                patience = Duration::ZERO;
            }
            let fetched = Ok(Fetched::Deliveries(batch));
            if self.sender.blocking_send(fetched).is_err() {
                return;
            }
        }
    }

    /// Assigns the partitions and returns where each ends now.
    fn begin(&self) -> std::result::Result<Ends, KafkaError> {
        let (mut ends, mut places) = (Ends::new(), TopicPartitionList::new());
        for topic in &self.options.topics {
            let metadata = self.consumer.fetch_metadata(Some(topic), ASK)?;
            let found = metadata.topics().iter().find(|it| it.name() == &**topic);
            let partitions = found.map_or(&[][..], |it| it.partitions());
            if partitions.is_empty() {
                let unknown = RDKafkaErrorCode::UnknownTopicOrPartition;
                return Err(KafkaError::Global(unknown));
            }
            for partition in partitions {
                let id = partition.id();
                let (first, end) = self.consumer.fetch_watermarks(topic, id, ASK)?;
                let from = match self.since {
                    None => first,
                    Some(since) => self.from(topic, id, since)?.unwrap_or(end),
                };
                if from < end {
                    places.add_partition_offset(topic, id, Offset::Offset(from))?;
                    ends.insert((topic.to_string(), id), end);
                }
            }
        }
        self.consumer.assign(&places)?;
        Ok(ends)
    }

    /// Returns the first record of a time; `None` where all are older.
    fn from(
        &self,
        topic: &str,
        partition: i32,
        since: Timestamp,
    ) -> std::result::Result<Option<i64>, KafkaError> {
        let mut times = TopicPartitionList::new();
        let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        times.add_partition_offset(topic, partition, Offset::Offset(millis))?;
        let found = self.consumer.offsets_for_times(times, ASK)?;
        let found = found.elements().first().map(TopicPartitionListElem::offset);
        Ok(match found {
            Some(Offset::Offset(offset)) => Some(offset),
            _ => None,
        })
    }

    /// Reports that the cluster is away; returns whether the receiver still listens.
    fn tell_away(&self, error: &KafkaError) -> bool {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
        let error = away(code, &self.options, &ConnectionError::default());
        self.sender.blocking_send(Ok(Fetched::Away(error))).is_ok()
    }
}

/// The longest wait for an answer of the cluster.
const ASK: Duration = Duration::from_secs(5);
/// The longest wait of a poll for the first record.
const POLL: Duration = Duration::from_millis(100);
/// Pause between two tries to begin.
const AGAIN: Duration = Duration::from_millis(500);
/// Records that are handed over at once.
const MOST: usize = 1_000;
