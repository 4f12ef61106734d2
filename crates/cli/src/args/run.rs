//! `semel run`.

use std::path::PathBuf;

use clap::Args;

use super::{Common, Output};

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The configuration; the same as --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    /// How the summary is printed on standard output
    #[arg(long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
}
