//! `semel init`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Format;

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The folder to write into; made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// The source of the messages
    #[arg(long, value_enum, value_name = "KIND", default_value_t = SourceKind::File)]
    pub(crate) source: SourceKind,
    /// The store that remembers the operations [default: embedded, or sqlite for the effect sql]
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) store: Option<StoreKind>,
    /// The effect that happens once per key [default: file, or exec for the store redis]
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) effect: Option<EffectKind>,
    /// A reverse proxy that gives an API idempotency keys, in place of a pipeline
    #[arg(long, conflicts_with_all = ["source", "effect", "level"])]
    pub(crate) gateway: bool,
    /// The extent of the configuration
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Level::Beginner)]
    pub(crate) level: Level,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceKind {
    /// A file
    File,
    /// Standard input
    Stdin,
    /// A NATS JetStream stream
    Nats,
    /// A Kafka topic
    Kafka,
    /// A RabbitMQ queue
    Amqp,
    /// Requests of a provider, by HTTP
    Webhook,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// A folder of its own, for one process
    Embedded,
    /// A database file
    Sqlite,
    /// A schema of a PostgreSQL database, for any number of workers
    Postgres,
    /// Tables of a MySQL or MariaDB database, for any number of workers
    Mysql,
    /// A Redis server or cluster, for any number of workers and short windows
    Redis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EffectKind {
    /// A statement in the store's own transaction
    Sql,
    /// A line in an output file
    File,
    /// An HTTP call
    Http,
    /// A command per message
    Exec,
    /// One command for all messages
    Jsonl,
    /// A line on standard output
    Stdout,
    /// A message on a NATS subject that a stream takes in
    Nats,
    /// A record in a Kafka topic
    Kafka,
    /// A message in a RabbitMQ queue
    Amqp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Level {
    /// The least that it takes to run: a short window, one process
    Beginner,
    /// Keys per tenant, a week's window, an age gate, retries
    Intermediate,
    /// Leases, back-pressure and everything that is worth tuning
    Advanced,
}
