//! The records that a group has not committed. Looks only: joins no group, commits nothing.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::task::{JoinError, JoinHandle, spawn_blocking};
use tokio::time::Instant;

use crate::background_drop::BackgroundDrop;
use crate::error::not_made;
use crate::options::Options;

/// Counts the records of topics that their group has not committed, as often as it is asked. Marks of transactions
/// count, too.
pub struct Backlog {
    options: Options,
    /// A consumer that is in no group, as long as it works.
    consumer: Option<Asked>,
    counting: Alone<(Option<Asked>, Result<Option<u64>>)>,
}

type Asked = Arc<BackgroundDrop<BaseConsumer>>;

impl Backlog {
    /// Returns a backlog that connects when it is first asked.
    pub const fn new(options: Options) -> Self {
        Self {
            options,
            consumer: None,
            counting: Alone(None),
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
    /// Safe; a count that has begun goes on for a few seconds, and the next call waits for it
    pub async fn count(&mut self) -> Result<Option<u64>> {
        let (consumer, options) = (self.consumer.take(), self.options.clone());
        let counting = self.counting.run(move || {
            let consumer = consumer.map_or_else(|| connect(&options), Ok);
            let counted = consumer.and_then(|it| Ok((count(&it, &options)?, it)));
            match counted {
                Ok((counted, consumer)) => (Some(consumer), Ok(counted)),
                Err(error) => (None, Err(error)),
            }
        });
        let (consumer, counted) = counting.await.map_err(|error| {
            let message = "the count of a Kafka group did not end";
            Error::new(ErrorKind::Internal, message).with_source(error)
        })?;
        self.consumer = consumer;
        counted
    }
}

fn connect(options: &Options) -> Result<Asked> {
    let made = options.config()?.create().map_err(not_made)?;
    Ok(Arc::new(BackgroundDrop::new(made)))
}

fn count(consumer: &BaseConsumer, options: &Options) -> Result<Option<u64>> {
    let counted = count_until(Instant::now() + LONGEST, consumer, options);
    counted.map_err(|error| {
        let message = "the Kafka cluster does not tell what its group has not read";
        let error = Error::new(ErrorKind::Unavailable, message).with_source(error);
        error.with_code(Code::SourceUnavailable)
    })
}

fn count_until(
    until: Instant,
    consumer: &BaseConsumer,
    options: &Options,
) -> Result<Option<u64>, KafkaError> {
    let mut list = TopicPartitionList::new();
    for topic in &options.topics {
        let metadata = consumer.fetch_metadata(Some(topic), left(until)?)?;
        let partitions = metadata.topics().first().map(MetadataTopic::partitions);
        for partition in partitions.unwrap_or_default() {
            list.add_partition(topic, partition.id());
        }
    }
    if list.count() > MOST_PARTITIONS {
        return Ok(None);
    }
    let mut lag = 0;
    let committed = consumer.committed_offsets(list, left(until)?)?;
    for partition in committed.elements() {
        let (topic, number) = (partition.topic(), partition.partition());
        let (low, high) = consumer.fetch_watermarks(topic, number, left(until)?)?;
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

/// Returns the longest wait for the next answer of a count that has to end by then.
fn left(until: Instant) -> Result<Duration, KafkaError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(KafkaError::OffsetFetch(RDKafkaErrorCode::OperationTimedOut));
    }
    Ok(left.min(PATIENCE))
}

/// Blocking work of which no two pieces run at once.
struct Alone<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Alone<T> {
    /// Runs `work`; or waits instead for the work of a call that was dropped, and returns what that came to.
    async fn run(&mut self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
        let running = self.0.get_or_insert_with(|| spawn_blocking(work));
        let ended = running.await;
        self.0 = None;
        ended
    }
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
/// The longest time that a count takes, all answers together.
const LONGEST: Duration = Duration::from_secs(20);
/// More would take long: each is asked for.
const MOST_PARTITIONS: usize = 256;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_count_that_is_given_up_is_awaited_before_the_next_begins() {
        let mut alone = Alone(None);
        let begun = Arc::new(AtomicU32::new(0));
        let (go_on, waits) = mpsc::sync_channel(1);
        let counted = Arc::clone(&begun);
        let first = alone.run(move || {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let told = waits.recv();
            (number, told.is_ok())
        });
        assert!(timeout(Duration::from_millis(20), first).await.is_err());
        for _ in 0..3 {
            let counted = Arc::clone(&begun);
            let next = alone.run(move || (counted.fetch_add(1, Ordering::SeqCst), false));
            assert!(timeout(Duration::from_millis(20), next).await.is_err());
        }
        go_on.send(()).expect("the first waits");
        let ended = alone.run(|| (9, false)).await;
        assert_eq!(ended.expect("no panic"), (0, true));
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        assert_eq!(alone.run(|| (9, false)).await.expect("it"), (9, false));
    }

    #[test]
    fn all_answers_of_a_count_share_its_time() {
        let now = Instant::now();
        assert_eq!(left(now + PATIENCE * 2).ok(), Some(PATIENCE));
        let some = left(now + PATIENCE / 2).expect("some time");
        assert!(some <= PATIENCE / 2);
        assert!(left(now).is_err(), "none is left");
    }
}
