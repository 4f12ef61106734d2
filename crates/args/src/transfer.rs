//! `semel store export` and `semel store import`.

use std::path::PathBuf;

use clap::Args;

use super::{Audit, Common, Confirm, Format};

#[derive(Debug, Args)]
pub struct Export {
    /// Write to this file, whole or not at all; standard output without it
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub confirm: Confirm,
}

#[derive(Debug, Args)]
pub struct Import {
    /// The export; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
}
