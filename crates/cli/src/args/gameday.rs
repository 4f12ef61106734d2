//! `semel gameday`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use semel_gameday::Drill;

use super::Format;

#[derive(Debug, Args)]
pub(crate) struct Gameday {
    /// The bad day to play
    #[arg(value_enum, value_name = "DRILL")]
    pub(crate) drill: DrillName,
    /// Play with the settings of a pipeline of this configuration; its store, broker and target are not touched
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The pipeline, if the configuration has several
    #[arg(long, value_name = "NAME", requires = "config")]
    pub(crate) pipeline: Option<String>,
    /// The alerts that are to tell somebody, a file of Prometheus rules [default: those of Semel]
    #[arg(long, value_name = "FILE")]
    pub(crate) alerts: Option<PathBuf>,
    /// A store that is there for drills alone, and is filled [default: an embedded one in the drill's folder]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// The shell command that breaks the store; `SEMEL_GAMEDAY_STORE` is its url
    #[arg(long = "break", value_name = "COMMAND")]
    pub(crate) break_store: Option<String>,
    /// The shell command that mends the store
    #[arg(long = "mend", value_name = "COMMAND", requires = "break_store")]
    pub(crate) mend_store: Option<String>,
    /// Keep what the drill writes in this folder, which is new or empty; else it is kept after a failure alone
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DrillName {
    /// A worker is killed in the middle of its effects
    Crash,
    /// The store goes away under a worker, and comes back
    StoreDown,
    /// Everything comes again after it was finished
    Replay,
    /// Everything comes again as late as it can
    Ttl,
    /// Almost nothing but duplicates comes, for up to a minute
    Storm,
    /// Messages come that cannot be worked on
    Poison,
}

impl DrillName {
    pub(crate) const fn drill(self) -> Drill {
        match self {
            Self::Crash => Drill::Crash,
            Self::StoreDown => Drill::StoreDown,
            Self::Replay => Drill::Replay,
            Self::Ttl => Drill::Ttl,
            Self::Storm => Drill::Storm,
            Self::Poison => Drill::Poison,
        }
    }
}
