//! The worker that a verb asks in the place of a store.

use std::path::PathBuf;

use clap::Args;

/// For every verb that a worker can answer.
#[derive(Clone, Debug, Default, Args)]
pub struct Admin {
    /// Ask the worker whose admin API has this address, instead of the store [default: `SEMEL_ADMIN`]
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "store"])]
    pub admin: Option<String>,
    /// The file with the token that the worker is shown [default: the token in `SEMEL_TOKEN`]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "store"])]
    pub token_file: Option<PathBuf>,
    /// The authorities to trust behind https, in PEM, instead of the system's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "store"])]
    pub ca: Option<PathBuf>,
}
