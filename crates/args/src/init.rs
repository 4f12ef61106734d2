//! `semel init`.

use std::path::PathBuf;

use clap::Args;
use semel_config::starter::{EffectKind, Level, SourceKind, StoreKind};

use super::Format;
use super::value::one_of;

#[derive(Debug, Args)]
pub struct Init {
    /// The folder to write into; made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// The source of the messages
    #[arg(long, value_parser = one_of(SOURCES), value_name = "KIND", default_value = "file")]
    pub source: SourceKind,
    /// The store that remembers the operations [default: embedded, or sqlite for the effect sql]
    #[arg(long, value_parser = one_of(STORES), value_name = "KIND")]
    pub store: Option<StoreKind>,
    /// The effect that happens once per key [default: file, or exec for the store redis]
    #[arg(long, value_parser = one_of(EFFECTS), value_name = "KIND")]
    pub effect: Option<EffectKind>,
    /// A reverse proxy that gives an API idempotency keys, in place of a pipeline
    #[arg(long, conflicts_with_all = ["source", "effect", "level"])]
    pub gateway: bool,
    /// The extent of the configuration
    #[arg(long, value_parser = one_of(LEVELS), value_name = "LEVEL", default_value = "beginner")]
    pub level: Level,
    #[command(flatten)]
    pub format: Format,
}

/// The source of messages, by its word and with its help.
pub const SOURCES: &[(&str, &str, SourceKind)] = &[
    ("file", "A file", SourceKind::File),
    ("stdin", "Standard input", SourceKind::Stdin),
    ("nats", "A NATS JetStream stream", SourceKind::Nats),
    ("kafka", "A Kafka topic", SourceKind::Kafka),
    ("amqp", "A RabbitMQ queue", SourceKind::Amqp),
    (
        "webhook",
        "Requests of a provider, by HTTP",
        SourceKind::Webhook,
    ),
];

/// The store of operations, by its word and with its help.
pub const STORES: &[(&str, &str, StoreKind)] = &[
    (
        "embedded",
        "A folder of its own, for one process",
        StoreKind::Embedded,
    ),
    ("sqlite", "A database file", StoreKind::Sqlite),
    (
        "postgres",
        "A schema of a PostgreSQL database, for any number of workers",
        StoreKind::Postgres,
    ),
    (
        "mysql",
        "Tables of a MySQL or MariaDB database, for any number of workers",
        StoreKind::Mysql,
    ),
    (
        "redis",
        "A Redis server or cluster, for any number of workers and short windows",
        StoreKind::Redis,
    ),
];

/// The effect that happens once per key, by its word and with its help.
pub const EFFECTS: &[(&str, &str, EffectKind)] = &[
    (
        "sql",
        "A statement in the store's own transaction",
        EffectKind::Sql,
    ),
    ("file", "A line in an output file", EffectKind::File),
    ("http", "An HTTP call", EffectKind::Http),
    ("exec", "A command per message", EffectKind::Exec),
    ("jsonl", "One command for all messages", EffectKind::Jsonl),
    ("stdout", "A line on standard output", EffectKind::Stdout),
    (
        "nats",
        "A message on a NATS subject that a stream takes in",
        EffectKind::Nats,
    ),
    ("kafka", "A record in a Kafka topic", EffectKind::Kafka),
    ("amqp", "A message in a RabbitMQ queue", EffectKind::Amqp),
];

/// The part of the settings that is written down, by its word and with its help.
pub const LEVELS: &[(&str, &str, Level)] = &[
    (
        "beginner",
        "The least that it takes to run: a short window, one process",
        Level::Beginner,
    ),
    (
        "intermediate",
        "Keys per tenant, a week's window, an age gate, retries",
        Level::Intermediate,
    ),
    (
        "advanced",
        "Leases, back-pressure and everything that is worth tuning",
        Level::Advanced,
    ),
];
