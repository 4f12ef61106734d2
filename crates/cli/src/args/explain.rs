//! `semel explain`.

use clap::Args;

use super::Format;

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The code, as printed in brackets behind an error or by `semel check`; all without it
    #[arg(value_name = "CODE")]
    pub(crate) code: Option<String>,
    #[command(flatten)]
    pub(crate) format: Format,
}
