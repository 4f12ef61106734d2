//! `semel run`.

use std::path::PathBuf;

use clap::Args;

use super::{Common, Format, Log};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The configuration; the same as --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) log: Log,
}
