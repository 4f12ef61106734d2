//! `semel config`, and the arguments with which a verb names its configuration.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::{Admin, Common, Door, Format};

#[derive(Debug, Subcommand)]
pub enum Config {
    /// Find every fault in the configuration; exit code 1 if there is one
    #[command(after_help = "Example:\n  semel config check semel.toml")]
    Check(ConfigCheck),
    /// Show every setting that applies, written or not; secrets as ***
    #[command(after_help = "Example:\n  semel config show --origin")]
    Show(ConfigShow),
    /// Print every setting with its default and what it is for, as a file to take lines from
    #[command(after_help = "Example:\n  semel config reference > all.toml")]
    Reference,
}

#[derive(Debug, Args)]
pub struct ConfigCheck {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct ConfigShow {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    admin: Admin,
    /// Say of each setting where it came from: a line, a variable, a flag, a default
    #[arg(long)]
    pub origin: bool,
    /// The format of the settings on standard output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Language::Toml)]
    pub output: Language,
}

impl ConfigShow {
    pub const fn door(&self) -> Door<'_> {
        self.named.door(&self.admin)
    }
}

/// For every verb that is about a configuration.
#[derive(Debug, Args)]
pub struct Named {
    /// The configuration; the same as --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub common: Common,
}

impl Named {
    /// Returns the door of a verb that is about the configuration as a whole.
    pub(crate) const fn door<'a>(&self, admin: &'a Admin) -> Door<'a> {
        Door {
            admin,
            is_here: self.is_here(),
            pipeline: None,
            tenant: None,
        }
    }

    /// True if a store or a configuration was typed.
    const fn is_here(&self) -> bool {
        self.file.is_some() || self.common.config.is_some() || self.common.store.is_some()
    }

    /// The file, whichever way it was named.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref().or(self.common.config.as_deref())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// As a configuration that says the same
    Toml,
    /// One object
    Json,
}
