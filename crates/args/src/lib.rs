//! The arguments of the verbs: exactly what was typed, and nothing of what it means. One file per verb; arguments that
//! many verbs take are here and in `shared`. The verbs themselves, and the command line as a whole, are the binary's.
//!
//! ```
//! use clap::Parser;
//! use semel_args::Format;
//! use semel_render::Output;
//!
//! #[derive(Parser)]
//! struct Arguments {
//!     #[command(flatten)]
//!     format: Format,
//! }
//!
//! let typed = Arguments::try_parse_from(["count", "--output", "jsonl"])?;
//! assert_eq!(typed.format.output, Output::Jsonl);
//! # Ok::<_, clap::Error>(())
//! ```

#![expect(
    missing_docs,
    reason = "the comment of an argument is its help, and what groups arguments has none"
)]

mod admin;
mod check;
mod completions;
mod config;
pub mod dead_letters;
mod dedup;
mod explain;
mod gameday;
pub mod in_doubt;
pub mod init;
pub mod keys;
mod log;
mod man;
pub mod pipelines;
pub mod producers;
mod publish;
pub mod quarantine;
mod replay;
mod run;
mod shared;
pub mod store;
pub mod token;
pub mod transfer;
pub mod value;

pub use admin::Admin;
pub use check::Check;
pub use completions::{Completions, Shell};
pub use config::{Config, ConfigCheck, ConfigShow, Language, Named};
pub use dedup::{Dedup, KeyPart, OnDoubt};
pub use explain::Explain;
pub use gameday::Gameday;
pub use init::Init;
pub use log::Log;
pub use man::Man;
pub use publish::Publish;
pub use replay::ReplayArguments;
pub use run::{FailOn, Run};
pub use shared::{Audit, Confirm, Format, Listing, Rerun, colour};

use std::ops::Deref;
use std::path::PathBuf;

use clap::Args;
use semel_config::Overrides;
use semel_core::Scope;
use semel_core::key::InvalidScope;

#[derive(Clone, Debug, Args)]
pub struct Common {
    /// The configuration file [default: semel.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The store to use instead of the configured one; a secret is better off in `SEMEL__STORE__URL`
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pub pipeline: Option<String>,
}

impl Common {
    /// The settings that override the configuration.
    pub fn overrides(&self) -> Overrides {
        Overrides {
            store: self.store.clone(),
            pipeline: self.pipeline.clone(),
        }
    }
}

/// [`Common`] for verbs that name keys or list: they may be about one tenant.
#[derive(Clone, Debug, Args)]
pub struct Within {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    admin: Admin,
    /// Only this tenant; '' is the tenant of pipelines that have none
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<String>,
}

impl Deref for Within {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl From<Common> for Within {
    /// Of whichever tenant.
    fn from(common: Common) -> Self {
        Self {
            common,
            admin: Admin::default(),
            tenant: None,
        }
    }
}

fn tenant(text: &str) -> Result<String, InvalidScope> {
    Scope::new(text, "any").map(|_| text.to_owned())
}

/// [`Common`] for verbs that are about no pipeline.
#[derive(Debug, Args)]
pub struct Place {
    /// The configuration file [default: semel.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The store to use instead of the configured one; a secret is better off in `SEMEL__STORE__URL`
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    admin: Admin,
}

/// The worker that was named, if it is not overruled by a store of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    pub admin: &'a Admin,
    /// True if a store or a configuration was typed.
    pub is_here: bool,
    /// The pipeline that was typed.
    pub pipeline: Option<&'a str>,
    /// The tenant that was typed.
    pub tenant: Option<&'a str>,
}

impl Within {
    pub fn door(&self) -> Door<'_> {
        Door {
            admin: &self.admin,
            is_here: self.common.config.is_some() || self.common.store.is_some(),
            pipeline: self.common.pipeline.as_deref(),
            tenant: self.tenant.as_deref(),
        }
    }
}

impl Place {
    pub const fn door(&self) -> Door<'_> {
        Door {
            admin: &self.admin,
            is_here: self.config.is_some() || self.store.is_some(),
            pipeline: None,
            tenant: None,
        }
    }

    pub fn common(&self) -> Within {
        Within::from(Common {
            config: self.config.clone(),
            store: self.store.clone(),
            pipeline: None,
        })
    }
}
