//! The proof in place of the compiler: cargo has it compile the packages of the workspace, and it builds the bugs
//! into them. Their external dependencies are compiled as usual.

use std::process::{Command, ExitCode};

/// Set for processes in which the proof is to be the compiler.
pub(super) const STANDS_IN: &str = "SEMEL_PROOF_COMPILES";

/// Compiles, if this process is meant for that: the first word is the compiler, the rest is for it.
pub(crate) fn stand_in() -> Option<ExitCode> {
    std::env::var_os(STANDS_IN)?;
    let mut words = std::env::args_os().skip(1);
    let mut command = Command::new(words.next()?);
    command.args(words);
    // Cargo asks for the version as well, without a package.
    if std::env::var_os("CARGO_PKG_NAME").is_some() {
        command.args(["--cfg", "semel_planted"]);
    }
    Some(match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) | Err(_) => ExitCode::FAILURE,
    })
}
