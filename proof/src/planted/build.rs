//! Builds what must see bugs, with all of them in it, and runs it with one or without.

mod seeded;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::compiler::STANDS_IN;
use crate::report::Report;
use crate::stopwatch::Stopwatch;

/// What sees bugs.
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
    /// The package whose tests it runs.
    #[cfg(test)]
    pub(super) const fn package(self) -> Option<&'static str> {
        match self {
            Self::Library(package) | Self::Tests(package, _) => Some(package),
            Self::Tier(_) => None,
        }
    }

    /// Where cargo is to build it. Tests share with every other build what they depend on from elsewhere; what
    /// is of the workspace cargo keeps apart, since it has another compiler. A program would take the place of
    /// the one of the same name, perhaps of this one.
    fn target(self, folder: &Path) -> Option<&Path> {
        match self {
            Self::Library(_) | Self::Tests(..) => folder.parent(),
            Self::Tier(_) => Some(folder),
        }
    }

    /// What cargo is to build; one binary for all tiers.
    fn args(self) -> Vec<&'static str> {
        match self {
            Self::Library(package) => of_package(package, &["--lib"]),
            Self::Tests(package, name) => of_package(package, &["--test", name]),
            Self::Tier(_) => vec!["build", "--release", "--package", "proof", SCHEDULED],
        }
    }
}

/// Tests of a package, with the features that every test of a merge has: without the two programs beside it, which
/// have no such tests, what it depends on from elsewhere would be compiled once more.
fn of_package(package: &'static str, which: &[&'static str]) -> Vec<&'static str> {
    let mut args = vec!["test", "--no-run", SERVERS, "--package", package];
    args.extend(["--package", "semel-cli", "--package", "proof"]);
    args.extend(which);
    args
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

/// Binaries that are built, and how.
#[derive(Debug, Default)]
pub(super) struct Builds {
    /// A copy of this program: nobody builds it anew meanwhile.
    compiler: Option<PathBuf>,
    /// By what cargo was asked for.
    programs: BTreeMap<Vec<&'static str>, (PathBuf, PathBuf)>,
}

impl Builds {
    /// Runs those tests of `suite` whose names contain one of `filters`, or the tier.
    pub(super) fn tried(
        &mut self,
        bug: Option<&'static str>,
        suite: Suite,
        filters: &[&str],
    ) -> Result<Verdict, String> {
        let folder = folder()?;
        let (program, at) = self.program(suite, &folder)?;
        let log = folder.join(format!("{}.log", bug.unwrap_or("none")));
        let command = || {
            let mut command = Command::new(&program);
            command.current_dir(&at).env_remove(PLANTED);
            // What a property finds of a bug that is known is no regression.
            command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1");
            if let Some(bug) = bug {
                command.env(PLANTED, bug);
            }
            command
        };
        match suite {
            Suite::Library(_) | Suite::Tests(..) => {
                let (said, status) = ended(command().args(filters), &log)?;
                tests(&said, status)
            }
            Suite::Tier(id) => {
                let report = folder.join(format!("{id}.json"));
                let tried = |words: &[String]| {
                    // One of another run is not to stand for this one's.
                    if report.exists() {
                        fs::remove_file(&report).map_err(told)?;
                    }
                    let mut command = command();
                    command.arg(id).args(words).arg("--json").arg(&folder);
                    let (said, status) = ended(&mut command, &log)?;
                    let text = fs::read_to_string(&report)
                        .map_err(|_| format!("{id} found no end: {}", last_line(&said)))?;
                    let read = serde_json::from_str(&text);
                    Ok((read.map_err(|error| error.to_string())?, status))
                };
                if SEEDED.contains(&id) {
                    seeded::tried(bug.is_some(), tried)
                } else {
                    let (report, status) = tried(&[])?;
                    tier(&report, status)
                }
            }
        }
    }
}

impl Builds {
    /// The binary, and where it wants to run.
    fn program(&mut self, suite: Suite, folder: &Path) -> Result<(PathBuf, PathBuf), String> {
        let args = suite.args();
        if let Some(built) = self.programs.get(&args) {
            return Ok(built.clone());
        }
        let compiler = match &self.compiler {
            Some(compiler) => compiler,
            None => self.compiler.insert(compiler_in(folder)?),
        };
        let target = suite.target(folder).unwrap_or(folder);
        let built = built(compiler, target, &args)?;
        self.programs.insert(args, built.clone());
        Ok(built)
    }
}

/// A copy of this program, in the place of one that an earlier run may have left.
fn compiler_in(folder: &Path) -> Result<PathBuf, String> {
    let compiler = folder.join("compiler");
    if compiler.exists() {
        fs::remove_file(&compiler).map_err(told)?;
    }
    fs::copy(std::env::current_exe().map_err(told)?, &compiler).map_err(told)?;
    Ok(compiler)
}

fn last_line(said: &str) -> &str {
    let lines = said.lines().rev().map(str::trim);
    lines
        .into_iter()
        .find(|it| !it.is_empty())
        .unwrap_or("nothing was said")
}

/// Where tiers are built, and everything else is kept, apart from what is of everybody else.
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

/// Builds with a compiler that is this program, into `target`.
fn built(compiler: &Path, target: &Path, args: &[&str]) -> Result<(PathBuf, PathBuf), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(args)
        .arg("--message-format=json-render-diagnostics")
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTC_WORKSPACE_WRAPPER", compiler)
        .env(STANDS_IN, "1")
        .stdin(Stdio::null());
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
fn ended(command: &mut Command, log: &Path) -> Result<(String, ExitStatus), String> {
    let file = File::create(log).map_err(told)?;
    let child = command
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(told)?)
        .stderr(file)
        .spawn();
    let status = waited(child.map_err(told)?)?;
    let said = fs::read(log).map_err(told)?;
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

/// For T4.
const SCHEDULED: &str = "--features=proof/scheduled";
/// As `cargo xtask test` has it.
const SERVERS: &str = "--features=semel-cli/servers";
/// Names the bug that a program is to have.
const PLANTED: &str = "SEMEL_PLANTED";
/// Tiers that a seed begins.
const SEEDED: [&str; 2] = ["T2", "T10"];
/// As long as the longest takes, ten times over.
const PATIENCE: Duration = Duration::from_secs(900);
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
