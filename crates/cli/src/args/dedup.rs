//! `semel dedup`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use semel_core::select::Selector;
use semel_core::units;

use crate::config::Accepted;

#[derive(Debug, Args)]
pub(crate) struct Dedup {
    /// Where the lines come from; standard input without it, or with -
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<PathBuf>,
    /// What makes two lines the same: `line`, `json:/POINTER`, `field:N`; several are joined
    #[arg(long, value_name = "SELECTOR", default_value = "line")]
    pub(crate) key: Vec<Selector>,
    /// How long a line is remembered [default: 7d]
    #[arg(long, value_name = "DUR", value_parser = window)]
    pub(crate) window: Option<Duration>,
    /// Append to this file instead of printing, and keep it exact across crashes
    #[arg(long, value_name = "FILE")]
    pub(crate) to: Option<PathBuf>,
    /// Write behind what the file of --to holds, if the store knows nothing of it
    #[arg(long, requires = "to")]
    pub(crate) append: bool,
    /// Lines that may have been printed before a crash: print them again, or list them
    #[arg(
        long,
        value_enum,
        value_name = "CHOICE",
        default_value_t = OnDoubt::Repeat,
        conflicts_with = "to"
    )]
    pub(crate) on_doubt: OnDoubt,
    /// Write what became of the lines to this file, as one JSON object; - is standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) summary: Option<PathBuf>,
    /// Take the store from this configuration
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub(crate) config: Option<PathBuf>,
    /// Where lines are remembered; else where `SEMEL__STORE__URL` says [default: embedded:./semel-data]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Go on although the store gives less than is needed: durability, eviction
    #[arg(long, value_name = "WHAT")]
    pub(crate) accept: Vec<Accepted>,
    /// Whose lines these are: each name remembers its own
    #[arg(long, value_name = "NAME", default_value = "dedup")]
    pub(crate) pipeline: String,
}

/// What is done about lines that may have been printed before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnDoubt {
    /// Print the last batch again: nothing is missing
    Repeat,
    /// List it with `semel in-doubt list`: nothing is printed twice
    Park,
}

fn window(text: &str) -> Result<Duration, String> {
    let duration = units::window(text)?;
    if duration.is_zero() {
        return Err("a window of zero remembers nothing; the least is `1ms`".to_owned());
    }
    Ok(duration)
}
