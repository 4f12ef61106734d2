//! `semel man`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub struct Man {
    /// The folder to write a page per command into; without it the main page is printed
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
