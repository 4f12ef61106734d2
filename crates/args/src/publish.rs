//! `semel publish`.

use std::path::PathBuf;

use clap::Args;
use semel_core::producer::ProducerName;
use semel_core::select::Selector;

use super::Format;

#[derive(Debug, Args)]
pub struct Publish {
    /// The file of the rows, one message a line; standard input without it, or with -
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,
    /// The broker: kafka://HOST:PORT, nats://HOST:PORT or amqp://USER:PASSWORD@HOST:PORT/VHOST
    #[arg(
        long,
        value_name = "URL",
        env = "SEMEL_PUBLISH_TO",
        hide_env_values = true
    )]
    pub to: String,
    /// The place on the broker: a topic, a subject or a queue
    #[arg(long, value_name = "PLACE")]
    pub stream: String,
    /// The name of the producer in the store [default: the stream]
    #[arg(long, value_name = "NAME")]
    pub producer: Option<ProducerName>,
    /// The value that keeps messages in order: `json:/POINTER`, `field:N`, `line`; on Kafka, the key of the record
    #[arg(long, value_name = "SELECTOR")]
    pub order: Option<Selector>,
    /// The id of a message, that readers know it by; without it, ids are made once and kept
    #[arg(long, value_name = "SELECTOR")]
    pub id: Option<Selector>,
    /// Read and check everything, and publish nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Take the store from this configuration
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub config: Option<PathBuf>,
    /// The store that keeps the producer; else that of `SEMEL__STORE__URL` [default: embedded:./.semel-publish]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    #[command(flatten)]
    pub format: Format,
}
