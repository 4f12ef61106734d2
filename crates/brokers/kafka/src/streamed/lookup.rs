//! Look-up of operations in the changelog, for a caller that is no worker.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use semel_core::partition::Entry;
use semel_core::{Code, Error, ErrorKind, OpId, Result, Timestamp, Window};

use super::block;
use crate::connection_error::ConnectionError;
use crate::error::{away, not_made};
use crate::options::{Options, client};

/// Entry of a changelog for one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Time of its commit, by the clock of its worker.
    pub at: Timestamp,
    /// The partition of the changelog, which is that of the input.
    pub partition: i32,
    /// The record of the changelog.
    pub offset: i64,
    /// The operation, as the changelog keeps it.
    pub entry: Entry,
}

/// Reads the changelog of a pipeline, whose source has these options, up to its last stable offset: committed
/// transactions, and nothing of an open one. Returns for each operation its latest commit. No group is joined and
/// nothing is written. Blocks for as long as it reads.
///
/// # Shape    one answer per operation, in the same order; `None` for one that is not there, or past its window
/// # Cost     reads the window of all partitions
/// # Errors   `Unavailable`: the cluster is away; `Corrupt`: it is no changelog of this version
pub fn find(
    options: &Options,
    changelog: &str,
    window: Window,
    operations: &[OpId],
    now: Timestamp,
) -> Result<Vec<Option<Remembered>>> {
    let failed = |error: KafkaError| {
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
        let error = away(code, options, &ConnectionError::default());
        Error::new(error.kind(), format!("changelog {changelog}: {error}")).with_code(error.code())
    };
    let mut config: ClientConfig = client(&options.brokers, &options.properties, &[])?;
    // Never joined: it only reads the partitions that it names.
    config.set("group.id", &*options.group);
    config.remove("group.instance.id");
    config.set("enable.auto.commit", "false");
    config.set("enable.partition.eof", "true");
    config.set("isolation.level", "read_committed");
    config.set("fetch.queue.backoff.ms", "5");
    let consumer: BaseConsumer = config.create().map_err(not_made)?;
    let mut known = Search {
        wanted: operations.iter().map(|id| (leading(*id), None)).collect(),
        changelog,
    };
    let places = places(&consumer, changelog, window, now).map_err(failed)?;
    let mut left = places.count();
    consumer.assign(&places).map_err(failed)?;
    while left > 0 {
        match consumer.poll(PATIENCE) {
            None => {
                let nothing = KafkaError::Global(RDKafkaErrorCode::OperationTimedOut);
                return Err(failed(nothing));
            }
            Some(Err(KafkaError::PartitionEOF(_))) => left -= 1,
            Some(Err(error)) => return Err(failed(error)),
            Some(Ok(message)) => {
                let place = (message.partition(), message.offset());
                known.look(place, message.payload().unwrap_or_default())?;
            }
        }
    }
    let found = operations.iter().map(|id| {
        let found = known.wanted.get(&leading(*id)).copied().flatten();
        found.filter(|it| window.forgotten_at(it.at) > now)
    });
    Ok(found.collect())
}

/// Returns the offset from which each partition is read.
fn places(
    consumer: &BaseConsumer,
    changelog: &str,
    window: Window,
    now: Timestamp,
) -> std::result::Result<TopicPartitionList, KafkaError> {
    let metadata = consumer.fetch_metadata(Some(changelog), ASK)?;
    let found = metadata.topics().iter().find(|it| it.name() == changelog);
    let partitions = found.map_or(&[][..], |it| it.partitions());
    if partitions.is_empty() {
        // No worker has run yet.
        return Ok(TopicPartitionList::new());
    }
    let since = now.minus(window.duration() + window.duration() / 8 + SLACK);
    let since = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let mut times = TopicPartitionList::new();
    for partition in partitions {
        let since = Offset::Offset(since);
        times.add_partition_offset(changelog, partition.id(), since)?;
    }
    let mut places = TopicPartitionList::new();
    for found in consumer.offsets_for_times(times, ASK)?.elements() {
        found.error()?;
        if let Offset::Offset(offset) = found.offset() {
            let offset = Offset::Offset(offset);
            places.add_partition_offset(changelog, found.partition(), offset)?;
        }
    }
    Ok(places)
}

struct Search<'a> {
    wanted: BTreeMap<u128, Option<Remembered>>,
    changelog: &'a str,
}

impl Search<'_> {
    fn look(&mut self, (partition, offset): (i32, i64), payload: &[u8]) -> Result<()> {
        let Some((at, entries)) = block::read(payload) else {
            let message = format!(
                "{}, partition {partition}, offset {offset}: no changelog of this version",
                self.changelog
            );
            return Err(Error::new(ErrorKind::Corrupt, message).with_code(Code::RecordCorrupt));
        };
        for entry in entries {
            if let Some(found) = self.wanted.get_mut(&entry.id)
                && found.is_none_or(|it| it.at <= at)
            {
                *found = Some(Remembered {
                    at,
                    partition,
                    offset,
                    entry,
                });
            }
        }
        Ok(())
    }
}

/// Returns the part of an id that blocks hold.
fn leading(id: OpId) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&id.as_bytes()[..16]);
    u128::from_be_bytes(bytes)
}

/// The longest wait for an answer of the cluster.
const ASK: Duration = Duration::from_secs(5);
/// The longest time without a record.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than any clock is off.
const SLACK: Duration = Duration::from_secs(600);
