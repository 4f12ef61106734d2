//! The release builds: the binary with the tests of `torture`, and the proof. Cargo unifies features over the
//! packages of a command, so every command that needs one of the two names both; for each other list cargo would
//! compile their shared packages once more. The proof is built separately: it stops the clocks of its runtimes, and
//! the tortured binary must be the one that people get.

use std::process::Command;

use crate::workspace::Workspace;

/// Builds the binary and the tests of `torture`.
pub(crate) fn build(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["build"]);
    command.args(PACKAGES).args(["--bin", "semel"]).args(TESTS);
    command
}

/// Builds the proof, with the scenarios of T4.
pub(crate) fn proof(workspace: &Workspace) -> Command {
    workspace.cargo(["build", "--release", "--package", "proof", SCHEDULED])
}

/// The tests of `torture`, which `build` has compiled but for those inside its library.
pub(crate) fn torture(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["test", "--no-fail-fast"]);
    command.args(PACKAGES).arg("--lib").args(TESTS);
    command
}

pub(crate) const TORTURE: &str = "torture";
pub(crate) const CLI: &str = "semel-cli";
/// The features of the binary as people get it, for every kind of server.
pub(crate) const EVERYTHING: &str = "--features=semel-cli/full";
/// The same without its allocator, which takes a minute to build: for programs that need not run at full speed.
pub(crate) const SERVERS: &str = "--features=semel-cli/servers";
const SCHEDULED: &str = "--features=proof/scheduled";
const PACKAGES: [&str; 6] = [
    "--release",
    "--package",
    CLI,
    "--package",
    TORTURE,
    EVERYTHING,
];
/// By its name: `--tests` would be those of both packages.
const TESTS: [&str; 2] = ["--test", TORTURE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_run_in_the_build_that_was_made() {
        let workspace = Workspace::find().expect("cargo runs");
        let words = |command: Command| -> Vec<String> {
            let args = command.get_args().map(|arg| arg.to_string_lossy());
            args.map(std::borrow::Cow::into_owned).collect()
        };
        let (build, torture) = (words(build(&workspace)), words(torture(&workspace)));
        let tests = TESTS.map(str::to_owned);
        for args in [&build, &torture] {
            assert!(PACKAGES.iter().all(|it| args.contains(&(*it).to_owned())));
            assert!(args.windows(2).any(|pair| pair == tests), "{args:?}");
        }
        // Not the tests of the binary, which has the same name.
        let semel = ["--test".to_owned(), "semel".to_owned()];
        assert!(!torture.windows(2).any(|pair| pair == semel), "{torture:?}");
    }
}
