//! `semel run`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Common, Format, Log};

#[derive(Debug, Args)]
pub struct Run {
    /// The configuration; the same as --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
    /// The fates of messages that make a run end with exit code 1, several with commas between them
    #[arg(long, value_enum, value_name = "FATES", value_delimiter = ',')]
    pub fail_on: Vec<FailOn>,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub log: Log,
}

/// A way of being set aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Dead letters
    Dead,
    /// Messages of which nobody knows whether they happened
    InDoubt,
    /// Messages in quarantine, but for conflicts
    Quarantined,
    /// Messages whose key was used with another request
    Conflicts,
}
