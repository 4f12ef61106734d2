//! The records that a group has not committed. Looks only: joins no group, commits nothing.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::background_drop::BackgroundDrop;
use crate::error::not_made;
use crate::options::Options;

/// Counts the records of topics that their group has not committed, as often as it is asked. Marks of transactions
/// count, too.
pub struct Backlog {
    options: Options,
    /// A consumer that is in no group, as long as it works.
    consumer: Option<Arc<BackgroundDrop<BaseConsumer>>>,
}

impl Backlog {
    /// Returns a backlog that connects when it is first asked.
    pub const fn new(options: Options) -> Self {
        Self {
            options,
            consumer: None,
        }
    }

    /// Returns the count; nothing if the topics have so many partitions that it would take long.
    ///
    /// # Errors
    ///
    /// `Unavailable`: the cluster does not answer. `InvalidConfig`, as the source
    ///
    /// # Cancel safety
    ///
    /// Safe; a call to the cluster that has begun ends by itself
    pub async fn count(&mut self) -> Result<Option<u64>> {
        let consumer = if let Some(consumer) = self.consumer.take() {
            consumer
        } else {
            let made = self.options.config()?.create().map_err(not_made)?;
            Arc::new(BackgroundDrop::new(made))
        };
        let (asked, options) = (Arc::clone(&consumer), self.options.clone());
        let counting = tokio::task::spawn_blocking(move || count(&asked, &options));
        let counted = counting.await.map_err(|error| {
            let message = "the count of a Kafka group did not end";
            Error::new(ErrorKind::Internal, message).with_source(error)
        })?;
        let counted = counted.map_err(|error| {
            let message = "the Kafka cluster does not tell what its group has not read";
            let error = Error::new(ErrorKind::Unavailable, message).with_source(error);
            error.with_code(Code::SourceUnavailable)
        })?;
        self.consumer = Some(consumer);
        Ok(counted)
    }
}

fn count(consumer: &BaseConsumer, options: &Options) -> Result<Option<u64>, KafkaError> {
    let mut list = TopicPartitionList::new();
    for topic in &options.topics {
        let metadata = consumer.fetch_metadata(Some(topic), PATIENCE)?;
        let partitions = metadata.topics().first().map(MetadataTopic::partitions);
        for partition in partitions.unwrap_or_default() {
            list.add_partition(topic, partition.id());
        }
    }
    if list.count() > MOST_PARTITIONS {
        return Ok(None);
    }
    let mut lag = 0;
    let committed = consumer.committed_offsets(list, PATIENCE)?;
    for partition in committed.elements() {
        let (topic, number) = (partition.topic(), partition.partition());
        let (low, high) = consumer.fetch_watermarks(topic, number, PATIENCE)?;
        let next = match partition.offset() {
            Offset::Offset(next) => next.max(low),
            // A group that has committed nothing begins at one of the ends.
            _ if options.skips() => high,
            _ => low,
        };
        lag += u64::try_from(high - next).unwrap_or_default();
    }
    Ok(Some(lag))
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backlog")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// The longest wait for one answer of the cluster.
const PATIENCE: Duration = Duration::from_secs(5);
/// More would take long: each is asked for.
const MOST_PARTITIONS: usize = 256;
