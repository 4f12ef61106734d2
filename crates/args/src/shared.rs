//! Arguments that many verbs take: the format, the limit, who changes something and why.

use std::num::NonZeroU64;

use clap::Args;
use clap::builder::TypedValueParser;
use semel_render as render;
use semel_render::{Colour, Output};

use super::value::one_of;
use super::{Log, Within};

/// For every verb that prints data.
#[derive(Clone, Copy, Debug, Args)]
pub struct Format {
    /// The format of data on standard output
    #[arg(
        long,
        value_parser = output(),
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub output: Output,
}

/// For every verb that lists.
#[derive(Clone, Copy, Debug, Args)]
pub struct Listing {
    #[command(flatten)]
    pub format: Format,
    /// Stop after so many; without it the list is complete
    #[arg(long, value_name = "COUNT", value_parser = count::<NonZeroU64>)]
    pub limit: Option<NonZeroU64>,
}

/// A number of things, one at least.
pub(crate) fn count<N: TryFrom<NonZeroU64>>(text: &str) -> Result<N, &'static str> {
    let number: u64 = text.parse().map_err(|_| "wanted is a whole number")?;
    let number = NonZeroU64::new(number).ok_or("wanted is a whole number from 1 on")?;
    N::try_from(number).map_err(|_| "that is too many")
}

/// For every verb that changes something: [`render::Plan`] asks for it.
#[derive(Clone, Copy, Debug, Args)]
pub struct Confirm {
    /// Carry out the plan; without it the plan is printed and nothing changes
    #[arg(long)]
    pub yes: bool,
}

/// For every verb that leaves an audit record.
#[derive(Clone, Debug, Args)]
pub struct Audit {
    /// The reason, for the audit trail
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// The operator's name, for the audit trail [default: the user and this host]
    #[arg(long, value_name = "NAME", env = "SEMEL_OPERATOR")]
    pub by: Option<String>,
}

/// For every verb that runs kept messages again: which of them, and how.
#[derive(Debug, Args)]
pub struct Rerun<W: Args> {
    #[command(flatten)]
    pub which: W,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
    #[command(flatten)]
    pub log: Log,
}

impl Audit {
    /// Returns the author of the change: the name that was typed, else `user@host`.
    pub fn by(&self) -> String {
        let said = self.by.as_deref().map(str::trim);
        if let Some(name) = said.filter(|name| !name.is_empty()) {
            return name.to_owned();
        }
        let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
        let user = user.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
        let host = rustix::system::uname();
        format!("{user}@{}", host.nodename().to_string_lossy())
    }
}

impl From<Format> for Output {
    fn from(format: Format) -> Self {
        format.output
    }
}

impl From<&Listing> for render::Listing {
    fn from(listing: &Listing) -> Self {
        Self {
            output: listing.format.output,
            limit: listing.limit,
        }
    }
}

impl From<Confirm> for bool {
    fn from(confirm: Confirm) -> Self {
        confirm.yes
    }
}

/// Reads the format in which data is printed.
fn output() -> impl TypedValueParser<Value = Output> {
    one_of(&[
        ("table", "For people", Output::Table),
        (
            "json",
            "A list is one document, any other answer one object on one line",
            Output::Json,
        ),
        ("jsonl", "One object per line, lists too", Output::Jsonl),
    ])
}

/// Reads the use of colours.
pub fn colour() -> impl TypedValueParser<Value = Colour> {
    one_of(&[
        (
            "auto",
            "On a terminal, unless `NO_COLOR` is set",
            Colour::Auto,
        ),
        ("always", "Even into a pipe", Colour::Always),
        ("never", "Not at all", Colour::Never),
    ])
}
