//! `cargo xtask test`: all checks, in one command and one table.

mod proof;
mod run;
mod table;

use std::num::NonZero;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::background::Background;
use crate::builds::{CLI, EVERYTHING, Profile, SERVERS, TORTURE};
use crate::failure::{Failure, Result};
use crate::services::Borrowed;
use crate::test_results::{Failed, Tail, TestResults};
use crate::utilization::Ticks;
use crate::workspace::Workspace;
use crate::{builds, examples, process, promtool, readme, tidy};

/// The extent of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Whole,
    /// Everything that does not need the optimised binary.
    Quick,
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
    let mut steps = checks(workspace);
    // Until now all cores were busy; tests on servers wait a lot.
    let background = (extent == Extent::Whole).then(|| {
        Background::start(
            &builds::merge(workspace),
            workspace.scratch().join("optimised.log"),
        )
    });
    let mut servers = Borrowed::none(workspace);
    steps.push(step("servers", || {
        let faults = servers.all(workspace);
        had(servers.count(), &faults)
    }));
    let mut suites = Vec::new();
    steps.push(step("build", || {
        let (report, built) = run::build(workspace);
        suites = built;
        report
    }));
    steps.push(if suites.is_empty() {
        not_run("tests", "they are not built")
    } else {
        step("tests", || run::run(workspace, &servers, suites))
    });
    match background {
        None => steps.extend(OPTIMISED.map(|name| not_run(name, "--quick"))),
        Some(background) => steps.extend(optimised(workspace, &servers, background)),
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

/// The result of the build that ran beside the tests.
fn built(background: Result<Background>) -> Report {
    match background.and_then(Background::wait) {
        Ok((status, said)) => {
            print!("{said}");
            let mut tail = Tail::default();
            said.lines().for_each(|line| tail.push(line));
            succeeded(status, tail)
        }
        Err(failure) => Report::failed(failure.to_string()),
    }
}

/// The steps that need the optimised build, which is under way.
fn optimised(
    workspace: &Workspace,
    servers: &Borrowed,
    background: Result<Background>,
) -> Vec<Step> {
    let built = step("optimised", || built(background));
    if built.failed > 0 {
        let rest = OPTIMISED.into_iter().skip(1);
        let rest = rest.map(|name| not_run(name, "no optimised build"));
        return std::iter::once(built).chain(rest).collect();
    }
    // The torture waits for servers and for killed workers, and that time is the proof's.
    let proof = proof::begin(workspace, servers);
    vec![
        built,
        step("torture", || torture(workspace, servers)),
        step("proof", || proof::end(workspace, proof)),
        step("readme", || match readme::run(workspace, servers) {
            Ok(passed) => Report::passed(passed, format!("{passed} checked blocks")),
            Err(failure) => Report::failed(failure.to_string()),
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

/// The command, with the addresses of the servers.
fn with(servers: &Borrowed, mut command: Command) -> Command {
    servers.lend(&mut command);
    command
}

/// The number of processors.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// The arguments with which cargo takes the packages that the tests have, with the same features.
pub(crate) fn tested(workspace: &Workspace) -> Vec<&str> {
    let mut args = vec![SERVERS];
    for name in workspace.default_members().into_iter().chain(HEAVY) {
        if name != TORTURE {
            args.extend(["--package", name]);
        }
    }
    args
}

/// Runs the torture tests, the ignored ones too; without them, nothing was tortured.
fn torture(workspace: &Workspace, servers: &Borrowed) -> Report {
    let mut all = with(servers, builds::torture(workspace));
    all.args(["--", "--include-ignored"])
        .env("SEMEL_BIN", Profile::Merge.semel(workspace));
    if let Some(folder) = examples::fetched(workspace) {
        all.env("SEMEL_WEBHOOK_EXAMPLES", folder);
    }
    let report = tests(all);
    let mut ignored = builds::torture(workspace);
    match process::capture(ignored.args(["--", "--list", "--ignored"])) {
        Ok(list) if list.lines().any(|line| line.ends_with(": test")) => report,
        _ if report.failed > 0 => report,
        Ok(_) => Report::failed("none of the tests needs the semel binary"),
        Err(failure) => Report::failed(failure.to_string()),
    }
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

/// Runs `cargo test`, with two tests at once for each processor, since those on servers wait more than they work.
fn tests(mut command: Command) -> Report {
    let mut results = TestResults::default();
    // A user who sets the number of threads has a reason.
    if std::env::var_os(THREADS).is_none() {
        command.env(THREADS, (2 * processors()).to_string());
    }
    // A test that waits in vain must not hold up the rest for ever.
    let command = process::by("timeout", &["--kill-after=30s", LONGEST], &command);
    let status = match process::stream(command, |line| results.read(line)) {
        Ok(status) => status,
        Err(failure) => return Report::failed(failure.to_string()),
    };
    summed(results, status)
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

/// Three crates that are linted under their own names, built once more for T4: its optimised build compiles them.
const SCHEDULED: &str = "semel-scheduled-*";
/// The variable that sets how many tests run at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// The time that one run of tests may take: twice that of the slowest.
const LONGEST: &str = "45m";
/// The steps that need the optimised build, which is the first of them.
const OPTIMISED: [&str; 4] = ["optimised", "torture", "proof", "readme"];
/// Packages that are no default members, since librdkafka takes a minute to build, and are tested all the same.
const HEAVY: [&str; 2] = ["semel-broker-kafka", "semel-rdkafka-batch"];

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
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
            not_run("torture", "no optimised build"),
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
        let report = tests(sh("true"));
        assert_eq!(
            report.verdict,
            Verdict::Failed("not one test ran".to_owned())
        );
        assert_eq!(report.failed, 1);
        let report = tests(sh(&format!("{OK}; exit 101")));
        assert_eq!((report.passed, report.failed), (3, 1));
        assert!(matches!(report.verdict, Verdict::Failed(_)));
    }
}
