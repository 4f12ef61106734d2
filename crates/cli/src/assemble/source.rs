//! The one place that knows every kind of source.

use std::time::Duration;

use semel_broker_file::{FileSource, Format, Options, StdinSource};
use semel_core::Result;
use semel_core::port::source::{DeliveryId, Fetched, Progress, Source};

use crate::config::{AmqpSettings, KafkaSettings, NatsSettings, SourceSettings};

/// A source of some kind.
pub(crate) enum AnySource {
    File(FileSource),
    Stdin(StdinSource),
    #[cfg(feature = "kafka")]
    Kafka(semel_broker_kafka::KafkaSource),
    #[cfg(feature = "nats")]
    Nats(Box<semel_broker_nats::NatsSource>),
    #[cfg(feature = "amqp")]
    Amqp(semel_broker_amqp::AmqpSource),
}

/// Opens a source. `lease` is how long a delivery is held without being extended.
pub(crate) async fn source(
    settings: &SourceSettings,
    max_message_bytes: u64,
    lease: Duration,
) -> Result<AnySource> {
    let max_message_bytes = usize::try_from(max_message_bytes).unwrap_or(usize::MAX);
    let lines = |format: &Format| Options {
        format: *format,
        max_message_bytes,
    };
    match settings {
        SourceSettings::File { path, format } => FileSource::open(path, lines(format))
            .await
            .map(AnySource::File),
        SourceSettings::Stdin { format } => {
            StdinSource::open(lines(format)).await.map(AnySource::Stdin)
        }
        SourceSettings::Kafka(settings) => kafka(settings, max_message_bytes),
        SourceSettings::Nats(settings) => nats(settings, max_message_bytes, lease),
        SourceSettings::Amqp(settings) => amqp(settings, max_message_bytes),
    }
}

#[cfg(feature = "kafka")]
fn kafka(settings: &KafkaSettings, max_message_bytes: usize) -> Result<AnySource> {
    let (brokers, topic, group) = (&settings.brokers, &settings.topic, &settings.group);
    let mut options = semel_broker_kafka::Options::new(brokers, topic, group);
    let properties = settings.properties.iter();
    options.properties = properties
        .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
        .collect();
    options.max_message_bytes = max_message_bytes;
    options.span = settings.span;
    options.drain = settings.drain;
    semel_broker_kafka::KafkaSource::new(options).map(AnySource::Kafka)
}

#[cfg(feature = "nats")]
fn nats(settings: &NatsSettings, max_message_bytes: usize, lease: Duration) -> Result<AnySource> {
    let NatsSettings {
        url,
        stream,
        consumer,
        subject,
        credentials,
    } = settings;
    let mut options = semel_broker_nats::Options::new(url, stream, consumer);
    options.filter_subject.clone_from(subject);
    options.credentials_file.clone_from(credentials);
    options.max_message_bytes = max_message_bytes;
    options.lease = lease;
    semel_broker_nats::NatsSource::new(options).map(|source| AnySource::Nats(Box::new(source)))
}

#[cfg(feature = "amqp")]
fn amqp(settings: &AmqpSettings, max_message_bytes: usize) -> Result<AnySource> {
    let mut options = semel_broker_amqp::Options::new(&settings.url, &settings.queue);
    options.prefetch = settings.prefetch;
    options.max_message_bytes = max_message_bytes;
    semel_broker_amqp::AmqpSource::new(options).map(AnySource::Amqp)
}

#[cfg(not(feature = "kafka"))]
fn kafka(_: &KafkaSettings, _: usize) -> Result<AnySource> {
    Err(not_built_in("kafka"))
}

#[cfg(not(feature = "nats"))]
fn nats(_: &NatsSettings, _: usize, _: Duration) -> Result<AnySource> {
    Err(not_built_in("nats"))
}

#[cfg(not(feature = "amqp"))]
fn amqp(_: &AmqpSettings, _: usize) -> Result<AnySource> {
    Err(not_built_in("amqp"))
}

#[cfg(not(all(feature = "kafka", feature = "nats", feature = "amqp")))]
fn not_built_in(kind: &str) -> semel_core::Error {
    let message = format!(
        "sources of kind {kind} are not built into this program; build it with --features {kind}"
    );
    semel_core::Error::new(semel_core::ErrorKind::Unsupported, message)
}

/// Hands a call on to whatever source it is.
macro_rules! each {
    ($any:expr, $source:ident => $call:expr) => {
        match $any {
            Self::File($source) => $call,
            Self::Stdin($source) => $call,
            #[cfg(feature = "kafka")]
            Self::Kafka($source) => $call,
            #[cfg(feature = "nats")]
            Self::Nats($source) => $call,
            #[cfg(feature = "amqp")]
            Self::Amqp($source) => $call,
        }
    };
}

// A method that is not handed on would be the default one.
#[deny(clippy::missing_trait_methods)]
impl Source for AnySource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        each!(self, source => source.fetch(max).await)
    }

    async fn acknowledge(&mut self, batch: &[DeliveryId]) -> Result<()> {
        each!(self, source => source.acknowledge(batch).await)
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        each!(self, source => source.requeue(batch).await)
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        each!(self, source => source.extend(batch).await)
    }

    async fn close(&mut self) -> Result<()> {
        each!(self, source => source.close().await)
    }

    fn progress(&self) -> Option<Progress> {
        each!(self, source => source.progress())
    }
}
