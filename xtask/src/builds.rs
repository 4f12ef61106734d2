//! The optimised builds: the binary, the tests of `torture`, and the proof. Cargo unifies features over the packages
//! of a command, so every command that needs one of a build names all of it; for each other list cargo would compile
//! their shared packages once more.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace::Workspace;

/// A profile of cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As people get the binary: for campaigns and benchmarks.
    Release,
    /// Built in half the time, and a little slower: for what every merge runs.
    Merge,
}

impl Profile {
    const fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Merge => "merge",
        }
    }

    /// The folder of the programs that are built like this.
    pub(crate) fn folder(self, workspace: &Workspace) -> PathBuf {
        workspace.target.join(self.name())
    }

    /// The binary that is built like this.
    pub(crate) fn semel(self, workspace: &Workspace) -> PathBuf {
        self.folder(workspace).join("semel")
    }
}

/// Builds the binary as people get it, and the tests of `torture`.
pub(crate) fn binary(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["build", "--profile", Profile::Release.name()]);
    command
        .args(["--package", CLI, "--package", TORTURE, EVERYTHING])
        .args(["--bin", "semel"])
        .args(TESTS);
    command
}

/// Builds the proof for a campaign, with the scenarios of T4. It stops the clocks of its runtimes, and the binary of a
/// campaign must be the one that people get: that one is built separately.
pub(crate) fn proof(workspace: &Workspace) -> Command {
    let profile = ["--profile", Profile::Release.name()];
    let mut command = workspace.cargo(["build", "--package", PROOF, SCHEDULED]);
    command.args(profile);
    command
}

/// Builds all that a merge runs in one go: what the proof and the binary share is compiled once, with clocks that can
/// be stopped, and that the binary does not stop.
pub(crate) fn merge(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["build"]);
    command
        .args(MERGE)
        .args(["--bin", "semel", "--bin", PROOF])
        .args(TESTS);
    command
}

/// The tests of `torture`, which `merge` has compiled but for those inside its library.
pub(crate) fn torture(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["test", "--no-fail-fast"]);
    command.args(MERGE).arg("--lib").args(TESTS);
    command
}

pub(crate) const TORTURE: &str = "torture";
pub(crate) const CLI: &str = "semel-cli";
const PROOF: &str = "proof";
/// The features of the binary as people get it, for every kind of server.
pub(crate) const EVERYTHING: &str = "--features=semel-cli/full";
/// The same without its allocator, which takes a minute to build: for programs that need not run at full speed.
/// The default binary is without it as well.
pub(crate) const SERVERS: &str = "--features=semel-cli/servers";
const SCHEDULED: &str = "--features=proof/scheduled";
const MERGE: [&str; 10] = [
    "--profile",
    Profile::Merge.name(),
    "--package",
    CLI,
    "--package",
    TORTURE,
    "--package",
    PROOF,
    SERVERS,
    SCHEDULED,
];
/// By its name: `--tests` would be those of all packages.
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
        let (build, torture) = (words(merge(&workspace)), words(torture(&workspace)));
        let tests = TESTS.map(str::to_owned);
        for args in [&build, &torture] {
            assert!(MERGE.iter().all(|it| args.contains(&(*it).to_owned())));
            assert!(args.windows(2).any(|pair| pair == tests), "{args:?}");
        }
        // Not the tests of the binary, which has the same name.
        let semel = ["--test".to_owned(), "semel".to_owned()];
        assert!(!torture.windows(2).any(|pair| pair == semel), "{torture:?}");
    }
}
