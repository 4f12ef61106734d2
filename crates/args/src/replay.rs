//! `semel replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::value::replay_id;
use super::{Confirm, Format, Log, Within};

#[derive(Debug, Args)]
pub struct ReplayArguments {
    /// Names the replay: every message carries it as `semel-replay-id`
    #[arg(long, value_name = "ID", value_parser = replay_id)]
    pub id: String,
    /// Messages from this file, a line each, instead of the pipeline's source; - is standard input
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Of a topic or stream, only what it took in within this time
    #[arg(
        long,
        value_name = "DURATION",
        conflicts_with = "from",
        value_parser = semel_core::units::duration
    )]
    pub newer_than: Option<Duration>,
    /// Do messages again that are older than the window, whose records may be gone
    #[arg(long)]
    pub allow_expired: bool,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub log: Log,
}
