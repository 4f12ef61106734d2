//! `semel store export` and `semel store import`.

use std::path::PathBuf;

use clap::Args;

use super::{Audit, Common, Confirm, Format};

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Write to this file, whole or not at all; standard output without it
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) confirm: Confirm,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The export; - is standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) audit: Audit,
    #[command(flatten)]
    pub(crate) confirm: Confirm,
    #[command(flatten)]
    pub(crate) format: Format,
}
