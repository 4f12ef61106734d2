//! `semel check`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::Args;

use super::shared::count;
use super::{Admin, Door, Format, Named};

#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub named: Named,
    #[command(flatten)]
    admin: Admin,
    /// Read captured messages from this file and say what each pipeline makes of them; - is standard
    /// input
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
    /// Read at most so many of them
    #[arg(
        long,
        value_name = "COUNT",
        default_value = "100000",
        value_parser = count::<NonZeroU64>,
        requires = "sample"
    )]
    pub limit: NonZeroU64,
    /// New keys per second, to estimate how much the store will hold
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZeroU32>)]
    pub rate: Option<NonZeroU32>,
    /// Go through the list before production instead, with a verdict for each line: pass, fail, or unknown
    /// where only a person can say; exit code 1 if one fails
    #[arg(long, conflicts_with = "strict")]
    pub production: bool,
    /// Answer "no" (exit code 1) to warnings, too
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub format: Format,
}

impl Check {
    pub const fn door(&self) -> Door<'_> {
        self.named.door(&self.admin)
    }
}
