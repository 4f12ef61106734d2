//! The files that a configuration begins with: a complete `semel.toml` with a comment on everything that is not obvious,
//! a sample with duplicates, and what stands for the target. Writes none of them.

mod brokers;
mod commands;
mod files;
mod gateway_files;
mod settings_file;

use semel_core::Timestamp;

pub use brokers::{source as source_commands, target as target_commands};
pub use commands::GATEWAY_COMMANDS;
pub use gateway_files::files as gateway_files;

/// A file by its name inside the folder.
#[derive(Clone, Debug)]
pub struct StarterFile {
    /// Its name.
    pub name: &'static str,
    /// All of it.
    pub text: String,
}

/// The choices of the person. Not every store goes with every effect.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The source.
    pub source: SourceKind,
    /// The store.
    pub store: StoreKind,
    /// The effect.
    pub effect: EffectKind,
    /// The part of the settings that is written down.
    pub level: Level,
}

impl Choice {
    /// Returns every file, the configuration last: without it, nothing runs.
    pub fn files(self, now: Timestamp) -> Vec<StarterFile> {
        files::of(self, now)
    }

    /// Returns the text of the configuration.
    pub fn configuration(self) -> String {
        settings_file::text(self)
    }

    /// Returns the commands to type in the folder of the files.
    pub fn commands(self) -> Vec<String> {
        commands::commands(self)
    }
}

/// The source of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// A file.
    File,
    /// Standard input.
    Stdin,
    /// A NATS JetStream stream.
    Nats,
    /// A Kafka topic.
    Kafka,
    /// A RabbitMQ queue.
    Amqp,
    /// Requests of a provider, by HTTP.
    Webhook,
}

/// The store of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// A folder of its own, for one process.
    Embedded,
    /// A database file.
    Sqlite,
    /// A schema of a PostgreSQL database, for any number of workers.
    Postgres,
    /// Tables of a MySQL or MariaDB database, for any number of workers.
    Mysql,
    /// A Redis server or cluster, for any number of workers and short windows.
    Redis,
}

/// The effect that happens once per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectKind {
    /// A statement in the store's own transaction.
    Sql,
    /// A line in an output file.
    File,
    /// An HTTP call.
    Http,
    /// A command per message.
    Exec,
    /// One command for all messages.
    Jsonl,
    /// A line on standard output.
    Stdout,
    /// A message on a NATS subject that a stream takes in.
    Nats,
    /// A record in a Kafka topic.
    Kafka,
    /// A message in a RabbitMQ queue.
    Amqp,
}

/// The part of the settings that is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The least that runs: a short window, one process.
    Beginner,
    /// Keys per tenant, a week's window, an age gate, retries.
    Intermediate,
    /// Leases, back-pressure and everything that is worth tuning.
    Advanced,
}

impl StoreKind {
    /// The place of such a store.
    pub const fn url(self) -> &'static str {
        match self {
            Self::Embedded => "embedded:./semel-data",
            Self::Sqlite => "sqlite:./payments.db",
            Self::Postgres => "postgres://semel@127.0.0.1:5432/semel",
            Self::Mysql => "mysql://semel@127.0.0.1:3306/semel",
            Self::Redis => "redis://127.0.0.1:6379",
        }
    }
}
