//! The test programs that cargo has built, each run on its own as `cargo test` would run it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::workspace::Workspace;

/// One test program, or another command that runs beside such programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    /// The package and the source of its root, as in `semel-cli tests/semel/main.rs`.
    pub(crate) name: String,
    /// The load that it puts on the machine.
    pub(crate) load: Load,
    /// Suites of a lower rank are started first.
    pub(crate) rank: usize,
    program: PathBuf,
    args: Vec<String>,
    folder: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

/// The kind of work on which a suite spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Servers, child processes and clocks.
    Waits,
    /// Mostly sleep, between one fault and the next.
    Sleeps,
    /// Its own computation.
    Works,
}

impl Suite {
    /// The test program that a line of cargo's messages names, if it names one.
    pub(crate) fn of(message: &str, workspace: &Workspace) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
            return None;
        }
        let program = PathBuf::from(message["executable"].as_str()?);
        let manifest = Path::new(message["manifest_path"].as_str()?);
        let folder = manifest.parent()?;
        let package = workspace.package(message["package_id"].as_str()?)?;
        let source = Path::new(message["target"]["src_path"].as_str()?);
        let source = source.strip_prefix(folder).unwrap_or(source);
        let is_inside = message["target"]["kind"] != serde_json::json!(["test"]);
        let name = format!("{package} {}", source.display());
        Some(Self {
            load: load(package, is_inside),
            rank: rank(&name),
            name,
            program,
            args: Vec::new(),
            folder: folder.to_owned(),
            variables: vec![
                ("CARGO_MANIFEST_DIR", folder.into()),
                ("CARGO_PKG_NAME", package.into()),
            ],
        })
    }

    /// The tests in the documentation, which cargo alone can run: `command` says which.
    pub(crate) fn of_docs(command: &Command, workspace: &Workspace) -> Self {
        let args = command.get_args();
        Self {
            name: "documentation".to_owned(),
            load: Load::Works,
            rank: rank("documentation"),
            program: command.get_program().into(),
            args: args.map(|arg| arg.to_string_lossy().into_owned()).collect(),
            folder: workspace.root.clone(),
            variables: Vec::new(),
        }
    }

    /// A suite for the tests of the code that runs suites.
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            load: Load::Works,
            rank: 0,
            program: name.into(),
            args: Vec::new(),
            folder: "/".into(),
            variables: Vec::new(),
        }
    }

    /// The command that runs it in the folder of its package, with the variables that cargo sets
    /// for a test.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.folder);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Tells whether it is one of this package.
    pub(crate) fn is_of(&self, package: &str) -> bool {
        self.name.split(' ').next() == Some(package)
    }

    /// The path of the program, from the root of the workspace.
    pub(crate) fn place(&self, workspace: &Workspace) -> String {
        workspace.relative(&self.program)
    }
}

/// The load of a suite. Tests inside a library compute; those of these packages call servers and
/// start programs.
fn load(package: &str, is_inside: bool) -> Load {
    if !is_inside && WAITING.contains(&package) {
        Load::Waits
    } else {
        Load::Works
    }
}

/// The place in `LONGEST`, or behind all of them.
fn rank(name: &str) -> usize {
    let place = LONGEST.iter().position(|suite| *suite == name);
    place.unwrap_or(LONGEST.len())
}

/// Packages whose integration tests wait more than they work.
const WAITING: &[&str] = &[
    "semel",
    "semel-broker-amqp",
    "semel-broker-kafka",
    "semel-broker-nats",
    "semel-cli",
    "semel-rdkafka-batch",
    "semel-store-mysql",
    "semel-store-postgres",
    "semel-store-redis",
    "semel-worker",
];
/// The suites that take longest, the longest first: begun last, one of them would hold up the end.
const LONGEST: &[&str] = &[
    "semel-cli tests/semel/main.rs",
    "semel-store-postgres tests/conformance.rs",
    "semel-store-embedded tests/embedded/main.rs",
    "semel-simulation tests/stories.rs",
    "semel-store-postgres tests/postgres/main.rs",
    "semel-store-mysql tests/mysql/main.rs",
    "semel-broker-kafka tests/kafka/main.rs",
    "semel-broker-amqp tests/amqp/main.rs",
    "semel-broker-nats tests/nats/main.rs",
    "semel tests/semel/main.rs",
    "documentation",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn workspace() -> Workspace {
        Workspace {
            root: "/w".into(),
            target: "/w/target".into(),
            metadata: json!({ "packages": [{ "id": "path+cli#1", "name": "semel-cli" }] }),
        }
    }

    fn artifact(kind: &str, source: &str, test: bool) -> String {
        let message = json!({
            "reason": "compiler-artifact",
            "package_id": "path+cli#1",
            "manifest_path": "/w/crates/cli/Cargo.toml",
            "target": { "kind": [kind], "src_path": format!("/w/crates/cli/{source}") },
            "profile": { "test": test },
            "executable": "/w/target/debug/deps/semel-1",
        });
        message.to_string()
    }

    #[test]
    fn a_test_program_runs_in_the_folder_of_its_package() {
        let message = artifact("test", "tests/semel/main.rs", true);
        let suite = Suite::of(&message, &workspace()).expect("a suite");
        assert_eq!(suite.name, "semel-cli tests/semel/main.rs");
        assert_eq!((suite.load, suite.rank), (Load::Waits, 0));
        assert_eq!(suite.place(&workspace()), "target/debug/deps/semel-1");
        let command = suite.command();
        assert_eq!(command.get_program(), "/w/target/debug/deps/semel-1");
        assert_eq!(command.get_current_dir(), Some(Path::new("/w/crates/cli")));
        let told: Vec<_> = command.get_envs().collect();
        assert!(told.contains(&(
            "CARGO_MANIFEST_DIR".as_ref(),
            Some("/w/crates/cli".as_ref())
        )));
    }

    #[test]
    fn tests_inside_a_library_compute_and_programs_without_tests_are_no_suites() {
        let inside = artifact("lib", "src/lib.rs", true);
        let inside = Suite::of(&inside, &workspace()).expect("a suite");
        assert_eq!((inside.load, inside.rank), (Load::Works, LONGEST.len()));
        for message in [
            artifact("bin", "src/main.rs", false),
            artifact("test", "tests/a.rs", true).replace("path+cli#1", "path+other#1"),
            "warning: unused".to_owned(),
        ] {
            assert_eq!(Suite::of(&message, &workspace()), None, "{message}");
        }
    }

    /// A suite that moves would begin last, and no one would notice.
    #[test]
    fn the_suites_that_take_longest_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let folders = [".", "crates", "crates/stores", "crates/brokers"];
        let is_there = |package: &str, source: &str| {
            let inside = folders.iter().flat_map(|at| fs::read_dir(root.join(at)));
            let mut inside = inside.flatten().flatten().map(|entry| entry.path());
            let head = format!("[package]\nname = \"{package}\"\n");
            inside.any(|folder| {
                let manifest = fs::read_to_string(folder.join("Cargo.toml"));
                manifest.is_ok_and(|text| text.starts_with(&head)) && folder.join(source).is_file()
            })
        };
        for suite in LONGEST.iter().filter(|suite| **suite != "documentation") {
            let (package, source) = suite.split_once(' ').expect("a package and a source");
            assert!(is_there(package, source), "{suite}");
        }
        assert!(!is_there("semel-cli", "tests/none.rs"));
    }

    #[test]
    fn documentation_is_tested_by_cargo_at_the_root() {
        let workspace = workspace();
        let suite = Suite::of_docs(&workspace.cargo(["test", "--doc"]), &workspace);
        let command = suite.command();
        let args: Vec<_> = command.get_args().collect();
        assert_eq!(args, ["test", "--doc"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/w")));
    }
}
