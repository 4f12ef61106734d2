//! The verbs asked of a worker, by its admin API, where `--admin` or `SEMEL_ADMIN` names one.
//!
//! This is the one seam between the two doors: a verb says here which path answers it, and into which report. The reports
//! are those of a store of this machine, and are printed by the same code. Verbs that no worker answers are refused by
//! name.

#![expect(
    clippy::future_not_send,
    reason = "a verb runs alone, on the thread that it began on"
)]

mod check;
mod consent;
mod door;
mod export;
mod extension;
mod in_doubt;
mod keys;
mod parked;
mod pipelines;
mod relay_dead_letters;
mod rerun;
mod store;

use semel_core::{Error, ErrorKind, Result};

use crate::Exit;
use crate::args::producers::Producers;
use crate::args::{Command, Config, Door as Named};
use door::Door;

/// Asks the worker that is named; nothing where none is.
pub(crate) fn run(command: &Command) -> Option<Result<Exit>> {
    match command {
        Command::Keys(verb) => keys::run(verb),
        Command::InDoubt(verb) => in_doubt::run(verb),
        Command::DeadLetters(verb) => parked::dead_letters(verb),
        Command::Quarantine(verb) => parked::quarantine(verb),
        Command::Pipelines(verb) => pipelines::run(verb),
        Command::Store(verb) => store::run(verb),
        Command::Config(Config::Show(arguments)) => store::show_config(arguments),
        Command::Check(verb) => check::run(verb),
        Command::Replay(verb) => refused(
            verb.common.door(),
            "replay",
            "it reads a source, and runs in a process of its own",
        ),
        Command::Producers(Producers::List(verb)) => {
            refused(verb.place.door(), "producers", OF_PRODUCERS)
        }
        Command::Producers(Producers::Show(verb)) => {
            refused(verb.place.door(), "producers", OF_PRODUCERS)
        }
        Command::Producers(
            Producers::Freeze(verb) | Producers::Thaw(verb) | Producers::Release(verb),
        ) => refused(verb.which.place.door(), "producers", OF_PRODUCERS),
        Command::Run(_)
        | Command::Dedup(_)
        | Command::Publish(_)
        | Command::Explain(_)
        | Command::Init(_)
        | Command::Gameday(_)
        | Command::Config(Config::Check(_) | Config::Reference)
        | Command::Token(_)
        | Command::Completions(_)
        | Command::Man(_) => None,
    }
}

const OF_PRODUCERS: &str = "no worker answers for them";

/// Asks the worker that is named; nothing where none is.
fn through(
    named: Named<'_>,
    verb: impl AsyncFnOnce(&Door) -> Result<Exit>,
) -> Option<Result<Exit>> {
    match Door::of(named) {
        Ok(None) => None,
        Ok(Some(door)) => Some(door.drive(verb)),
        Err(error) => Some(Err(error)),
    }
}

/// Refuses a verb that no worker answers, where one is named.
fn refused(named: Named<'_>, verb: &str, why: &str) -> Option<Result<Exit>> {
    through(named, async |_| {
        let message = format!(
            "semel {verb} is not asked of a worker: {why}; name the store or its configuration"
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    })
}
