//! Exactly what was typed. One file per verb; what every verb takes is here.

mod config;
mod run;

pub(crate) use config::Config;
pub(crate) use run::Run;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Makes the effect of each message happen once, or leaves a visible record that says why not.
#[derive(Debug, Parser)]
#[command(
    name = "semel",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run what the configuration declares, until the sources end or SIGTERM asks to stop
    #[command(after_help = "Example:\n  semel run examples/payments/semel.toml --output json")]
    Run(Run),
    /// Say what a code means, whether anything was applied, and what to do
    #[command(after_help = "Example:\n  semel explain store-in-use")]
    Explain {
        /// The code, as printed in brackets behind an error
        code: String,
    },
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
}

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// The configuration file [default: semel.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store to use instead of the configured one
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Table,
    /// One object per pipeline, one line each
    Json,
    /// The same as json
    Jsonl,
}
