//! `semel in-doubt`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use semel_core::Key;

use super::dead_letters::Which;
use super::value::key;
use super::{Audit, Confirm, Format, Listing, Rerun, Within};

#[derive(Debug, Subcommand)]
pub enum InDoubt {
    /// List the keys whose effect nobody knows to have happened
    #[command(after_help = "Example:\n  semel in-doubt list --repeated")]
    List(List),
    /// Print all that is on record of a key in doubt, and the message that is kept for it
    #[command(after_help = "Example:\n  semel in-doubt show pay-1")]
    Show(Show),
    /// Say what became of an effect, after having found out
    #[command(
        after_help = "Examples:\n  semel in-doubt resolve pay-1 --applied --outcome '{\"charge\":\"ch_1\"}' --yes\n  \
                      semel in-doubt resolve pay-1 --not-applied --reason 'not at the provider' --yes\n  \
                      semel in-doubt resolve --all --reason-like 'HTTP 503' --not-applied --yes\n  \
                      semel in-doubt resolve pay-1 pay-2 --abandon --reason 'refunded by hand' --yes"
    )]
    Resolve(Resolve),
    /// Call again under the same key, as long as the target recognises it or a repeat is accepted; without --yes,
    /// foretell it
    #[command(after_help = "Examples:\n  semel in-doubt retry pay-1 --yes\n  \
                      semel in-doubt retry --all --reason 'provider is back' --yes")]
    Retry(Rerun<Which>),
}

#[derive(Debug, Args)]
pub struct List {
    /// Instead, the keys whose effect may have happened more than once, whatever became of them
    #[arg(long)]
    pub repeated: bool,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub listing: Listing,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The key as it is printed: a string is itself, a number is json:1; or its operation id, or the
    /// beginning of it, four digits at least
    #[arg(value_name = "KEY", value_parser = key)]
    pub key: Key,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Resolve {
    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub verdict: Verdict,
    /// The outcome that duplicates get from now on [default: an empty one]
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with_all = ["not_applied", "abandon", "outcome_file"]
    )]
    pub outcome: Option<String>,
    /// The same from a file, byte for byte; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["not_applied", "abandon"])]
    pub outcome_file: Option<PathBuf>,
    /// The longest life of a call of the effect [default: its timeout, or 60s without configuration]
    #[arg(
        long,
        value_name = "DURATION",
        conflicts_with_all = ["applied", "abandon"],
        value_parser = semel_core::units::duration
    )]
    pub quiet: Option<Duration>,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
}

/// The end of the effect, as a person knows it.
#[derive(Clone, Copy, Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Verdict {
    /// The effect happened: remember it as completed
    #[arg(long)]
    pub applied: bool,
    /// The effect did not happen: let it be run
    #[arg(long)]
    pub not_applied: bool,
    /// Nobody will find out: give it up for dead; wants --reason
    #[arg(long, requires = "reason")]
    pub abandon: bool,
}
