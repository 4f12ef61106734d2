//! The one place that knows every kind of source.

#[cfg(not(all(feature = "kafka", feature = "nats", feature = "amqp")))]
use std::future::{Ready, ready};
use std::time::Duration;

use semel_broker_file::{FileSource, Format, Options, StdinSource};
use semel_config::{AmqpSettings, KafkaSettings, NatsSettings, SourceSettings};
use semel_core::port::reach::{Horizon, Reach};
use semel_core::port::source::AnySource;
use semel_core::units::spelled;
use semel_core::{Error, ErrorKind, Result, Timestamp};

/// Opens a source. `lease` is the time for which the source holds a delivery that is not extended.
///
/// # Errors
///
/// Those of a source that cannot be used; `Unsupported`: its broker is not built in.
pub async fn open(
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
            .map(AnySource::new),
        SourceSettings::Stdin { format } => {
            StdinSource::open(lines(format)).await.map(AnySource::new)
        }
        SourceSettings::Kafka(settings) => kafka(settings, max_message_bytes),
        SourceSettings::Nats(settings) => nats(settings, max_message_bytes, lease),
        SourceSettings::Amqp(settings) => amqp(settings, max_message_bytes),
    }
}

/// Opens a source once more: it yields what it has now, and then ends. A live reader loses nothing to it.
///
/// # Errors
///
/// Those of [`open`]; `Unsupported`: it cannot be read twice.
pub async fn open_again(
    settings: &SourceSettings,
    max_message_bytes: u64,
    lease: Duration,
    since: Option<Timestamp>,
) -> Result<AnySource> {
    match settings {
        SourceSettings::File { .. } => open(settings, max_message_bytes, lease).await,
        SourceSettings::Kafka(settings) => kafka_again(settings, max_message_bytes, since),
        SourceSettings::Nats(settings) => nats_again(settings, max_message_bytes, lease, since),
        SourceSettings::Stdin { .. } | SourceSettings::Amqp(_) => {
            let message = format!(
                "{settings}: only files, Kafka topics and NATS streams are read again here; put the messages \
                 into a file, a line each, and name it with --from FILE"
            );
            Err(Error::new(ErrorKind::Unsupported, message))
        }
    }
}

/// Asks the broker how long a message can come again; returns nothing if there is no broker. A limit that the
/// broker does not report is as long as the settings declare.
///
/// # Errors
///
/// Those of [`open`]; `Unavailable` if the broker is away.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn reach(settings: &SourceSettings, lease: Duration) -> Result<Option<Reach>> {
    let mut reach = match settings {
        SourceSettings::File { .. } | SourceSettings::Stdin { .. } => return Ok(None),
        SourceSettings::Kafka(settings) => kafka_reach(settings).await?,
        SourceSettings::Nats(settings) => nats_reach(settings, lease).await?,
        SourceSettings::Amqp(settings) => amqp_reach(settings).await?,
    };
    if let Some(retention) = settings.retention() {
        let declared = Horizon::Within(retention);
        let mut is_taken = false;
        for horizon in [&mut reach.redelivery, &mut reach.replay] {
            if *horizon == Horizon::Unknown {
                *horizon = declared;
                is_taken = true;
            }
        }
        let meaning = if is_taken {
            "declared; nobody could read it"
        } else {
            "declared, and not taken: the broker tells"
        };
        reach.fact("source.retention", spelled(retention), meaning);
    }
    Ok(Some(reach))
}

#[cfg(feature = "kafka")]
pub(super) fn kafka_options(settings: &KafkaSettings) -> semel_broker_kafka::Options {
    let (brokers, topic, group) = (&settings.brokers, &settings.topic, &settings.group);
    let mut options = semel_broker_kafka::Options::new(brokers, topic, group);
    options.properties = properties(&settings.properties);
    options.span = settings.span;
    options.drain = settings.drain;
    options
}

/// Settings of librdkafka in the form that its adapter takes.
#[cfg(feature = "kafka")]
pub(super) fn properties(settings: &[(String, String)]) -> Vec<(Box<str>, Box<str>)> {
    let settings = settings.iter();
    settings
        .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
        .collect()
}

#[cfg(feature = "kafka")]
async fn kafka_reach(settings: &KafkaSettings) -> Result<Reach> {
    semel_broker_kafka::inspect(&kafka_options(settings)).await
}

#[cfg(feature = "nats")]
async fn nats_reach(settings: &NatsSettings, lease: Duration) -> Result<Reach> {
    semel_broker_nats::inspect(&nats_options(settings, lease)).await
}

#[cfg(feature = "amqp")]
async fn amqp_reach(settings: &AmqpSettings) -> Result<Reach> {
    semel_broker_amqp::inspect(&amqp_options(settings)).await
}

#[cfg(feature = "kafka")]
fn kafka(settings: &KafkaSettings, max_message_bytes: usize) -> Result<AnySource> {
    let mut options = kafka_options(settings);
    options.max_message_bytes = max_message_bytes;
    semel_broker_kafka::KafkaSource::new(options).map(AnySource::new)
}

#[cfg(feature = "kafka")]
fn kafka_again(
    settings: &KafkaSettings,
    max_message_bytes: u64,
    since: Option<Timestamp>,
) -> Result<AnySource> {
    let mut options = kafka_options(settings);
    options.max_message_bytes = usize::try_from(max_message_bytes).unwrap_or(usize::MAX);
    semel_broker_kafka::rescan(options, since).map(AnySource::new)
}

#[cfg(feature = "nats")]
fn nats(settings: &NatsSettings, max_message_bytes: usize, lease: Duration) -> Result<AnySource> {
    let mut options = nats_options(settings, lease);
    options.max_message_bytes = max_message_bytes;
    semel_broker_nats::NatsSource::new(options).map(AnySource::new)
}

#[cfg(feature = "nats")]
fn nats_again(
    settings: &NatsSettings,
    max_message_bytes: u64,
    lease: Duration,
    since: Option<Timestamp>,
) -> Result<AnySource> {
    let mut options = nats_options(settings, lease);
    options.max_message_bytes = usize::try_from(max_message_bytes).unwrap_or(usize::MAX);
    semel_broker_nats::rescan(options, since).map(AnySource::new)
}

#[cfg(feature = "nats")]
fn nats_options(settings: &NatsSettings, lease: Duration) -> semel_broker_nats::Options {
    let NatsSettings {
        url,
        stream,
        consumer,
        subject,
        credentials,
        max_ack_pending,
        tls,
        retention: _,
    } = settings;
    let mut options = semel_broker_nats::Options::new(url, stream, consumer);
    options.filter_subject.clone_from(subject);
    options.credentials_file.clone_from(credentials);
    options.max_ack_pending = *max_ack_pending;
    options.tls.clone_from(tls);
    options.lease = lease.min(options.lease);
    options
}

#[cfg(feature = "amqp")]
fn amqp(settings: &AmqpSettings, max_message_bytes: usize) -> Result<AnySource> {
    let mut options = amqp_options(settings);
    options.max_message_bytes = max_message_bytes;
    semel_broker_amqp::AmqpSource::new(options).map(AnySource::new)
}

#[cfg(feature = "amqp")]
fn amqp_options(settings: &AmqpSettings) -> semel_broker_amqp::Options {
    let mut options = semel_broker_amqp::Options::new(&settings.url, &settings.queue);
    options.prefetch = settings.prefetch;
    options.tls.clone_from(&settings.tls);
    options
}

#[cfg(not(feature = "kafka"))]
fn kafka(_: &KafkaSettings, _: usize) -> Result<AnySource> {
    Err(not_built_in("kafka"))
}

#[cfg(not(feature = "kafka"))]
fn kafka_again(_: &KafkaSettings, _: u64, _: Option<Timestamp>) -> Result<AnySource> {
    Err(not_built_in("kafka"))
}

#[cfg(not(feature = "nats"))]
fn nats(_: &NatsSettings, _: usize, _: Duration) -> Result<AnySource> {
    Err(not_built_in("nats"))
}

#[cfg(not(feature = "nats"))]
fn nats_again(_: &NatsSettings, _: u64, _: Duration, _: Option<Timestamp>) -> Result<AnySource> {
    Err(not_built_in("nats"))
}

#[cfg(not(feature = "amqp"))]
fn amqp(_: &AmqpSettings, _: usize) -> Result<AnySource> {
    Err(not_built_in("amqp"))
}

#[cfg(not(feature = "kafka"))]
fn kafka_reach(_: &KafkaSettings) -> Ready<Result<Reach>> {
    ready(Err(not_built_in("kafka")))
}

#[cfg(not(feature = "nats"))]
fn nats_reach(_: &NatsSettings, _: Duration) -> Ready<Result<Reach>> {
    ready(Err(not_built_in("nats")))
}

#[cfg(not(feature = "amqp"))]
fn amqp_reach(_: &AmqpSettings) -> Ready<Result<Reach>> {
    ready(Err(not_built_in("amqp")))
}

#[cfg(not(all(feature = "kafka", feature = "nats", feature = "amqp")))]
pub(super) fn not_built_in(kind: &str) -> semel_core::Error {
    let message = format!(
        "sources of kind {kind} are not built into this program; build it with --features {kind}"
    );
    semel_core::Error::new(semel_core::ErrorKind::Unsupported, message)
}
