//! The release builds: the binary with the tests of `torture`, and the proof. Features are unified over the packages
//! of a command, so that every command that wants one of the two names both; cargo would compile what they
//! share once for each other list. The proof is built apart from them: it stops the clocks of its runtimes, and
//! the binary that is tortured must be the one that people get.

use std::process::Command;

use crate::workspace::Workspace;

/// Builds the binary and the tests of `torture`.
pub(crate) fn build(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["build"]);
    command.args(PACKAGES).args(["--bin", "semel"]).args(TESTS);
    command
}

/// Builds the proof, with what T4 tries.
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
/// With the binary as people get it for every kind of server.
pub(crate) const EVERYTHING: &str = "--features=semel-cli/full";
/// The same without its allocator, which takes a minute to build: for what is not run at full speed.
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
        // Not the tests of the binary, which its name would be.
        let semel = ["--test".to_owned(), "semel".to_owned()];
        assert!(!torture.windows(2).any(|pair| pair == semel), "{torture:?}");
    }
}
