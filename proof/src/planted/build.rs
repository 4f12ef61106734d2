//! Builds what must see a bug with it, or without, and runs it.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::compiler::{STANDS_IN, variable};
use super::table::Bug;
use crate::report::Report;
use crate::stopwatch::Stopwatch;

/// What sees bugs: one binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suite {
    /// The tests inside a library.
    Library(&'static str),
    /// Those of a package, in its `tests/`.
    Tests(&'static str, &'static str),
    /// Another tier of the proof.
    Tier(&'static str),
}

impl Suite {
    /// What cargo is to build.
    fn args(self) -> Vec<&'static str> {
        match self {
            Self::Library(package) => vec!["test", "--no-run", "--package", package, "--lib"],
            Self::Tests(package, name) => {
                vec!["test", "--no-run", "--package", package, "--test", name]
            }
            Self::Tier(_) => vec!["build", "--release", "--package", "proof"],
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(package) => write!(f, "{package}"),
            Self::Tests(package, name) => write!(f, "{package}/tests/{name}"),
            Self::Tier(id) => write!(f, "{id}"),
        }
    }
}

/// How a suite ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// How much it tried: tests, or whatever a tier counts in.
    pub(super) tried: u64,
    /// What that counts.
    pub(super) unit: String,
    /// How many tests failed, or how much a tier found.
    pub(super) red: u64,
}

/// Runs those tests of `suite` whose names contain one of `filters`, or the tier.
pub(super) fn tried(
    name: &str,
    bug: Option<&Bug>,
    suite: Suite,
    filters: &[&str],
) -> Result<Verdict, String> {
    let folder = folder()?;
    let (program, at) = built(&folder, bug, suite)?;
    let mut command = Command::new(program);
    command.current_dir(at);
    match suite {
        Suite::Library(_) | Suite::Tests(..) => {
            let (said, status) = ended(command.args(filters), &folder, name)?;
            tests(&said, status)
        }
        Suite::Tier(id) => {
            let report = folder.join(format!("{id}.json"));
            // One of another bug is not to stand for this one's.
            if report.exists() {
                fs::remove_file(&report).map_err(told)?;
            }
            command.arg(id).args(effort(id)).arg("--json").arg(&folder);
            let (_, status) = ended(&mut command, &folder, name)?;
            let text = fs::read_to_string(&report).map_err(|_| format!("{id} found no end"))?;
            tier(
                &serde_json::from_str(&text).map_err(|error| error.to_string())?,
                status,
            )
        }
    }
}

/// How hard a tier tries to see a bug.
fn effort(tier: &str) -> &'static [&'static str] {
    match tier {
        "T2" => &["--seeds", "500"],
        _ => &[],
    }
}

/// Where such builds are, apart from those of everybody else.
fn folder() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(told)?;
    let target = here
        .ancestors()
        .nth(2)
        .ok_or("the proof is in no target folder")?;
    let folder = target.join("planted");
    fs::create_dir_all(&folder).map_err(told)?;
    Ok(folder)
}

/// The binary, and where it wants to run.
fn built(folder: &Path, bug: Option<&Bug>, suite: Suite) -> Result<(PathBuf, PathBuf), String> {
    let here = std::env::current_exe().map_err(told)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(suite.args())
        .arg("--message-format=json-render-diagnostics")
        .env("CARGO_TARGET_DIR", folder)
        .env("RUSTC_WORKSPACE_WRAPPER", here)
        // What is planted is little of what is built.
        .env("CARGO_INCREMENTAL", "1")
        .env(STANDS_IN, "1")
        .stdin(Stdio::null());
    if let Some(bug) = bug {
        cargo.env(variable(bug.within), bug.name);
    }
    let said = cargo
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !said.status.success() {
        let why = String::from_utf8_lossy(&said.stderr);
        return Err(format!("does not build: {}", why.trim()));
    }
    let text = String::from_utf8_lossy(&said.stdout);
    let program = text.lines().find_map(program);
    program.ok_or("cargo names no binary".to_owned())
}

/// The binary that a line of cargo's messages names, and the folder of its package.
fn program(line: &str) -> Option<(PathBuf, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    // Binaries that the tests of a package want besides are not the tests.
    let is_it = message["profile"]["test"] == true || message["target"]["name"] == "proof";
    let program = message["executable"].as_str().filter(|_| is_it)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some((PathBuf::from(program), manifest.parent()?.to_owned()))
}

/// Runs a command to its end, but not for ever; gives back what it said.
fn ended(command: &mut Command, folder: &Path, name: &str) -> Result<(String, ExitStatus), String> {
    let log = folder.join(format!("{name}.log"));
    let file = File::create(&log).map_err(told)?;
    let child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(told)?)
        .stderr(file)
        .spawn();
    let status = waited(child.map_err(told)?)?;
    let said = fs::read(&log).map_err(told)?;
    Ok((String::from_utf8_lossy(&said).into_owned(), status))
}

fn waited(mut child: Child) -> Result<ExitStatus, String> {
    let since = Stopwatch::start();
    loop {
        match child.try_wait().map_err(told)? {
            Some(status) => return Ok(status),
            None if since.elapsed() < PATIENCE => std::thread::sleep(TICK),
            None => {
                child.kill().and_then(|()| child.wait()).map_err(told)?;
                return Err(format!("no end after {PATIENCE:?}"));
            }
        }
    }
}

/// What libtest says; a run that it does not sum up has died, which somebody will notice.
fn tests(said: &str, status: ExitStatus) -> Result<Verdict, String> {
    let number = |after: &str, before: &str| -> Option<u64> {
        let line = said.lines().rev().find(|line| line.starts_with(after))?;
        let (rest, _) = line.split_once(before)?;
        rest.rsplit(' ').next()?.parse().ok()
    };
    let tried = number("running ", " test").ok_or("the tests did not begin")?;
    let red = match (status.success(), number("test result: ", " failed")) {
        (true, Some(0)) => 0,
        (false, Some(red)) if red > 0 => red,
        (false, None) => 1,
        (_, red) => {
            return Err(format!(
                "the tests ended with {status} and {red:?} red ones"
            ));
        }
    };
    let unit = "tests".to_owned();
    Ok(Verdict { tried, unit, red })
}

/// What a tier found. That it did not meet a hard case is no sight of a bug.
fn tier(report: &Report, status: ExitStatus) -> Result<Verdict, String> {
    let found = report.rows.iter().map(|row| {
        let broken = row.duplicates + row.lost + row.doubts_unexplained;
        broken.max(row.violations.len() as u64)
    });
    let red = found.sum();
    match (status.code(), red) {
        (Some(0), 0) | (Some(1), 1..) => {}
        (_, red) => {
            return Err(format!(
                "{} ended with {status} and found {red}",
                report.tier
            ));
        }
    }
    Ok(Verdict {
        tried: report.rows.iter().map(|row| row.tried).sum(),
        unit: report
            .rows
            .first()
            .map(|row| row.unit.clone())
            .unwrap_or_default(),
        red,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` hands it over")]
fn told(error: io::Error) -> String {
    error.to_string()
}

/// As long as the longest takes, ten times over.
const PATIENCE: Duration = Duration::from_secs(900);
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_verdict_is_what_the_tests_said() {
        let said = |result: &str, status: i32| {
            let text = format!("\nrunning 12 tests\ntest a ... ok\n{result}");
            tests(&text, ExitStatus::from_raw(status)).map(|it| (it.tried, it.red))
        };
        let ok = "\ntest result: ok. 12 passed; 0 failed; 0 ignored\n";
        let failed = "\ntest result: FAILED. 9 passed; 3 failed; 0 ignored\n";
        assert_eq!(said(ok, 0), Ok((12, 0)));
        assert_eq!(said(failed, 101 << 8), Ok((12, 3)));
        // A stack overflow, or an abort.
        assert_eq!(said("", 6), Ok((12, 1)));
        assert!(said(ok, 101 << 8).is_err());
        assert!(said("", 0).is_err());
        assert!(tests("", ExitStatus::from_raw(1 << 8)).is_err());
    }

    #[test]
    fn a_tier_sees_a_bug_in_what_it_finds_and_not_in_what_it_misses() {
        let with = |duplicates, status: i32| {
            let mut row = crate::report::Row::new("park", "seeds");
            (row.tried, row.duplicates) = (500, duplicates);
            row.seen.insert("takeover".to_owned(), 0);
            let rows = vec![row];
            let report = Report {
                rows,
                ..Report::default()
            };
            tier(&report, ExitStatus::from_raw(status)).map(|it| (it.tried, it.red))
        };
        assert_eq!(with(0, 0), Ok((500, 0)));
        assert_eq!(with(7, 1 << 8), Ok((500, 7)));
        assert!(with(0, 1 << 8).is_err());
        assert!(with(7, 0).is_err());
        assert!(with(7, 6).is_err());
    }

    #[test]
    fn the_binary_is_read_off_the_messages_of_cargo() {
        let line = |test: bool| {
            let message = serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": "/w/crates/core/Cargo.toml",
                "profile": { "test": test }, "executable": "/t/debug/deps/semel_core-1f",
            });
            program(&message.to_string())
        };
        let expected = (
            "/t/debug/deps/semel_core-1f".into(),
            "/w/crates/core".into(),
        );
        assert_eq!(line(true), Some(expected));
        assert_eq!(line(false), None);
        assert_eq!(program("{}"), None);
    }
}
