//! The semel binary: the exit policy, and nothing else.

mod args;
mod command;
mod configuration;
mod secret;
mod sockets;

use std::process::ExitCode;

use clap::Parser;
use semel_core::{Code, Error, ErrorKind, Result};
// What prints, under the name that the verbs know it by.
use semel_render::{self as output, Unconfirmed, progress, shell};

use args::{Arguments, Command};

/// One thread allocates a batch and another frees it, thousands of small pieces at a time.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| misused(&error));
    output::set_colour(arguments.colour);
    // A worker that is named is asked in the place of a store, whatever the verb.
    let run =
        || command::remote::run(&arguments.command).unwrap_or_else(|| here(arguments.command));
    ExitCode::from(Exit::with(run) as u8)
}

/// Runs a verb on this machine.
fn here(command: Command) -> Result<Exit> {
    match command {
        Command::Run(run) => command::run::run(&run),
        Command::Replay(replay) => command::replay::replay(&replay),
        Command::Dedup(dedup) => command::dedup::dedup(&dedup),
        Command::Publish(publish) => command::publish::publish(&publish),
        Command::Producers(verb) => command::producers::run(&verb),
        Command::Explain(explain) => command::explain::explain(&explain),
        Command::Init(init) => command::init::init(&init),
        Command::Check(check) => command::check::check(&check),
        Command::Gameday(gameday) => command::gameday::gameday(&gameday),
        Command::Config(config) => command::config::config(&config),
        Command::Keys(verb) => command::keys::run(&verb),
        Command::InDoubt(verb) => command::in_doubt::run(&verb),
        Command::DeadLetters(verb) => command::dead_letters::run(&verb),
        Command::Quarantine(verb) => command::quarantine::run(&verb),
        Command::Pipelines(verb) => command::pipelines::run(&verb),
        Command::Store(verb) => command::store::run(&verb),
        Command::Token(verb) => command::token::run(&verb),
        Command::Completions(completions) => command::completions::completions(&completions),
        Command::Man(man) => command::man::man(&man),
    }
}

/// Reports a wrong command line, or prints the help that it asks for. Words that the report repeats from the
/// command line may hold a secret.
fn misused(error: &clap::Error) -> ! {
    let said = error.render().to_string();
    let shown = secret::masked_within(&said, std::env::args_os());
    if shown == said {
        error.exit();
    }
    output::note(shown.trim_end());
    std::process::exit(error.exit_code());
}

/// The exit codes of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// The work is done.
    Done = 0,
    /// The answer is no.
    No = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Store, source, target or folder is unavailable.
    Environment = 3,
    /// A defect of Semel.
    Defect = 70,
}

impl Exit {
    /// Runs a verb, reports its failure, and returns the exit code of the process.
    fn with(verb: impl FnOnce() -> Result<Self>) -> Self {
        // After a panic, nothing that the verb held is looked at again.
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(verb)) {
            Ok(Ok(exit)) => exit,
            Ok(Err(error)) => {
                output::failure(&error);
                Self::of(&error)
            }
            Err(_) => {
                let message = "this is a defect of Semel; please report it with what stands above";
                output::failure(&Error::new(ErrorKind::Internal, message));
                Self::Defect
            }
        }
    }

    fn of(error: &Error) -> Self {
        // True of every store: the named place holds something else.
        if matches!(error.code(), Code::StoreForeign | Code::StoreNewer) {
            return Self::Environment;
        }
        // The command line and the file are right; the messages are not.
        if matches!(error.code(), Code::NoUsableKey | Code::RowUnpublishable) {
            return Self::No;
        }
        match error.kind() {
            ErrorKind::InvalidInput | ErrorKind::InvalidConfig | ErrorKind::Unsupported => {
                Self::Usage
            }
            ErrorKind::Internal => Self::Defect,
            ErrorKind::ClaimLost
            | ErrorKind::Conflict
            | ErrorKind::Throttled
            | ErrorKind::Unavailable
            | ErrorKind::Timeout
            | ErrorKind::Corrupt
            | ErrorKind::Poisoned => Self::Environment,
        }
    }
}

impl From<Unconfirmed> for Exit {
    fn from(why: Unconfirmed) -> Self {
        match why {
            Unconfirmed::Nothing => Self::Done,
            Unconfirmed::Unsaid => Self::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_our_defect_and_any_other_failure_what_its_kind_says() {
        assert_eq!(Exit::with(|| Ok(Exit::No)), Exit::No);
        assert_eq!(Exit::with(|| panic!("planted")), Exit::Defect);
        let internal = Error::new(ErrorKind::Internal, "nobody classified it");
        assert_eq!(Exit::with(|| Err(internal)), Exit::Defect);
        let newer =
            Error::new(ErrorKind::Unsupported, "a newer format").with_code(Code::StoreNewer);
        assert_eq!(Exit::with(|| Err(newer)), Exit::Environment);
        let usage = Error::new(ErrorKind::InvalidInput, "no such key");
        assert_eq!(Exit::with(|| Err(usage)), Exit::Usage);
    }
}
