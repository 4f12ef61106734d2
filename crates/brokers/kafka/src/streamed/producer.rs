//! The producer of transactions: its records, its reports, and the calls that may be repeated.

use std::sync::Mutex;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{Finished, Outgoing};
use semel_rdkafka_batch::{Batch, NotTaken, Topic, flush};
use tokio::time::Instant;

use super::images::lock;
use crate::record::parts;

/// Reports on the records of a transaction.
#[derive(Default)]
pub(super) struct Reports {
    /// The first record that was refused for good, and why.
    refused: Mutex<Option<(DeliveryId, KafkaError)>>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    /// The delivery that a record was made for, plus one; zero for none.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, made_for: usize) {
        if let Err((error, _)) = result {
            self.failed(error, made_for);
        }
    }
}

impl Reports {
    fn failed(&self, error: &KafkaError, made_for: usize) {
        let is_for_good = matches!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize)
        );
        if let Some(delivery) = made_for.checked_sub(1).filter(|_| is_for_good) {
            let delivery = DeliveryId(delivery as u64);
            lock(&self.refused).get_or_insert((delivery, error.clone()));
        }
    }

    pub(super) fn refused(&self) -> Option<(DeliveryId, KafkaError)> {
        lock(&self.refused).take()
    }
}

fn made_for(delivery: DeliveryId) -> usize {
    usize::try_from(delivery.0).map_or(0, |delivery| delivery.saturating_add(1))
}

/// Hands over the outputs of deliveries, with the ids of their operations where that is wanted. Outputs with headers go
/// one by one, all others many at a time; their order stays.
pub(super) fn publish<'f>(
    producer: &BaseProducer<Reports>,
    topic: &str,
    finished: impl Iterator<Item = &'f Finished>,
    has_id: bool,
) -> std::result::Result<(), KafkaError> {
    let many = Topic::new(producer.client(), topic)?;
    let mut batch = Batch::with_capacity(AT_ONCE);
    for finished in finished {
        let Some(Outgoing { payload, headers }) = &finished.output else {
            continue;
        };
        let id = has_id.then(|| finished.id.to_string());
        let (key, headers) = parts(id.as_deref(), headers);
        let key = key.unwrap_or_else(|| finished.key.as_bytes());
        let made_for = made_for(finished.delivery);
        if let Some(headers) = headers {
            send_many(producer, &many, &mut batch)?;
            let mut record = BaseRecord::with_opaque_to(topic, made_for)
                .payload(&payload[..])
                .key(key);
            record.headers = Some(headers);
            send(producer, record).inspect_err(|error| {
                producer.context().failed(error, made_for);
            })?;
        } else {
            batch.push(Some(key), Some(payload), made_for);
            if batch.len() == AT_ONCE {
                send_many(producer, &many, &mut batch)?;
            }
        }
    }
    send_many(producer, &many, &mut batch)
}

/// Hands records to librdkafka; waits where its queue is full.
fn send_many(
    producer: &BaseProducer<Reports>,
    topic: &Topic<'_>,
    batch: &mut Batch<'_>,
) -> std::result::Result<(), KafkaError> {
    loop {
        match topic.send(batch) {
            Ok(()) => return Ok(()),
            Err(NotTaken {
                error: KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull),
                ..
            }) => look(producer),
            Err(NotTaken { opaque, error }) => {
                producer.context().failed(&error, opaque);
                return Err(error);
            }
        }
    }
}

/// Hands a record to librdkafka; waits where its queue is full.
pub(super) fn send(
    producer: &BaseProducer<Reports>,
    mut record: BaseRecord<'_, [u8], [u8], usize>,
) -> std::result::Result<(), KafkaError> {
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                record = again;
                look(producer);
            }
            Err((error, _)) => return Err(error),
        }
    }
}

/// Waits until the brokers have everything; nothing lingers meanwhile.
pub(super) fn drain(
    producer: &BaseProducer<Reports>,
    timeout: Duration,
) -> std::result::Result<(), KafkaError> {
    let begun = Instant::now();
    while !flush(producer.client(), HEAR) {
        // A refused record is in flight until the refusal is heard.
        producer.poll(Duration::ZERO);
        if begun.elapsed() >= timeout {
            return Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut));
        }
    }
    Ok(())
}

/// Hears the brokers' reports, or gives them time to come.
fn look(producer: &BaseProducer<Reports>) {
    let before = producer.in_flight_count();
    producer.poll(Duration::ZERO);
    if producer.in_flight_count() == before {
        std::thread::sleep(LOOK);
    }
}

/// Repeats a call while librdkafka says that it may be repeated.
pub(super) fn retried(
    timeout: Duration,
    ask: impl Fn() -> std::result::Result<(), KafkaError>,
) -> std::result::Result<(), KafkaError> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(KafkaError::Transaction(error))
                if error.is_retriable() && begun.elapsed() < timeout => {}
            ended => return ended,
        }
    }
}

/// Pause between two looks for the brokers' reports.
const LOOK: Duration = Duration::from_micros(300);

/// Time for which it waits for the brokers before their refusals are heard.
const HEAR: Duration = Duration::from_millis(10);

/// Outputs that are handed over with one call.
const AT_ONCE: usize = 1_000;
