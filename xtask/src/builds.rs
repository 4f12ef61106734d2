//! The builds: that of the tests, with the programs that a merge proves and tortures, and those for release. Cargo
//! unifies features over the packages of a command, so every command that needs one of a build names all of it; for each
//! other list cargo would compile their shared packages once more.

use std::path::PathBuf;
use std::process::Command;

use crate::workspace::Workspace;

/// A profile of cargo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As people get the binary: for campaigns and benchmarks.
    Release,
    /// As the tests are built, for what every merge runs: what the proof computes with is optimised, the rest is not.
    Dev,
}

impl Profile {
    /// The folder of the programs that are built like this.
    pub(crate) fn folder(self, workspace: &Workspace) -> PathBuf {
        workspace.target.join(match self {
            Self::Release => "release",
            Self::Dev => "debug",
        })
    }

    /// The binary that is built like this.
    pub(crate) fn semel(self, workspace: &Workspace) -> PathBuf {
        self.folder(workspace).join("semel")
    }
}

/// Builds the binary as people get it, and the tests of `torture`.
pub(crate) fn binary(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["build", "--release"]);
    command
        .args(["--package", CLI, "--package", TORTURE, EVERYTHING])
        .args(["--bin", "semel"])
        .args(TESTS);
    command
}

/// Builds the proof for a campaign, with the scenarios of T4. It stops the clocks of its runtimes, and the binary of a
/// campaign must be the one that people get: that one is built separately.
pub(crate) fn proof(workspace: &Workspace) -> Command {
    workspace.cargo(["build", "--release", "--package", PROOF, SCHEDULED])
}

/// Builds the programs that a merge runs, and the example of the README, from what the tests have compiled. With an
/// example, cargo takes the features of the packages that only tests need, too.
pub(crate) fn programs(workspace: &Workspace) -> Command {
    let mut command = workspace.cargo(["build", "--example", EXAMPLE]);
    command.args(["--bin", "semel", "--bin", PROOF]);
    command.args(tested(workspace));
    command
}

/// The arguments with which cargo takes the packages that the tests have, with the same features.
pub(crate) fn tested(workspace: &Workspace) -> Vec<&str> {
    let mut args = vec![SERVERS, SCHEDULED];
    for name in workspace.default_members().into_iter().chain(HEAVY) {
        args.extend(["--package", name]);
    }
    args
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
/// The example that the README runs.
const EXAMPLE: &str = "first";
/// Packages that are no default members, since librdkafka takes a minute to build, and are tested all the same.
pub(crate) const HEAVY: [&str; 2] = ["semel-broker-kafka", "semel-rdkafka-batch"];
/// By its name: `--tests` would be those of all packages.
const TESTS: [&str; 2] = ["--test", TORTURE];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_built_from_what_the_tests_have_compiled() {
        let workspace = Workspace::find().expect("cargo runs");
        let build = programs(&workspace);
        let args: Vec<_> = build.get_args().filter_map(|arg| arg.to_str()).collect();
        assert!(args.ends_with(&tested(&workspace)), "{args:?}");
        for package in [TORTURE, PROOF, HEAVY[0]] {
            assert!(args.contains(&package), "{package}");
        }
        assert!(args.contains(&SCHEDULED));
    }
}
