//! Kafka.

use semel_broker_kafka::{Backlog, KafkaSink, KafkaSource, Options, SinkOptions, inspect, rescan};
use semel_config::{KafkaSettings, SinkPlace, SinkSettings, SourceSettings};
use semel_core::Result;
use semel_core::port::sink::AnySink;
use semel_core::port::source::AnySource;
use semel_worker::effect::publish::Facts;

use super::{Answer, Broker, Limits, other_kind};

pub(super) static BROKER: Broker = Broker {
    name: "kafka",
    open: |settings, limits| KafkaSource::new(limited(settings, limits)?).map(AnySource::new),
    rescan: Some(|settings, limits, since| {
        rescan(limited(settings, limits)?, since).map(AnySource::new)
    }),
    horizons: |settings, _| Box::pin(async move { inspect(&options(of(settings)?)).await }),
    backlog: |settings| Ok(Box::new(Backlog::new(options(of(settings)?)))),
    sink: |settings| sink(settings).map(AnySink::new),
    inspect: |settings| {
        Box::pin(async move {
            sink(settings)?.connect().await?;
            Ok(Facts::default())
        })
    },
};

impl super::Backlog for Backlog {
    fn count(&mut self) -> Answer<'_, Option<u64>> {
        Box::pin(self.count())
    }
}

fn of(settings: &SourceSettings) -> Result<&KafkaSettings> {
    let SourceSettings::Kafka(settings) = settings else {
        return Err(other_kind());
    };
    Ok(settings)
}

fn limited(settings: &SourceSettings, limits: Limits) -> Result<Options> {
    let mut options = options(of(settings)?);
    options.max_message_bytes = limits.max_message_bytes;
    Ok(options)
}

/// The options of a source.
pub(crate) fn options(settings: &KafkaSettings) -> Options {
    let (brokers, topic, group) = (&settings.brokers, &settings.topic, &settings.group);
    let mut options = Options::new(brokers, topic, group);
    options.properties = properties(&settings.properties);
    options.span = settings.span;
    options.drain = settings.drain;
    options
}

/// Settings of librdkafka in the form that its adapter takes.
pub(crate) fn properties(settings: &[(String, String)]) -> Vec<(Box<str>, Box<str>)> {
    let settings = settings.iter();
    settings
        .map(|(name, value)| (name.as_str().into(), value.as_str().into()))
        .collect()
}

fn sink(settings: &SinkSettings) -> Result<KafkaSink> {
    let SinkPlace::Kafka {
        brokers,
        topic,
        properties: more,
        has_id_header,
    } = &settings.place
    else {
        return Err(other_kind());
    };
    let mut options = SinkOptions::new(brokers, topic);
    options.has_id_header = *has_id_header;
    options.properties = properties(more);
    options.timeout = settings.timeout;
    KafkaSink::new(options)
}
