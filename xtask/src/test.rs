//! `cargo xtask test`: all checks, in one command and one table.

mod busy_loops;
mod proof;
mod run;
mod table;

use std::num::NonZero;
use std::process::{Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use self::busy_loops::BusyLoops;
use crate::builds::{CLI, EVERYTHING, Profile, SERVERS};
use crate::clients;
use crate::failure::{Failure, Result};
use crate::services::Borrowed;
use crate::test_results::{Checks, Failed, Tail, TestResults};
use crate::utilization::Ticks;
use crate::workspace::Workspace;
use crate::{openapi, process, promtool, readme, tidy};

/// The extent of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Whole,
    /// Everything but the torture, the proof and the checked blocks of the pages.
    Quick,
    /// The tests and the torture alone, with [`BUSY_LOOPS`] beside them.
    Loaded,
}

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed(String),
    Failed(String),
    NotRun(&'static str),
}

/// A step with its numbers of passed and failed checks, and its verdict.
struct Step {
    name: &'static str,
    time: Duration,
    /// The percentage of that time in which the processors had work.
    busy: Option<u64>,
    passed: usize,
    failed: usize,
    verdict: Verdict,
    /// The failures with their last words: a reader sees the end of the output first, or only that.
    failures: Vec<Failed>,
}

/// Runs the steps in order, all of them even after a failure, and prints the table.
pub(crate) fn run(workspace: &Workspace, extent: Extent) -> Result {
    let mut steps = match extent {
        Extent::Whole | Extent::Quick => checks(workspace),
        Extent::Loaded => Vec::new(),
    };
    let mut servers = Borrowed::none(workspace);
    steps.push(step("servers", || {
        let faults = servers.all(workspace);
        had(servers.count(), &faults)
    }));
    let mut built = None;
    steps.push(step("build", || {
        let (report, suites) = run::build(workspace);
        built = suites;
        report
    }));
    match built {
        None => steps.extend(BUILT.map(|name| not_run(name, "it is not built"))),
        Some(built) if extent == Extent::Loaded => steps.extend(loaded(workspace, &servers, built)),
        Some(built) => steps.extend(with_programs(workspace, &servers, built, extent)),
    }
    if let Err(failure) = servers.stop() {
        steps.push(step("stop", || Report::failed(failure.to_string())));
    }
    print!("{}\n{}", table::last_words(&steps), table::text(&steps));
    table::verdict(&steps, extent)
}

/// The checks that run nothing of Semel.
fn checks(workspace: &Workspace) -> Vec<Step> {
    vec![
        step("format", || {
            plain(workspace.cargo(["fmt", "--all", "--check"]))
        }),
        step("lints", || match everything(workspace) {
            Ok(command) => plain(command),
            Err(failure) => Report::failed(failure.to_string()),
        }),
        // The binary as people get it, and without any server.
        step("default", || plain(lints(workspace, &["--package", CLI]))),
        step("bare", || {
            let bare = ["--package", CLI, "--no-default-features"];
            plain(lints(workspace, &bare))
        }),
        step("docs", || plain(docs(workspace))),
        step("tidy", || told(tidy::run(workspace))),
        step("rules", || told(promtool::run(workspace))),
    ]
}

/// The report of a step that says in a line what it found.
fn told(done: Result<String>) -> Report {
    match done {
        Ok(summary) => Report::passed(0, summary),
        Err(failure) => Report::failed(failure.to_string()),
    }
}

/// Clippy of all code, with `bench` and the allocator, which no other step builds. To check the Rust that names the
/// allocator, an empty library stands for its C, which would take a minute to build.
fn everything(workspace: &Workspace) -> Result<Command> {
    let all = [
        "--workspace",
        "--all-targets",
        "--exclude",
        SCHEDULED,
        EVERYTHING,
    ];
    std::fs::create_dir_all(workspace.scratch())?;
    let allocator = workspace.scratch().join("libjemalloc.a");
    std::fs::write(&allocator, "")?;
    let mut command = lints(workspace, &all);
    command.env("JEMALLOC_OVERRIDE", allocator);
    Ok(command)
}

fn lints(workspace: &Workspace, what: &[&str]) -> Command {
    let strict = ["--", "--deny", "warnings"];
    let args = ["clippy"].iter().chain(what).chain(&strict);
    workspace.cargo(args.copied())
}

/// Documents all packages except `bench` and those that are built once more for T4. With an example, since the
/// packages compiled for one have the features of the lints, which have tests and examples: without, lapin, sqlx and
/// more would be compiled for this alone. Binaries by name: that of the CLI has the library's.
fn docs(workspace: &Workspace) -> Command {
    let all = [
        "doc",
        "--no-deps",
        "--workspace",
        "--exclude",
        "bench",
        "--exclude",
        SCHEDULED,
        SERVERS,
    ];
    let which = ["--lib", "--example", "first"];
    let binaries = ["proof", "semel-examples", "xtask"].map(|name| ["--bin", name]);
    let args = all.iter().chain(&which).chain(binaries.iter().flatten());
    let mut doc = workspace.cargo(args.copied());
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    doc
}

/// The steps that run what was built.
fn with_programs(
    workspace: &Workspace,
    servers: &Borrowed,
    built: run::Built,
    extent: Extent,
) -> Vec<Step> {
    let semel = Profile::Dev.semel(workspace);
    // Every step below waits now and then, for servers and for killed workers: that time is the proof's.
    let proof = (extent == Extent::Whole).then(|| proof::begin(workspace, servers));
    let mut steps = vec![
        step("clients", || {
            let tests = clients::tests(workspace, &semel);
            checked(tests, |passed| format!("{passed} tests in 4 languages"))
        }),
        step("tests", || run::run(workspace, servers, built.tests)),
    ];
    let openapi = || {
        step("openapi", || {
            told(openapi::run(workspace, &semel, openapi::REQUESTS))
        })
    };
    let Some(proof) = proof else {
        steps.push(openapi());
        steps.extend(LONG.map(|name| not_run(name, "--quick")));
        return steps;
    };
    steps.push(step("torture", || {
        run::torture(workspace, servers, &built.torture)
    }));
    // The one computes while the other waits.
    thread::scope(|scope| {
        let openapi = scope.spawn(openapi);
        steps.push(step("readme", || {
            match readme::blocks(workspace, servers) {
                Ok(blocks) => checked(blocks, |passed| format!("{passed} checked blocks")),
                Err(failure) => Report::failed(failure.to_string()),
            }
        }));
        steps.push(openapi.join().expect("a step does not panic"));
    });
    steps.push(step("proof", || proof::end(workspace, proof)));
    steps
}

/// The steps whose tests run beside busy loops.
fn loaded(workspace: &Workspace, servers: &Borrowed, built: run::Built) -> Vec<Step> {
    let _loops = BusyLoops::start(BUSY_LOOPS);
    vec![
        step("tests", || run::run(workspace, servers, built.tests)),
        step("torture", || {
            run::torture(workspace, servers, &built.torture)
        }),
    ]
}

/// The result of starting the servers. A server that cannot be started is a failure; the tests that need it will be
/// others.
fn had(up: usize, faults: &[Failure]) -> Report {
    for fault in faults {
        println!("{fault}");
    }
    match faults.first() {
        None => Report::passed(0, format!("{up} are up")),
        Some(fault) => Report::failed(fault.to_string()),
    }
}

/// The number of processors.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The result of one step.
struct Report {
    passed: usize,
    failed: usize,
    verdict: Verdict,
    failures: Vec<Failed>,
}

impl Report {
    fn passed(passed: usize, words: impl Into<String>) -> Self {
        Self {
            passed,
            failed: 0,
            verdict: Verdict::Passed(words.into()),
            failures: Vec::new(),
        }
    }

    /// One failure, for steps that fail without a count of their own.
    fn failed(words: impl Into<String>) -> Self {
        Self {
            passed: 0,
            failed: 1,
            verdict: Verdict::Failed(words.into()),
            failures: Vec::new(),
        }
    }
}

/// The result of checks of our own, that `passed` describes if none failed.
fn checked(checks: Checks, passed: impl FnOnce(usize) -> String) -> Report {
    match checks.failures.first() {
        None => Report::passed(checks.passed, passed(checks.passed)),
        Some(failed) => Report {
            passed: checks.passed,
            failed: checks.failures.len(),
            verdict: Verdict::Failed(failed.name.clone()),
            failures: checks.failures,
        },
    }
}

/// Runs a command that either succeeds or does not.
fn plain(command: Command) -> Report {
    let mut said = Tail::default();
    match process::stream(command, |line| said.push(line)) {
        Ok(status) => succeeded(status, said),
        Err(failure) => Report::failed(failure.to_string()),
    }
}

/// The result of a command that has nothing but its status.
fn succeeded(status: ExitStatus, said: Tail) -> Report {
    if status.success() {
        return Report::passed(0, "ok");
    }
    Report {
        failures: vec![Failed {
            name: status.to_string(),
            said,
        }],
        ..Report::failed(status.to_string())
    }
}

/// The result of a run of tests that ended with this status.
fn summed(results: TestResults, status: ExitStatus) -> Report {
    match results.fault(status) {
        None => {
            let words = format!("{} tests in {} suites", results.passed, results.suites);
            Report::passed(results.passed, words)
        }
        Some(fault) => Report {
            passed: results.passed,
            failed: results.failed.max(1),
            verdict: Verdict::Failed(fault),
            failures: results.failures,
        },
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a step takes is shown, never decided on"
)]
fn step(name: &'static str, run: impl FnOnce() -> Report) -> Step {
    println!("\n── {name} ──");
    let start = Instant::now();
    let before = Ticks::now();
    let Report {
        passed,
        failed,
        verdict,
        failures,
    } = run();
    let after = Ticks::now();
    Step {
        name,
        time: start.elapsed(),
        busy: after
            .zip(before)
            .and_then(|(after, before)| after.percent_since(before)),
        passed,
        failed,
        verdict,
        failures,
    }
}

fn not_run(name: &'static str, reason: &'static str) -> Step {
    Step {
        name,
        time: Duration::ZERO,
        busy: None,
        passed: 0,
        failed: 0,
        verdict: Verdict::NotRun(reason),
        failures: Vec::new(),
    }
}

/// Three crates that are linted under their own names, built once more for T4: the build of the tests compiles them.
const SCHEDULED: &str = "semel-scheduled-*";
/// The number of busy loops beside the tests of a loaded run: three for each processor of the machine that lands.
const BUSY_LOOPS: usize = 6;
/// The variable that sets how many tests run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// The steps that run what the tests' build has made.
const BUILT: [&str; 6] = ["clients", "tests", "openapi", "torture", "proof", "readme"];
/// Those of them that a quick run leaves out.
const LONG: [&str; 3] = ["torture", "readme", "proof"];

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn tests(command: Command) -> Report {
        let mut results = TestResults::default();
        let (status, said) = process::gather(command).expect("it runs");
        results.suite("tests", status, &said);
        summed(results, status)
    }

    const OK: &str = "echo 'test result: ok. 3 passed; 0 failed; 0 ignored; 0 filtered out'";

    #[test]
    fn the_last_line_is_the_sum_and_a_failed_step_is_in_it() {
        let steps = [
            step("format", || plain(sh("exit 1"))),
            step("tests", || tests(sh(OK))),
            not_run("torture", "--quick"),
        ];
        let table = table::text(&steps);
        assert_eq!(table.lines().last(), Some("3 passed, 1 failed"));
        assert!(table.contains("NOT RUN: --quick"), "{table}");
        assert!(
            table.starts_with("step           time   busy  result\n"),
            "{table}"
        );
        assert_eq!(
            table::verdict(&steps, Extent::Quick).map_err(|f| f.to_string()),
            Err("not green: format".to_owned())
        );
    }

    #[test]
    fn what_failed_says_so_once_more_before_the_table() {
        let steps = [
            step("format", || plain(sh("echo fine"))),
            step("lints", || plain(sh("echo why; exit 1"))),
        ];
        let words = table::last_words(&steps);
        assert_eq!(words, "\n── failed: lints: exit status: 1 ──\nwhy\n");
    }

    #[test]
    fn what_was_left_out_is_a_failure_of_the_whole() {
        let steps = [
            step("tests", || tests(sh(OK))),
            not_run("torture", "it is not built"),
        ];
        assert!(table::verdict(&steps, Extent::Quick).is_ok());
        assert!(table::verdict(&steps, Extent::Whole).is_err());
    }

    #[test]
    fn a_server_that_cannot_be_had_is_a_failure() {
        assert_eq!(had(4, &[]).failed, 0);
        let report = had(3, &[Failure::environment("redis does not come up: why")]);
        assert_eq!(report.failed, 1);
        let why = "redis does not come up: why".to_owned();
        assert_eq!(report.verdict, Verdict::Failed(why));
    }

    #[test]
    fn tests_that_did_not_run_are_no_success() {
        let report = summed(TestResults::default(), ExitStatus::default());
        let none = Verdict::Failed("not one test ran".to_owned());
        assert_eq!((report.failed, report.verdict), (1, none));
        assert_eq!(tests(sh("true")).failed, 1);
        let report = tests(sh(&format!("{OK}; exit 101")));
        assert_eq!((report.passed, report.failed), (3, 1));
        assert!(matches!(report.verdict, Verdict::Failed(_)));
    }
}
