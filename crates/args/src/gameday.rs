//! `semel gameday`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use semel_gameday::Drill;

use super::Format;

#[derive(Debug, Args)]
pub struct Gameday {
    /// The bad day to play
    #[arg(value_name = "DRILL", value_parser = drills())]
    pub drill: Drill,
    /// Play with the settings of a pipeline of this configuration. Its store and target are not touched, and its broker
    /// is asked by `ttl` alone, for how long a message can come again
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The pipeline, if the configuration has several
    #[arg(long, value_name = "NAME", requires = "config")]
    pub pipeline: Option<String>,
    /// The alerts that are to tell somebody, a file of Prometheus rules [default: those of Semel]
    #[arg(long, value_name = "FILE")]
    pub alerts: Option<PathBuf>,
    /// A store that is there for drills alone, and is filled [default: an embedded one in the drill's folder]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The shell command that breaks the store; `SEMEL_GAMEDAY_STORE` is its url
    #[arg(long = "break", value_name = "COMMAND", requires = "mend_store")]
    pub break_store: Option<String>,
    /// The shell command that mends the store
    #[arg(long = "mend", value_name = "COMMAND", requires = "break_store")]
    pub mend_store: Option<String>,
    /// Keep what the drill writes in this folder, which is new or empty; else it is kept after a failure alone
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub format: Format,
}

/// The drills by their names, with what each is about.
fn drills() -> impl TypedValueParser<Value = Drill> {
    let named = |name: String| Drill::ALL.into_iter().find(|it| it.as_str() == name);
    let values = Drill::ALL.map(|it| PossibleValue::new(it.as_str()).help(it.about()));
    PossibleValuesParser::new(values).try_map(move |name| named(name).ok_or("no such drill"))
}
