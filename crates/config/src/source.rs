//! `[pipelines.NAME.source]`: the source of messages.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semel_broker_file::Format;
use semel_broker_webhook::GateOptions;
use semel_tls::Tls;

use super::fields::Fields;
use super::ingest::{self, IngestSettings};
use super::listener::Door;
use super::node::Node;
use super::paths;
use super::secret::masked;
use super::sequence_gate;
use super::server::{KAFKA_PORT, NATS_PORT, amqp_port, server_of};
use super::suggestion::suggestion;
use super::tls;
use super::webhook::{self, WebhookSettings};

/// The source of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSettings {
    /// A file, read from its start.
    File {
        /// The file.
        path: PathBuf,
        /// The format of its messages.
        format: Format,
    },
    /// Standard input.
    Stdin {
        /// The format of its messages.
        format: Format,
    },
    /// A Kafka topic.
    Kafka(KafkaSettings),
    /// A NATS JetStream stream.
    Nats(NatsSettings),
    /// A RabbitMQ queue.
    Amqp(AmqpSettings),
    /// A path that a provider sends its webhooks to.
    Webhook(WebhookSettings),
    /// A path that producers send messages to.
    Ingest(IngestSettings),
}

/// A member of a consumer group.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSettings {
    /// `host:port`, several with commas between them.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// The consumer group.
    pub group: String,
    /// librdkafka's own settings; some are secrets.
    pub properties: Vec<(String, String)>,
    /// The greatest number of records of a partition between the oldest unfinished one and the newest that was
    /// read.
    pub span: u32,
    /// The time that work in progress has while a partition moves to another worker.
    pub drain: Duration,
    /// The time for which the broker keeps a message, if the broker does not tell.
    pub retention: Option<Duration>,
}

/// A durable consumer.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsSettings {
    /// The URL of the server; may hold a password.
    pub url: String,
    /// The stream.
    pub stream: String,
    /// The durable consumer.
    pub consumer: String,
    /// The only subject from which messages are taken; none for all.
    pub subject: Option<String>,
    /// A file of credentials, instead of a user and a password.
    pub credentials: Option<PathBuf>,
    /// The greatest number of messages that all workers of the consumer have in hand at once.
    pub max_ack_pending: u32,
    /// The encryption of the connection.
    pub tls: Tls,
    /// The time for which the stream keeps a message; see Kafka's.
    pub retention: Option<Duration>,
}

/// A consumer of a queue.
#[derive(Clone, PartialEq, Eq)]
pub struct AmqpSettings {
    /// The URL of the server; may hold a password.
    pub url: String,
    /// The encryption of the connection.
    pub tls: Tls,
    /// The queue, which must exist.
    pub queue: String,
    /// The greatest number of messages that the broker hands over before their acknowledgement.
    pub prefetch: u16,
    /// The time for which the queue keeps a message; see Kafka's.
    pub retention: Option<Duration>,
}

impl KafkaSettings {
    /// Returns the host and the port of the broker; nothing if there are several.
    pub fn server(&self) -> Option<(String, u16)> {
        server_of(&self.brokers, KAFKA_PORT)
    }
}

impl SourceSettings {
    /// Tells whether the source has a broker, which hands a message over again if it was not acknowledged. The provider
    /// of webhooks is one, and so is the journal that the messages of producers are kept in.
    pub const fn has_broker(&self) -> bool {
        match self {
            Self::File { .. } | Self::Stdin { .. } => false,
            Self::Kafka(_) | Self::Nats(_) | Self::Amqp(_) | Self::Webhook(_) | Self::Ingest(_) => {
                true
            }
        }
    }

    /// Returns the kind of its broker, which is also the name of the feature; nothing if it is reached without a driver.
    pub const fn broker(&self) -> Option<&'static str> {
        match self {
            Self::File { .. } | Self::Stdin { .. } | Self::Webhook(_) | Self::Ingest(_) => None,
            Self::Kafka(_) => Some("kafka"),
            Self::Nats(_) => Some("nats"),
            Self::Amqp(_) => Some("amqp"),
        }
    }

    /// Returns what tells its server from others, as [`Destination`](semel_worker::effect::publish::Destination) has it of
    /// targets: the kind, the host and the port. None without a server, or if it is not certain which it is.
    pub fn server(&self) -> Option<String> {
        let (kind, server) = match self {
            Self::Kafka(it) => ("kafka", it.server()),
            Self::Nats(it) => ("nats", server_of(&it.url, NATS_PORT)),
            Self::Amqp(it) => ("rabbitmq", server_of(&it.url, amqp_port(&it.url))),
            Self::File { .. } | Self::Stdin { .. } | Self::Webhook(_) | Self::Ingest(_) => {
                return None;
            }
        };
        server.map(|(host, port)| format!("{kind} {host}:{port}"))
    }

    /// Returns the place that it listens at, if it is one that requests come to.
    pub fn door(&self) -> Option<Door<'_>> {
        match self {
            Self::Webhook(it) => Some(Door {
                entrance: it.listen.into(),
                path: &it.path,
                tls: it.tls.as_ref(),
                can_borrow: false,
            }),
            Self::Ingest(it) => Some(Door {
                entrance: it.entrance,
                path: &it.path,
                tls: it.tls.as_ref(),
                can_borrow: true,
            }),
            Self::File { .. }
            | Self::Stdin { .. }
            | Self::Kafka(_)
            | Self::Nats(_)
            | Self::Amqp(_) => None,
        }
    }

    /// Returns the time for which its broker keeps a message, if the configuration declares it.
    pub const fn retention(&self) -> Option<Duration> {
        match self {
            Self::File { .. } | Self::Stdin { .. } => None,
            Self::Kafka(it) => it.retention,
            Self::Nats(it) => it.retention,
            Self::Amqp(it) => it.retention,
            Self::Webhook(it) => it.retention,
            Self::Ingest(it) => it.retention,
        }
    }
}

/// Shows the source as messages to people name it.
impl fmt::Display for SourceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => write!(f, "file {}", path.display()),
            Self::Stdin { .. } => f.write_str("stdin"),
            Self::Kafka(it) => write!(f, "kafka {}, group {}", it.topic, it.group),
            Self::Nats(it) => write!(f, "nats {}, consumer {}", it.stream, it.consumer),
            Self::Amqp(it) => write!(f, "amqp {}", it.queue),
            Self::Webhook(it) => write!(f, "webhook {it}"),
            Self::Ingest(it) => write!(f, "ingest {it}"),
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

/// The kinds, as they are written.
const KINDS: [&str; 7] = [
    "file", "stdin", "kafka", "nats", "amqp", "webhook", "ingest",
];

/// Reads the source, and the sequence gate before its messages, if there is one.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<(SourceSettings, Option<GateOptions>)> {
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
        Some("webhook") => webhook::read(&mut source).map(SourceSettings::Webhook),
        Some("ingest") => ingest::read(&mut source).map(SourceSettings::Ingest),
        Some(kind @ ("sqs" | "redis-streams" | "mqtt" | "postgres")) => {
            if let Some(node) = source.node("kind") {
                let message = format!("`{kind}` sources are not supported by this release");
                source.unsupported("kind", node, message);
            }
            return None;
        }
        Some(kind) => {
            let hint = suggestion(kind, &KINDS);
            let message = format!("`{kind}` is no kind of source; {hint}");
            if let Some(node) = source.node("kind") {
                source.fault("kind", node, message);
            }
            return None;
        }
        None => return None,
    };
    let gate = match &read {
        // The one that it has itself is at its path, and a webhook's provider numbers nothing.
        Some(SourceSettings::Ingest(_) | SourceSettings::Webhook(_)) | None => None,
        Some(SourceSettings::Kafka(_)) => {
            sequence_gate::read(&mut source, Some("`span`, for each partition"))
        }
        Some(SourceSettings::Nats(_)) => {
            let bound = "the `max_ack_pending` of the consumer";
            sequence_gate::read(&mut source, Some(bound))
        }
        Some(SourceSettings::Amqp(_)) => sequence_gate::read(&mut source, Some("`prefetch`")),
        Some(SourceSettings::File { .. } | SourceSettings::Stdin { .. }) => {
            sequence_gate::read(&mut source, None)
        }
    };
    source.finish();
    read.map(|read| (read, gate))
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

/// Reads settings of librdkafka by their own names.
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

/// Returns a property's value; that of `ssl.ca.location` and similar properties is a path.
fn property(name: &str, node: &Node, text: &str) -> String {
    let is_file = name.ends_with(".location") && text != "probe";
    if !is_file {
        return text.to_owned();
    }
    let path = paths::from(node.origin.folder(), Path::new(text));
    path.to_string_lossy().into_owned()
}

/// Tells whether a property of librdkafka may be a secret.
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
    // The limit for all workers together; each requests the next batch while it works on one.
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

/// Reads `url`, or the file that holds it.
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
