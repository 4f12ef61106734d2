//! `semel store export` and `semel store import`.

use std::path::PathBuf;

use clap::Args;

use super::{Admin, Audit, Common, Confirm, Door, Format};

#[derive(Debug, Args)]
pub struct Export {
    /// Write to this file, whole or not at all; standard output without it
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// The reason, for the audit trail of the worker that is asked, or has the store open
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub admin: Admin,
    #[command(flatten)]
    pub confirm: Confirm,
}

impl Export {
    pub fn door(&self) -> Door<'_> {
        let Common {
            config,
            store,
            pipeline,
        } = &self.common;
        Door {
            admin: &self.admin,
            is_here: config.is_some() || store.is_some(),
            pipeline: pipeline.as_deref(),
            tenant: None,
        }
    }
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
