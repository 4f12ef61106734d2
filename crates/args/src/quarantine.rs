//! `semel quarantine`.

use clap::{Args, Subcommand};
use semel_core::Key;

use super::dead_letters::Matching;
use super::value::key;
use super::{Audit, Confirm, Format, Listing, Rerun, Within};

#[derive(Debug, Subcommand)]
pub enum Quarantine {
    /// List the messages that were set aside unrun, of every pipeline unless one is named
    #[command(after_help = "Example:\n  semel quarantine list --output jsonl")]
    List(List),
    /// Print messages in quarantine with their headers and payloads
    #[command(after_help = "Examples:\n  semel quarantine show 9f3a\n  \
                            semel quarantine show 9f3a --payload > message.json")]
    Show(Show),
    /// Run messages through their pipelines as configured now, without the age gate; without --yes,
    /// foretell it
    #[command(after_help = "Examples:\n  semel quarantine release 9f3a --yes\n  \
                            semel quarantine release --all --reason-like key-missing --yes\n  \
                            semel quarantine release 9f3a --key order-7b --yes")]
    Release(Rerun<Release>),
    /// Drop messages from quarantine: they are gone
    #[command(
        after_help = "Example:\n  semel quarantine drop --all --older-than 90d --reason 'retention' --yes"
    )]
    Drop(Drop),
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub listing: Listing,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The beginning of an id that no other has, four digits at least; or a key
    #[arg(value_name = "ID|KEY", required = true)]
    pub names: Vec<String>,
    /// Print the bytes of the payload and nothing else; of one message only
    #[arg(long)]
    pub payload: bool,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Drop {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
}

/// Which messages, and the key under which one runs.
#[derive(Debug, Args)]
pub struct Release {
    #[command(flatten)]
    pub which: Which,
    /// Run the one message as an operation of its own, under this key: a string is itself, a number is json:1
    #[arg(long, value_name = "KEY", conflicts_with = "all", value_parser = key)]
    pub key: Option<Key>,
}

/// Which messages.
#[derive(Debug, Args)]
pub struct Which {
    /// The beginning of an id that no other has, four digits at least; or a key
    #[arg(value_name = "ID|KEY", conflicts_with = "all")]
    pub names: Vec<String>,
    #[command(flatten)]
    pub matching: Matching,
}
