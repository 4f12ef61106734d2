//! `semel config`.

use clap::Subcommand;

use super::Common;

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Find every fault in the configuration; exit code 1 if there is one
    #[command(after_help = "Example:\n  semel config check --config semel.toml")]
    Check(Common),
}
