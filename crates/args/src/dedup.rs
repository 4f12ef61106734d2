//! `semel dedup`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use semel_config::Accepted;
use semel_core::select::{InvalidSelector, Selector};
use semel_core::units;
use semel_worker::dedup::Separator;

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub struct Dedup {
    /// The file with the lines; standard input without it, or with -
    #[arg(value_name = "INPUT")]
    pub input: Option<PathBuf>,
    /// The parts that make two lines the same: `line`, `json:/POINTER`, `field:N` (fields are between tabs, unless
    /// --delimiter or --csv says otherwise), `column:NAME` of --csv; several are joined
    #[arg(long, value_name = "SELECTOR", default_value = "line")]
    pub key: Vec<KeyPart>,
    /// The separator of fields: one character, `\t`, or `whitespace` for any number of blanks, as awk has
    /// it [default: a tab; with --csv a comma]
    #[arg(long, value_name = "CHAR", value_parser = delimiter, allow_hyphen_values = true)]
    pub delimiter: Option<Separator>,
    /// Read CSV (RFC 4180): quotes, line breaks within them, and a header, which is passed on once
    #[arg(long)]
    pub csv: bool,
    /// The first record of --csv is data, not a header
    #[arg(long, requires = "csv")]
    pub no_header: bool,
    /// Remember nothing beyond this run and write nothing to disk
    #[arg(long, conflicts_with_all = DURABLE)]
    pub ephemeral: bool,
    /// Print only what comes more than once: where it comes the second time; implies --ephemeral
    #[arg(short = 'd', long, conflicts_with_all = DURABLE, conflicts_with = "unique")]
    pub repeated: bool,
    /// Print only what comes once, at the end of the input; implies --ephemeral
    #[arg(short = 'u', long, conflicts_with_all = DURABLE)]
    pub unique: bool,
    /// Put how often it comes before each line, at the end of the input; implies --ephemeral
    #[arg(short = 'c', long, conflicts_with_all = DURABLE, conflicts_with = "csv")]
    pub count: bool,
    /// The time for which a line is remembered [default: 7d]
    #[arg(long, value_name = "DUR", value_parser = window)]
    pub window: Option<Duration>,
    /// Append to this file instead of printing, and keep it exact across crashes
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Write behind what the file of --to holds, if the store knows nothing of it
    #[arg(long, requires = "to")]
    pub append: bool,
    /// Lines that may have been printed before a crash: print them again, or list them
    #[arg(
        long,
        value_enum,
        value_name = "CHOICE",
        default_value_t = OnDoubt::Repeat,
        conflicts_with = "to"
    )]
    pub on_doubt: OnDoubt,
    /// Write what became of the lines to this file, as one JSON object; - is standard error
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Take the store from this configuration
    #[arg(long, value_name = "FILE", conflicts_with = "store")]
    pub config: Option<PathBuf>,
    /// The store that remembers the lines; else that of `SEMEL__STORE__URL` [default: embedded:./.semel-dedup]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Go on although the store gives less than is needed: durability, eviction
    #[arg(long, value_name = "WHAT")]
    pub accept: Vec<Accepted>,
    /// The name under which lines are remembered: each name remembers its own
    #[arg(long, value_name = "NAME", default_value = "dedup")]
    pub pipeline: String,
}

impl Dedup {
    /// Tells whether nothing is remembered beyond the run.
    pub const fn is_ephemeral(&self) -> bool {
        self.ephemeral || self.repeated || self.unique || self.count
    }
}

/// Arguments about remembered lines; none of them goes with remembering nothing.
const DURABLE: [&str; 8] = [
    "window", "to", "append", "on_doubt", "config", "store", "accept", "pipeline",
];

/// A selector, or a column of CSV.
#[derive(Clone, Debug)]
pub enum KeyPart {
    Selector(Selector),
    Column(Box<str>),
}

impl FromStr for KeyPart {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        match text.strip_prefix("column:") {
            Some("") => Err(InvalidSelector::Argument {
                wanted: "column:NAME",
            }),
            Some(name) => Ok(Self::Column(name.into())),
            None => text.parse().map(Self::Selector),
        }
    }
}

/// The handling of lines that may have been printed before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnDoubt {
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

fn delimiter(text: &str) -> Result<Separator, String> {
    let mut characters = text.chars();
    match (text, characters.next(), characters.next()) {
        ("\\t", ..) | (_, Some('\t'), None) => Ok(Separator::Tab),
        ("whitespace", ..) => Ok(Separator::Blanks),
        (_, Some('\n'), None) => {
            Err("a line feed ends a line and cannot stand within it".to_owned())
        }
        (_, Some(_), None) => Ok(Separator::Text(text.into())),
        _ => Err("a delimiter is one character, `\\t` or `whitespace`".to_owned()),
    }
}
