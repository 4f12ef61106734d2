//! `semel dead-letters`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use semel_core::Key;

use super::value::key;
use super::{Audit, Confirm, Format, Listing, Rerun, Within};

#[derive(Debug, Subcommand)]
pub enum DeadLetters {
    /// List the messages that were given up, of every pipeline and relay unless one is named
    #[command(after_help = "Example:\n  semel dead-letters list --output jsonl")]
    List(List),
    /// Print dead letters with their headers and payloads
    #[command(after_help = "Examples:\n  semel dead-letters show pay-1\n  \
                            semel dead-letters show pay-1 --payload > message.json")]
    Show(Show),
    /// Run dead letters again through their pipelines as configured now, or let relays try theirs again, each in its place;
    /// without --yes, foretell it
    #[command(after_help = "Examples:\n  semel dead-letters replay pay-1 --yes\n  \
                      semel dead-letters replay --all --reason-like 'HTTP 503' --reason 'provider is back' --yes")]
    Replay(Rerun<DeadWhich>),
    /// Drop dead letters: their messages are gone, their records stay for their windows
    #[command(
        after_help = "Examples:\n  semel dead-letters drop --all --older-than 90d --reason 'retention' --yes\n  \
                      semel dead-letters drop --relay out --all --reason-like 'too large' --reason 'sent by hand' --yes"
    )]
    Drop(Drop),
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub of: OfRelay,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub listing: Listing,
}

#[derive(Debug, Args)]
pub struct Show {
    /// Keys as they are printed: a string is itself, a number is json:1
    #[arg(value_name = "KEY", required = true, value_parser = key)]
    pub keys: Vec<Key>,
    /// Print the bytes of the payload and nothing else; of one key only
    #[arg(long)]
    pub payload: bool,
    #[command(flatten)]
    pub of: OfRelay,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Drop {
    #[command(flatten)]
    pub which: DeadWhich,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
}

/// Which dead letters, of pipelines or of a relay.
#[derive(Debug, Args)]
pub struct DeadWhich {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub of: OfRelay,
}

/// The relay whose dead letters are meant.
#[derive(Debug, Args)]
pub struct OfRelay {
    /// Only this relay, whose dead letters go by the ids of their messages in the outbox
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["pipeline", "tenant", "store"]
    )]
    pub relay: Option<String>,
}

/// Which dead letters, or doubts.
#[derive(Debug, Args)]
pub struct Which {
    /// Keys as they are printed: a string is itself, a number is json:1
    #[arg(
        value_name = "KEY",
        conflicts_with = "all",
        value_parser = key
    )]
    pub keys: Vec<Key>,
    /// Take keys from this file too, one on a line; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub keys_from: Option<PathBuf>,
    #[command(flatten)]
    pub matching: Matching,
}

/// All of them, or all that something is true of.
#[derive(Clone, Debug, Args)]
pub struct Matching {
    /// All there are, of every pipeline unless one is named
    #[arg(long)]
    pub all: bool,
    /// Of all, only those kept for at least so long
    #[arg(
        long,
        value_name = "DURATION",
        requires = "all",
        value_parser = semel_core::units::duration
    )]
    pub older_than: Option<Duration>,
    /// Of all, only those whose reason or error has this in it, in capitals or not
    #[arg(long, value_name = "TEXT", requires = "all")]
    pub reason_like: Option<String>,
}
