//! `semel store`.

use std::time::Duration;

use clap::{Args, Subcommand};
use semel_core::Key;

use super::transfer::{Export, Import};
use super::value::key;
use super::{Audit, Confirm, Format, Listing, Place, Within};

#[derive(Debug, Subcommand)]
pub enum Store {
    /// Count what the store holds, and say what it can promise
    #[command(after_help = "Example:\n  semel store stats --store embedded:./semel-data")]
    Stats(Whole),
    /// Remove the records whose window has passed, now; without --yes, say how many
    #[command(after_help = "Example:\n  semel store sweep --yes")]
    Sweep(Sweep),
    /// Bring the store to the format of this version; on a server, make it where there is none
    #[command(
        after_help = "Examples:\n  semel store migrate --store sqlite:./semel.db\n  \
                      semel store migrate --config semel.toml --yes"
    )]
    Migrate(Migrate),
    /// List who changed what and why, oldest first
    #[command(after_help = "Example:\n  semel store audit --since 24h")]
    Audit(Trail),
    /// Write all that the store holds as text, to be imported into any store
    #[command(after_help = "Examples:\n  semel store export --to backup.jsonl\n  \
                            semel store export | zstd > backup.jsonl.zst\n  \
                            semel store export --admin http://127.0.0.1:9464 --reason INC-7 --to now.jsonl")]
    Export(Export),
    /// Add what an export holds and the store does not; what is there stays as it is
    #[command(
        after_help = "Examples:\n  semel store import backup.jsonl --store sqlite:./semel.db --yes\n  \
                      zstd -dc backup.jsonl.zst | semel store import - --yes"
    )]
    Import(Import),
}

/// The store as a whole.
#[derive(Debug, Args)]
pub struct Whole {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Sweep {
    #[command(flatten)]
    pub whole: Whole,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
}

#[derive(Debug, Args)]
pub struct Migrate {
    #[command(flatten)]
    pub whole: Whole,
    #[command(flatten)]
    pub confirm: Confirm,
}

#[derive(Debug, Args)]
pub struct Trail {
    /// Only what happened within this time
    #[arg(long, value_name = "DURATION", value_parser = semel_core::units::duration)]
    pub since: Option<Duration>,
    /// Only what concerns this key
    #[arg(long, value_name = "KEY", value_parser = key)]
    pub key: Option<Key>,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub listing: Listing,
}
