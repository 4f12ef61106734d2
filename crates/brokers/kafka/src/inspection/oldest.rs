//! The oldest record that a topic still has.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::message::{Message, Timestamp as RecordTime};
use rdkafka::{Offset, TopicPartitionList};
use semel_core::Timestamp;
use semel_core::port::horizon::HorizonReport;
use tokio::time::Instant;

use super::Asker;

/// Adds the oldest record: as evidence where the broker has stamped it, else as a fact alone, since a producer may
/// stamp anything.
pub(super) fn add(horizons: &mut HorizonReport, consumer: &Asker, topic: &str, partitions: &[i32]) {
    let looked_at = &partitions[..partitions.len().min(MOST_PARTITIONS)];
    let found = first_records(consumer, topic, looked_at);
    // The later steps of the look read nothing more.
    let _ = consumer.unassign();
    let (oldest, unseen) = match found {
        Ok(found) => found,
        Err(error) => {
            let why = match error.rdkafka_error_code() {
                Some(code) => format!("the cluster does not tell: {code}"),
                None => "the cluster does not tell".to_owned(),
            };
            horizons.unread(OLDEST, why);
            return;
        }
    };
    let unseen = unseen + partitions.len() - looked_at.len();
    if unseen > 0 {
        let why = format!(
            "{unseen} of {} partitions were not looked at in time",
            partitions.len()
        );
        horizons.unread(OLDEST, why);
    }
    let Some(oldest) = oldest else {
        return;
    };
    if horizons.is_stamped {
        horizons.oldest = Some(oldest);
        horizons.fact(OLDEST, oldest.to_string(), "taken in then, and still there");
    } else {
        let meaning = "what its producer says; it is still there";
        horizons.fact(OLDEST, oldest.to_string(), meaning);
    }
}

/// Returns the earliest time of the first record of each partition, and the number of partitions that gave none in
/// time.
fn first_records(
    consumer: &Asker,
    topic: &str,
    partitions: &[i32],
) -> Result<(Option<Timestamp>, usize), KafkaError> {
    let deadline = Instant::now() + PATIENCE;
    let left = || deadline.saturating_duration_since(Instant::now());
    let mut list = TopicPartitionList::new();
    let mut waiting = BTreeSet::new();
    for &partition in partitions {
        let (low, high) = consumer.fetch_watermarks(topic, partition, left().max(LEAST))?;
        if low < high {
            list.add_partition_offset(topic, partition, Offset::Offset(low))?;
            waiting.insert(partition);
        }
    }
    let mut oldest: Option<Timestamp> = None;
    if waiting.is_empty() {
        return Ok((oldest, 0));
    }
    consumer.assign(&list)?;
    while !waiting.is_empty() && !left().is_zero() {
        match consumer.poll(left()) {
            Some(Ok(record)) => {
                let is_first = waiting.remove(&record.partition());
                let at = match record.timestamp() {
                    RecordTime::CreateTime(millis) | RecordTime::LogAppendTime(millis) => {
                        u64::try_from(millis).ok()
                    }
                    RecordTime::NotAvailable => None,
                };
                if let Some(at) = at.filter(|_| is_first).map(Timestamp::from_millis) {
                    oldest = Some(oldest.map_or(at, |oldest| oldest.min(at)));
                }
            }
            // Only the marks of transactions are there.
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                waiting.remove(&partition);
            }
            // The driver asks a broker that stumbles again, until the time is over.
            Some(Err(_)) | None => {}
        }
    }
    Ok((oldest, waiting.len()))
}

/// Name of a fact that comes from no setting.
const OLDEST: &str = "oldest record";
/// More would take long, and the first tell enough.
const MOST_PARTITIONS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(2);
const LEAST: Duration = Duration::from_millis(100);
