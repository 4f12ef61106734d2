//! Builds a suite of tests with a bug, or without, and runs it.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::compiler::{STANDS_IN, variable};
use super::table::Bug;
use crate::stopwatch::Stopwatch;

/// One binary of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suite {
    /// The tests inside a library.
    Library(&'static str),
    /// Those of a package, in its `tests/`.
    Tests(&'static str, &'static str),
}

impl Suite {
    fn args(self) -> Vec<&'static str> {
        match self {
            Self::Library(package) => vec!["--package", package, "--lib"],
            Self::Tests(package, name) => vec!["--package", package, "--test", name],
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(package) => write!(f, "{package}"),
            Self::Tests(package, name) => write!(f, "{package}/tests/{name}"),
        }
    }
}

/// How a suite ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// How many tests ran.
    pub(super) ran: u64,
    /// How many of them failed.
    pub(super) red: u64,
}

/// Runs those tests of `suite` whose names contain one of `filters`, all if there are none.
pub(super) fn tried(
    name: &str,
    bug: Option<&Bug>,
    suite: Suite,
    filters: &[&str],
) -> Result<Verdict, String> {
    let folder = folder()?;
    let (program, at) = built(&folder, bug, suite)?;
    let log = folder.join(format!("{name}.log"));
    let file = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let started = Command::new(program)
        .args(filters)
        .current_dir(at)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(|error| error.to_string())?)
        .stderr(file)
        .spawn();
    let status = ended(started.map_err(|error| error.to_string())?)?;
    let said = fs::read(&log).map_err(|error| error.to_string())?;
    verdict(&String::from_utf8_lossy(&said), status)
}

/// Where such builds are, apart from those of everybody else.
fn folder() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = here
        .ancestors()
        .nth(2)
        .ok_or("the proof is in no target folder")?;
    let folder = target.join("planted");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(folder)
}

/// The binary of the tests, and where it wants to run.
fn built(folder: &Path, bug: Option<&Bug>, suite: Suite) -> Result<(PathBuf, PathBuf), String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args([
            "test",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ])
        .args(suite.args())
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
    program.ok_or("cargo names no binary of tests".to_owned())
}

/// The binary of tests that a line of cargo's messages names, and the folder of its package.
fn program(line: &str) -> Option<(PathBuf, PathBuf)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message["profile"]["test"] == true;
    let program = message["executable"].as_str().filter(|_| is_test)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some((PathBuf::from(program), manifest.parent()?.to_owned()))
}

/// Waits for the end, but not for ever.
fn ended(mut child: Child) -> Result<ExitStatus, String> {
    let since = Stopwatch::start();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => return Ok(status),
            None if since.elapsed() < PATIENCE => std::thread::sleep(TICK),
            None => {
                let stopped = child.kill().and_then(|()| child.wait());
                stopped.map_err(|error| error.to_string())?;
                return Err(format!("the tests were not done after {PATIENCE:?}"));
            }
        }
    }
}

/// What libtest says; a run that it does not sum up has died, which somebody will notice.
fn verdict(said: &str, status: ExitStatus) -> Result<Verdict, String> {
    let number = |after: &str, before: &str| -> Option<u64> {
        let line = said.lines().rev().find(|line| line.starts_with(after))?;
        let (rest, _) = line.split_once(before)?;
        rest.rsplit(' ').next()?.parse().ok()
    };
    let ran = number("running ", " test").ok_or("the tests did not begin")?;
    match (status.success(), number("test result: ", " failed")) {
        (true, Some(0)) => Ok(Verdict { ran, red: 0 }),
        (false, Some(red)) if red > 0 => Ok(Verdict { ran, red }),
        (false, None) => Ok(Verdict { ran, red: 1 }),
        (_, red) => Err(format!(
            "the tests ended with {status} and {red:?} red ones"
        )),
    }
}

/// As long as the longest suite takes, ten times over.
const PATIENCE: Duration = Duration::from_secs(300);
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_verdict_is_what_the_tests_said() {
        let said = |result: &str, status: i32| {
            let text = format!("\nrunning 12 tests\ntest a ... ok\n{result}");
            verdict(&text, ExitStatus::from_raw(status))
        };
        let ok = "\ntest result: ok. 12 passed; 0 failed; 0 ignored\n";
        let failed = "\ntest result: FAILED. 9 passed; 3 failed; 0 ignored\n";
        assert_eq!(said(ok, 0), Ok(Verdict { ran: 12, red: 0 }));
        assert_eq!(said(failed, 101 << 8), Ok(Verdict { ran: 12, red: 3 }));
        // A stack overflow, or an abort.
        assert_eq!(said("", 6), Ok(Verdict { ran: 12, red: 1 }));
        assert!(said(ok, 101 << 8).is_err());
        assert!(said("", 0).is_err());
        assert!(verdict("", ExitStatus::from_raw(1 << 8)).is_err());
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
