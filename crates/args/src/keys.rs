//! `semel keys`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use semel_core::{Key, StateKind};

use super::value::key;
use super::{Audit, Confirm, Format, Listing, Within};

#[derive(Debug, Subcommand)]
pub enum Keys {
    /// Print all that is on record of keys
    #[command(after_help = "Examples:\n  semel keys show pay-1 json:42\n  \
                            semel keys show pay-1 --outcome > answer.json")]
    Show(Show),
    /// Tell the story of one key: what happened, what a duplicate meets, what can be done
    #[command(after_help = "Example:\n  semel keys explain pay-1 --pipeline payments")]
    Explain(Explain),
    /// List the keys on record, of every pipeline unless one is named
    #[command(
        after_help = "Examples:\n  semel keys list --state dead --output jsonl\n  \
                            semel keys list --state claimed --older-than 1h"
    )]
    List(List),
    /// Let the next delivery of keys run now: end a lease or a backoff, give the dead another chance
    #[command(
        after_help = "Example:\n  semel keys release pay-1 --reason 'card was renewed' --yes"
    )]
    Release(Change),
    /// Forget finished or released keys before their window ends; a duplicate will run again
    #[command(after_help = "Example:\n  semel keys forget --keys-from wrong.txt --yes")]
    Forget(Change),
    /// Keep keys on record beyond their window, or with --off no longer
    #[command(after_help = "Example:\n  semel keys hold pay-1 --reason 'audit 2026-11' --yes")]
    Hold(Hold),
    /// Remember finished keys longer than their window says, never shorter
    #[command(
        after_help = "Examples:\n  semel keys extend pay-1 --window 30d --yes\n  \
                            semel keys extend --all --pipeline billing --window 30d --yes"
    )]
    Extend(Extend),
}

#[derive(Debug, Args)]
pub struct Show {
    /// Keys as they are printed: a string is itself, a number is json:1; or operation ids, or their
    /// beginnings, four digits at least
    #[arg(value_name = "KEY", required = true, value_parser = key)]
    pub keys: Vec<Key>,
    /// Print the bytes of the outcome and nothing else; of one key only
    #[arg(long)]
    pub outcome: bool,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Explain {
    /// The key as it is printed: a string is itself, a number is json:1; or its operation id, or the
    /// beginning of it, four digits at least
    #[arg(value_name = "KEY", value_parser = key)]
    pub key: Key,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct List {
    /// Only keys in this state
    #[arg(long, value_name = "STATE", value_parser = state())]
    pub state: Option<StateKind>,
    /// Only keys that begin with this, as they are printed
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// Only keys that somebody holds beyond their window
    #[arg(long)]
    pub held: bool,
    /// Only keys whose effect may have happened more than once
    #[arg(long)]
    pub repeated: bool,
    /// Only keys that have been in their state for at least so long
    #[arg(long, value_name = "DURATION", value_parser = semel_core::units::duration)]
    pub older_than: Option<Duration>,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub listing: Listing,
}

/// Which keys to change.
#[derive(Debug, Args)]
pub struct Change {
    /// Keys as they are printed: a string is itself, a number is json:1
    #[arg(value_name = "KEY", value_parser = key)]
    pub keys: Vec<Key>,
    /// Take keys from this file too, one on a line; - is standard input
    #[arg(long, value_name = "FILE")]
    pub keys_from: Option<PathBuf>,
    #[command(flatten)]
    pub common: Within,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Hold {
    /// Let go: the window counts again
    #[arg(long)]
    pub off: bool,
    #[command(flatten)]
    pub change: Change,
}

#[derive(Debug, Args)]
pub struct Extend {
    /// Remember them at least so long, counted from their end
    #[arg(long, value_name = "DURATION", value_parser = semel_core::units::window)]
    pub window: Duration,
    /// Every finished key of the pipeline
    #[arg(long, conflicts_with_all = ["keys", "keys_from"])]
    pub all: bool,
    #[command(flatten)]
    pub change: Change,
}

/// The states by name, `in-doubt` as well as `in_doubt`.
fn state() -> impl TypedValueParser<Value = StateKind> {
    let names = StateKind::ALL.map(|state| {
        let name = clap::builder::PossibleValue::new(state.as_str());
        if state == StateKind::InDoubt {
            name.alias("in-doubt")
        } else {
            name
        }
    });
    PossibleValuesParser::new(names).try_map(|name| {
        let name = name.replace('-', "_");
        let states = StateKind::ALL.into_iter();
        let mut known = states.filter(|state| state.as_str() == name);
        known.next().ok_or("no state")
    })
}
