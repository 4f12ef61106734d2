//! The steps `build`, `tests` and `torture`: every test program of the workspace, built once; those of the tests are run
//! in lanes, and those of the torture one after the other.

use std::process::{Command, ExitStatus};

use crate::builds::{self, HEAVY, Profile, TORTURE, tested};
use crate::examples;
use crate::failure::Result;
use crate::lanes::{self, Ended};
use crate::process;
use crate::scratch::Scratch;
use crate::services::Borrowed;
use crate::suites::{Load, Suite};
use crate::test_results::{Tail, TestResults};
use crate::workspace::Workspace;

use super::{Report, THREADS, plain, processors, succeeded, summed};

/// The test programs of the workspace.
pub(super) struct Built {
    /// Those of the torture, which run the binary.
    pub(super) torture: Vec<Suite>,
    /// All others.
    pub(super) tests: Vec<Suite>,
}

/// Builds the test programs, the binary and the proof; returns nothing if one does not build.
pub(super) fn build(workspace: &Workspace) -> (Report, Option<Built>) {
    let mut said = Tail::default();
    let mut suites = Vec::new();
    let build = workspace.cargo(build_args(workspace));
    let ended = process::stream_some(build, |line| {
        let is_message = line.starts_with('{');
        if is_message {
            suites.extend(Suite::of(line, workspace));
        } else {
            said.push(line);
        }
        !is_message
    });
    let report = match ended {
        Ok(status) => succeeded(status, said),
        Err(failure) => Report::failed(failure.to_string()),
    };
    let absent = without_suite(workspace, &suites);
    if report.failed == 0 && !absent.is_empty() {
        let words = format!("cargo names no test program of {}", absent.join(", "));
        return (Report::failed(words), None);
    }
    if report.failed > 0 {
        return (report, None);
    }
    let programs = plain(builds::programs(workspace));
    if programs.failed > 0 {
        return (programs, None);
    }
    let docs = workspace.cargo(docs_args(workspace));
    suites.push(Suite::of_docs(&docs, workspace));
    let words = format!("{} suites", suites.len());
    let (torture, tests) = suites.into_iter().partition(|it| it.is_of(TORTURE));
    (Report::passed(0, words), Some(Built { torture, tests }))
}

/// Runs the suites in lanes, prints the output of each as one piece, and counts over all of them.
pub(super) fn run(workspace: &Workspace, servers: &Borrowed, suites: Vec<Suite>) -> Report {
    let scratch = Scratch::new();
    let run = |suite: &Suite| {
        let mut command = equipped(workspace, servers, suite);
        if suite.load == Load::Works {
            scratch.lend(&mut command);
        }
        process::gather(limited(&command, suite.load))
    };
    counted(workspace, suites, run)
}

/// The command of a suite, with the servers and the recorded webhooks that its tests need.
fn equipped(workspace: &Workspace, servers: &Borrowed, suite: &Suite) -> Command {
    let mut command = suite.command();
    servers.lend(&mut command);
    for package in examples::PACKAGES {
        if let Some(folder) = package.fetched(workspace) {
            command.env(package.variable, folder);
        }
    }
    command
}

fn counted(
    workspace: &Workspace,
    suites: Vec<Suite>,
    run: impl Fn(&Suite) -> Result<(ExitStatus, String)> + Sync,
) -> Report {
    let (all, mut done) = (suites.len(), 0);
    let mut results = TestResults::default();
    lanes::run(suites, &LANES, run, |ended| {
        done += 1;
        let Ended { suite, ran, time } = ended;
        let seconds = time.as_secs_f64();
        let name = suite.name.as_str();
        let place = suite.place(workspace);
        println!("     Running {name} ({place}), {done} of {all}, ended after {seconds:.1} s");
        match ran {
            Ok((status, said)) => {
                print!("{said}");
                results.suite(name, status, &said);
            }
            Err(failure) => {
                println!("{failure}");
                results.died(format!("{name}: {failure}"), Tail::default());
            }
        }
    });
    if done != all {
        results.died(format!("{done} of {all} suites ended"), Tail::default());
    }
    summed(results, ExitStatus::default())
}

/// Runs the torture tests, the ignored ones too; without them, nothing was tortured.
pub(super) fn torture(workspace: &Workspace, servers: &Borrowed, suites: &[Suite]) -> Report {
    let mut results = TestResults::default();
    let mut on_the_binary = 0;
    for suite in suites {
        match process::capture(suite.command().args(["--list", "--ignored"])) {
            Ok(list) => on_the_binary += list.lines().filter(|it| it.ends_with(": test")).count(),
            Err(failure) => return Report::failed(failure.to_string()),
        }
        let mut command = equipped(workspace, servers, suite);
        command
            .arg("--include-ignored")
            .env("SEMEL_BIN", Profile::Dev.semel(workspace));
        let name = suite.name.as_str();
        println!("     Running {name} ({})", suite.place(workspace));
        let mut said = String::new();
        let ran = process::stream(limited(&command, Load::Sleeps), |line| {
            said.push_str(line);
            said.push('\n');
        });
        match ran {
            Ok(status) => results.suite(name, status, &said),
            Err(failure) => results.died(format!("{name}: {failure}"), Tail::default()),
        }
    }
    if on_the_binary == 0 {
        return Report::failed("none of the tests needs the semel binary");
    }
    summed(results, ExitStatus::default())
}

/// The suite with a limit of its own, and the number of concurrent tests that suits its load. A suite that
/// computes yields to one that has waited.
fn limited(command: &Command, load: Load) -> Command {
    let (at_once, niceness) = match load {
        Load::Sleeps => (3 * processors(), "0"),
        Load::Waits => (2 * processors(), "0"),
        Load::Works => (processors(), "5"),
    };
    let limited = process::by("timeout", &["--kill-after=30s", LONGEST], command);
    let mut limited = process::by("nice", &["-n", niceness], &limited);
    // A user who sets the number of threads has a reason.
    if std::env::var_os(THREADS).is_none() {
        limited.env(THREADS, at_once.to_string());
    }
    limited
}

/// The tested packages for which cargo named no test program.
fn without_suite<'a>(workspace: &'a Workspace, suites: &[Suite]) -> Vec<&'a str> {
    let members = workspace.default_members().into_iter().chain(HEAVY);
    let absent = members.filter(|name| !suites.iter().any(|suite| suite.is_of(name)));
    absent.collect()
}

/// The tests of every default member, and of the packages that a plain `cargo build` leaves alone because they compile
/// a library of their own. Clippy checks that every example compiles; the tests of `semel` run them.
fn build_args(workspace: &Workspace) -> Vec<&str> {
    let mut args = vec!["test", "--no-run", "--lib", "--bins", "--tests"];
    args.push("--message-format=json-render-diagnostics");
    args.extend(tested(workspace));
    args
}

/// The tests in the documentation of the same packages.
fn docs_args(workspace: &Workspace) -> Vec<&str> {
    let mut args = vec!["test", "--no-fail-fast", "--doc"];
    args.extend(tested(workspace));
    args
}

/// For two processors: beside one lane that computes, two that wait.
const LANES: [Load; 3] = [Load::Waits, Load::Waits, Load::Works];
/// The time that one suite may take: several times that of the slowest.
const LONGEST: &str = "45m";

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::super::Verdict;
    use super::*;
    use crate::failure::Failure;

    fn workspace() -> Workspace {
        let metadata = serde_json::json!({
            "workspace_default_members": ["a", "t"],
            "packages": [{ "id": "a", "name": "semel-core" }, { "id": "t", "name": "torture" }],
        });
        Workspace {
            root: "/w".into(),
            target: "/w/target".into(),
            metadata,
        }
    }

    #[test]
    fn all_commands_take_the_same_packages() {
        let workspace = workspace();
        let packages = tested(&workspace);
        for name in ["semel-core", TORTURE, HEAVY[0], HEAVY[1]] {
            assert!(packages.contains(&name), "{name}");
        }
        for args in [build_args(&workspace), docs_args(&workspace)] {
            assert!(args.ends_with(&packages), "{args:?}");
        }
    }

    #[test]
    fn a_package_whose_tests_cargo_does_not_name_is_missed() {
        let workspace = workspace();
        let suites = [
            Suite::named("semel-core src/lib.rs"),
            Suite::named("semel-broker-kafka tests/kafka/main.rs"),
        ];
        assert_eq!(without_suite(&workspace, &suites), [TORTURE, HEAVY[1]]);
    }

    #[test]
    fn suites_are_counted_together_and_one_that_fails_hides_no_other() {
        let ok = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 filtered out";
        let names = ["good", "gone", "killed", "good too"];
        let suites = names.map(Suite::named).into();
        let report = counted(&workspace(), suites, |suite| match suite.name.as_str() {
            "gone" => Err(Failure::environment("cannot start it")),
            "killed" => Ok((ExitStatus::from_raw(9), "running 3 tests".to_owned())),
            _ => Ok((ExitStatus::default(), ok.to_owned())),
        });
        assert_eq!((report.passed, report.failed), (6, 2));
        let mut failures: Vec<_> = report.failures.into_iter().map(|it| it.name).collect();
        failures.sort();
        let expected = ["gone: cannot start it", "killed: signal: 9 (SIGKILL)"];
        assert_eq!(failures, expected);
    }

    #[test]
    fn where_all_is_well_the_suites_are_told() {
        let ok = "test result: ok. 3 passed; 0 failed; 0 ignored; 0 filtered out";
        let suites = ["one", "two"].map(Suite::named).into();
        let report = counted(&workspace(), suites, |_| {
            Ok((ExitStatus::default(), ok.to_owned()))
        });
        let words = "6 tests in 2 suites".to_owned();
        assert_eq!(report.verdict, Verdict::Passed(words));
    }

    #[test]
    fn a_suite_has_a_limit_and_so_many_tests_at_once_as_suit_its_load() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $RUST_TEST_THREADS; nice"]);
        let said = |load| {
            let (_, said) = process::gather(limited(&command, load)).expect("it runs");
            let lines: Vec<usize> = said.lines().filter_map(|it| it.parse().ok()).collect();
            (lines[0], lines[1])
        };
        let ((waits, first), (works, then)) = (said(Load::Waits), said(Load::Works));
        assert_eq!(then, (first + 5).min(19));
        if std::env::var_os(THREADS).is_none() {
            assert_eq!((waits, works), (2 * processors(), processors()));
        }
        let limited = limited(&command, Load::Works);
        let args: Vec<_> = limited.get_args().collect();
        assert!(args.contains(&LONGEST.as_ref()), "{args:?}");
    }
}
