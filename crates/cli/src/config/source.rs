//! Where messages come from: `[pipelines.NAME.source]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_broker_file::Format;
use semel_tls::Tls;

use super::fields::Fields;
use super::node::Node;
use super::paths;
use super::suggest::suggestion;
use super::tls;
use crate::secret::masked;

/// Where messages come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceSettings {
    /// A file, read from its start.
    File { path: PathBuf, format: Format },
    /// Standard input.
    Stdin { format: Format },
    /// A Kafka topic.
    Kafka(KafkaSettings),
    /// A NATS JetStream stream.
    Nats(NatsSettings),
    /// A RabbitMQ queue.
    Amqp(AmqpSettings),
}

/// A member of a consumer group.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct KafkaSettings {
    pub(crate) brokers: String,
    pub(crate) topic: String,
    pub(crate) group: String,
    /// librdkafka's own settings; some are secrets.
    pub(crate) properties: Vec<(String, String)>,
    pub(crate) span: u32,
    pub(crate) drain: Duration,
    /// How long the broker keeps a message, where it does not say.
    pub(crate) retention: Option<Duration>,
}

/// A durable consumer.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct NatsSettings {
    /// May hold a password.
    pub(crate) url: String,
    pub(crate) stream: String,
    pub(crate) consumer: String,
    pub(crate) subject: Option<String>,
    pub(crate) credentials: Option<PathBuf>,
    pub(crate) max_ack_pending: u32,
    pub(crate) tls: Tls,
    /// As of Kafka.
    pub(crate) retention: Option<Duration>,
}

/// A consumer of a queue.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AmqpSettings {
    /// May hold a password.
    pub(crate) url: String,
    pub(crate) tls: Tls,
    pub(crate) queue: String,
    pub(crate) prefetch: u16,
    /// As of Kafka.
    pub(crate) retention: Option<Duration>,
}

impl SourceSettings {
    /// Whether somebody hands messages over again that were not acknowledged.
    pub(crate) const fn has_broker(&self) -> bool {
        match self {
            Self::File { .. } | Self::Stdin { .. } => false,
            Self::Kafka(_) | Self::Nats(_) | Self::Amqp(_) => true,
        }
    }

    /// How long its broker keeps a message, as far as somebody has said so.
    pub(crate) const fn retention(&self) -> Option<Duration> {
        match self {
            Self::File { .. } | Self::Stdin { .. } => None,
            Self::Kafka(it) => it.retention,
            Self::Nats(it) => it.retention,
            Self::Amqp(it) => it.retention,
        }
    }
}

/// As people are told of it.
impl fmt::Display for SourceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "file {}", path.display()),
            Self::Stdin { .. } => f.write_str("stdin"),
            Self::Kafka(it) => write!(f, "kafka {}, group {}", it.topic, it.group),
            Self::Nats(it) => write!(f, "nats {}, consumer {}", it.stream, it.consumer),
            Self::Amqp(it) => write!(f, "amqp {}", it.queue),
        }
    }
}

impl fmt::Debug for KafkaSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, group, .. } = self;
        write!(f, "{topic}, group {group}, at {}", self.brokers)
    }
}

impl fmt::Debug for NatsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.stream, masked(&self.url))
    }
}

impl fmt::Debug for AmqpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.queue, masked(&self.url))
    }
}

pub(super) fn read(fields: &mut Fields<'_>) -> Option<SourceSettings> {
    let mut source = fields.required_sub("source")?;
    let read = match source.required_text("kind") {
        Some("file") => {
            let format = format(&mut source);
            let path = source.required_path("path");
            path.map(|path| SourceSettings::File { path, format })
        }
        Some("stdin") => Some(SourceSettings::Stdin {
            format: format(&mut source),
        }),
        Some("kafka") => kafka(&mut source).map(SourceSettings::Kafka),
        Some("nats") => nats(&mut source).map(SourceSettings::Nats),
        Some("amqp") => amqp(&mut source).map(SourceSettings::Amqp),
        Some(kind @ ("sqs" | "redis-streams" | "mqtt" | "postgres" | "webhook")) => {
            if let Some(node) = source.node("kind") {
                let message = format!("`{kind}` sources are not supported by this release");
                source.unsupported("kind", node, message);
            }
            return None;
        }
        Some(kind) => {
            let hint = suggestion(kind, &["file", "stdin", "kafka", "nats", "amqp"]);
            let message = format!("`{kind}` is no kind of source; {hint}");
            if let Some(node) = source.node("kind") {
                source.fault("kind", node, message);
            }
            return None;
        }
        None => return None,
    };
    source.finish();
    read
}

fn format(source: &mut Fields<'_>) -> Format {
    let lines = [("lines", Format::Lines)];
    source.choice_or("format", ("ndjson", Format::Ndjson), &lines)
}

fn kafka(source: &mut Fields<'_>) -> Option<KafkaSettings> {
    let brokers = source.required_text("brokers").map(str::to_owned);
    let topic = source.required_text("topic").map(str::to_owned);
    let group = source.required_text("group").map(str::to_owned);
    let span = source.count_or("span", 10_000_000, 50_000);
    let drain = source.duration_or("drain", Duration::from_secs(5));
    let retention = source.duration("retention");
    let properties = properties(source);
    Some(KafkaSettings {
        brokers: brokers?,
        topic: topic?,
        group: group?,
        properties,
        span,
        drain,
        retention,
    })
}

/// Settings of librdkafka by their own names.
pub(super) fn properties(fields: &mut Fields<'_>) -> Vec<(String, String)> {
    let Some(table) = fields.optional_sub("properties") else {
        return Vec::new();
    };
    for (name, node) in table.entries() {
        if is_secret(name) {
            table.show_entry(name, Some(node), "***".to_owned());
        } else if let Some(text) = node.value.as_text() {
            table.show_entry(name, Some(node), property(name, node, text));
        }
    }
    let read = table.text_entries(str::parse::<String>).into_iter();
    let resolved = read.map(|(name, text)| {
        let node = table.entries().find(|(known, _)| **known == name);
        let text = node.map_or(text.clone(), |(_, node)| property(&name, node, &text));
        (name, text)
    });
    resolved.collect()
}

/// A property's value; that of `ssl.ca.location` and the like is a path.
fn property(name: &str, node: &Node, text: &str) -> String {
    let is_file = name.ends_with(".location") && text != "probe";
    if !is_file {
        return text.to_owned();
    }
    let path = paths::from(node.origin.folder(), Path::new(text));
    path.to_string_lossy().into_owned()
}

/// Whether a property of librdkafka may be one that nobody should see.
fn is_secret(name: &str) -> bool {
    [
        "password", "secret", "key", "jaas", "token", "config", "pem",
    ]
    .iter()
    .any(|part| name.contains(part))
}

fn nats(source: &mut Fields<'_>) -> Option<NatsSettings> {
    let url = url(source);
    let stream = source.required_text("stream").map(str::to_owned);
    let consumer = source.required_text("consumer").map(str::to_owned);
    let subject = source.text("subject").map(str::to_owned);
    let credentials = source.path("credentials");
    // Of all workers together, each of which asks for the next batch while one is worked on.
    let max_ack_pending = source.count_or("max_ack_pending", 1_000_000, 4_000);
    Some(NatsSettings {
        url: url?,
        stream: stream?,
        consumer: consumer?,
        subject,
        credentials,
        max_ack_pending,
        tls: tls::read(source),
        retention: source.duration("retention"),
    })
}

fn amqp(source: &mut Fields<'_>) -> Option<AmqpSettings> {
    let url = url(source);
    let queue = source.required_text("queue").map(str::to_owned);
    let prefetch = source.count_or("prefetch", u16::MAX.into(), 4_000);
    Some(AmqpSettings {
        url: url?,
        tls: tls::read(source),
        queue: queue?,
        prefetch: u16::try_from(prefetch).unwrap_or(u16::MAX),
        retention: source.duration("retention"),
    })
}

/// `url`, or the file that holds it.
pub(super) fn url(source: &mut Fields<'_>) -> Option<String> {
    let url = source.text("url").map(str::to_owned);
    let from_file = source.secret_file("url_file", "url", str::parse::<String>);
    match (source.node("url"), source.node("url_file")) {
        (Some(node), Some(_)) => {
            source.fault("url", node, "either `url` or `url_file`, not both");
        }
        (None, None) => source.missing("url"),
        (Some(_), None) | (None, Some(_)) => {}
    }
    url.or(from_file)
}
