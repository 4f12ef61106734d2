//! The semel binary: exit policy, and nothing else.

mod args;
mod assemble;
mod command;
mod config;
mod output;
mod place;
mod progress;

use std::process::ExitCode;

use clap::Parser;
use semel_core::{Code, Error, ErrorKind};

use args::{Arguments, Command, Config};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let exit = match arguments.command {
        Command::Run(run) => command::run::run(&run),
        Command::Explain { code } => command::explain::explain(&code),
        Command::Config(Config::Check(common)) => command::config::check(&common),
    };
    match exit {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            output::failure(&error);
            ExitCode::from(Exit::of(&error) as u8)
        }
    }
}

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    /// Done.
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
    fn of(error: &Error) -> Self {
        // The same for every store: the place that was named holds something else.
        if matches!(error.code(), Code::StoreForeign | Code::StoreNewer) {
            return Self::Environment;
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
