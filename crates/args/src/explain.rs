//! `semel explain`.

use clap::Args;

use super::Format;

#[derive(Debug, Args)]
pub struct Explain {
    /// The code, as printed in brackets behind an error or by `semel check`; all without it
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
    #[command(flatten)]
    pub format: Format,
}
