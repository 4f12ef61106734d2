//! The sink: the idempotent producer, every delivery report read.

use std::fmt;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord};
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Code, Error, ErrorKind, Result};

use crate::error::not_made;
use crate::options::client;

/// Settings of a sink.
#[derive(Clone)]
pub struct SinkOptions {
    /// `host:port`, several with commas between them.
    pub brokers: Box<str>,
    /// Where to.
    pub topic: Box<str>,
    /// librdkafka's own settings by name.
    pub properties: Vec<(Box<str>, Box<str>)>,
    /// How long a message is tried before nobody knows what became of it.
    pub timeout: Duration,
}

impl SinkOptions {
    /// Usual settings: half a minute a message.
    pub fn new(brokers: &str, topic: &str) -> Self {
        Self {
            brokers: brokers.into(),
            topic: topic.into(),
            properties: Vec::new(),
            timeout: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for SinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of properties may be secrets.
        f.debug_struct("SinkOptions")
            .field("brokers", &self.brokers)
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}

/// Publishes to a topic.
///
/// The record's key is [`Publication::order`], so that what belongs together stays in order; the id goes
/// out as the header `semel-id`. Within the life of this producer, librdkafka's sequence numbers keep its
/// own retries from being repeats; after a restart, the same message may be there twice.
pub struct KafkaSink {
    producer: FutureProducer,
    topic: Box<str>,
}

impl KafkaSink {
    /// Makes the producer. A cluster that is away is no error here.
    ///
    /// # Errors
    /// `InvalidConfig`: a setting that librdkafka does not take, or that is not the user's.
    pub fn new(options: SinkOptions) -> Result<Self> {
        let mut config = client(&options.brokers, &options.properties, OURS)?;
        config.set("enable.idempotence", "true");
        config.set("acks", "all");
        if config.get(PROPAGATION).is_none() {
            // A topic that is not there is told of before the message is given up.
            config.set(PROPAGATION, "5000");
        }
        config.set(
            "message.timeout.ms",
            options.timeout.as_millis().to_string(),
        );
        let producer = config.create().map_err(not_made)?;
        let topic = options.topic;
        Ok(Self { producer, topic })
    }

    /// Hands one over to librdkafka; waits where its queue is full.
    async fn send(&self, message: &Publication) -> Result<DeliveryFuture> {
        let mut headers = OwnedHeaders::new().insert(Header {
            key: "semel-id",
            value: Some(&*message.id),
        });
        for (name, value) in &message.headers {
            headers = headers.insert(Header {
                key: name,
                value: Some(&value[..]),
            });
        }
        let mut record = FutureRecord::<[u8], [u8]>::to(&self.topic)
            .payload(&message.payload)
            .headers(headers);
        if let Some(order) = &message.order {
            record = record.key(order);
        }
        loop {
            match self.producer.send_result(record) {
                Ok(sent) => return Ok(sent),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                    record = again;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Err((error, _)) => return Err(self.refused(error, false)),
            }
        }
    }

    /// What a failure means for a message that was sent, or was not.
    fn refused(&self, error: KafkaError, is_sent: bool) -> Error {
        let topic = &self.topic;
        let (kind, why, is_maybe) = match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize) => (
                ErrorKind::InvalidInput,
                "the message is longer than the topic takes (message.max.bytes, max.message.bytes)",
                false,
            ),
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => (
                ErrorKind::InvalidConfig,
                "there is no such topic; create it or correct the name",
                false,
            ),
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => (
                ErrorKind::InvalidConfig,
                "the user may not write to the topic; grant Write on it",
                false,
            ),
            Some(RDKafkaErrorCode::MessageTimedOut) => (
                ErrorKind::Timeout,
                "no broker confirmed the message in time",
                is_sent,
            ),
            _ => (
                ErrorKind::Unavailable,
                "the message was not confirmed",
                is_sent,
            ),
        };
        let refused = Error::new(kind, format!("{topic}: {why}"));
        let refused = match kind {
            ErrorKind::Timeout | ErrorKind::Unavailable => {
                refused.with_code(Code::TargetUnavailable)
            }
            _ => refused,
        };
        let refused = refused.with_source(error);
        if is_maybe {
            refused
        } else {
            refused.not_applied()
        }
    }
}

impl Sink for KafkaSink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let mut sent = Vec::with_capacity(batch.len());
        for message in batch {
            sent.push(self.send(message).await);
        }
        let mut confirmed = Vec::with_capacity(batch.len());
        for sent in sent {
            confirmed.push(match sent {
                Err(error) => Err(error),
                Ok(sent) => match sent.await {
                    Ok(Ok(_place)) => Ok(()),
                    Ok(Err((error, _message))) => Err(self.refused(error, true)),
                    Err(_gone) => Err(self.refused(KafkaError::Canceled, true)),
                },
            });
        }
        confirmed
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KafkaSink({})", self.topic)
    }
}

/// How long a topic that nobody knows may still be on its way to the brokers.
const PROPAGATION: &str = "topic.metadata.propagation.max.ms";

/// Settings of a producer that the user cannot have.
const OURS: &[&str] = &[
    "acks",
    "bootstrap.servers",
    "enable.idempotence",
    "message.timeout.ms",
    "request.required.acks",
    "transactional.id",
];
