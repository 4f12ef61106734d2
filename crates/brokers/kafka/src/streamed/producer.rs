//! The producer of transactions: what it is given, what it hears, and what may be asked again.

use std::sync::Mutex;
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use semel_core::port::source::DeliveryId;
use semel_core::port::streamed::{Finished, Outgoing};
use tokio::time::Instant;

use super::lock;
use crate::record::parts;

/// What is heard of the records of a transaction.
#[derive(Default)]
pub(super) struct Reports {
    /// The first record that was refused for good, and why.
    refused: Mutex<Option<(DeliveryId, KafkaError)>>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    /// The delivery that a record was made for, and one more; zero for none.
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

/// Hands over the output of a delivery, with the id of its operation where that is wanted.
pub(super) fn publish(
    producer: &BaseProducer<Reports>,
    topic: &str,
    finished: &Finished,
    has_id: bool,
) -> std::result::Result<(), KafkaError> {
    let Some(Outgoing { payload, headers }) = &finished.output else {
        return Ok(());
    };
    let id = has_id.then(|| finished.id.to_string());
    let (key, headers) = parts(id.as_deref(), headers);
    let made_for = made_for(finished.delivery);
    let mut record = BaseRecord::with_opaque_to(topic, made_for)
        .payload(&payload[..])
        .key(key.unwrap_or_else(|| finished.key.as_bytes()));
    record.headers = headers;
    let sent = send(producer, record);
    if let Err(error) = &sent {
        producer.context().failed(error, made_for);
    }
    sent
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

/// Waits until the brokers have everything. By looking: the crate's own flush waits for a tenth of a second, and
/// its poll asks without a pause where less than a millisecond of its time is left.
pub(super) fn drain(
    producer: &BaseProducer<Reports>,
    timeout: Duration,
) -> std::result::Result<(), KafkaError> {
    let begun = Instant::now();
    while producer.in_flight_count() > 0 {
        if begun.elapsed() >= timeout {
            return Err(KafkaError::Flush(RDKafkaErrorCode::OperationTimedOut));
        }
        look(producer);
    }
    Ok(())
}

/// Hears what the brokers have said, or gives them time to say it.
fn look(producer: &BaseProducer<Reports>) {
    let before = producer.in_flight_count();
    producer.poll(Duration::ZERO);
    if producer.in_flight_count() == before {
        std::thread::sleep(LOOK);
    }
}

/// Asks again what librdkafka says may be asked again.
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

/// How often to look for what the brokers say.
const LOOK: Duration = Duration::from_micros(300);
