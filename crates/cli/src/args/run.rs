//! `semel run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Common, Format, Log};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The configuration; the same as --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// The fates of messages that make a run end with exit code 1, several with commas between them
    #[arg(long, value_enum, value_name = "FATES", value_delimiter = ',')]
    pub(crate) fail_on: Vec<FailOn>,
    #[command(flatten)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) log: Log,
}

/// A way of being set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Dead letters
    Dead,
    /// Messages of which nobody knows whether they happened
    InDoubt,
    /// Messages in quarantine, but for conflicts
    Quarantined,
    /// Messages whose key was used with another request
    Conflicts,
}
