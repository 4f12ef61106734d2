//! Builds the programs that must see bugs, with all bugs in them, and runs them with one or without.

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

/// A suite that sees bugs.
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

    /// The target folder for cargo. Tests share their external dependencies with every other build; cargo keeps
    /// the packages of the workspace apart, since they have another compiler. A program would replace the one of
    /// the same name, perhaps this one.
    fn target(self, folder: &Path) -> Option<&Path> {
        match self {
            Self::Library(_) | Self::Tests(..) => folder.parent(),
            Self::Tier(_) => Some(folder),
        }
    }

    /// The arguments for cargo; one binary for all tiers.
    fn args(self) -> Vec<&'static str> {
        match self {
            Self::Library(package) => of_package(package, &["--lib"]),
            Self::Tests(package, name) => of_package(package, &["--test", name]),
            Self::Tier(_) => vec!["build", "--release", "--package", "proof", SCHEDULED],
        }
    }
}

/// Builds tests of a package, with the features that every test of a merge has: without the two programs beside
/// it, which have no such tests, its external dependencies would be compiled once more.
fn of_package(package: &'static str, which: &[&'static str]) -> Vec<&'static str> {
    let mut args = vec!["test", "--no-run", SERVERS, "--package", package];
    args.extend(["--package", "semel-cli", "--package", "proof"]);
    args.extend(which);
    // A test that sees a bug is short: to optimise it takes longer.
    args.extend(UNOPTIMISED.iter().flat_map(|config| ["--config", config]));
    args
}

/// Settings for the packages of the workspace that the manifest has optimised for the proof.
const UNOPTIMISED: [&str; 5] = [
    "profile.test.package.semel-core.opt-level=0",
    "profile.test.package.semel-engine.opt-level=0",
    "profile.test.package.semel-simulation.opt-level=0",
    "profile.test.package.semel-store-embedded.opt-level=0",
    "profile.test.package.semel-store-memory.opt-level=0",
];

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(package) => write!(f, "{package}"),
            Self::Tests(package, name) => write!(f, "{package}/tests/{name}"),
            Self::Tier(id) => write!(f, "{id}"),
        }
    }
}

/// The result of a suite.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// The number of tries: tests, or other units that a tier counts in.
    pub(super) tried: u64,
    /// The unit of that number.
    pub(super) unit: String,
    /// The number of tests that failed, or of a tier's finds.
    pub(super) red: u64,
}

/// Binaries that are built, and the way to build them.
#[derive(Debug, Default)]
pub(super) struct Builds {
    /// A copy of this program, which cannot be rebuilt meanwhile.
    compiler: Option<PathBuf>,
    /// The binaries, by the arguments that cargo got.
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
            // A property's find with a known bug is no regression.
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
                    // A report of another run must not count for this one.
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
    /// The binary, and the folder in which it runs.
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

/// The folder in which tiers are built and everything else is kept, apart from all other builds.
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
    // Other binaries that the tests of a package need are not the tests.
    let is_it = message["profile"]["test"] == true || message["target"]["name"] == "proof";
    let program = message["executable"].as_str().filter(|_| is_it)?;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    Some((PathBuf::from(program), manifest.parent()?.to_owned()))
}

/// Runs a command to its end, within a time limit; returns its output.
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

/// The result in libtest's words; a run without its summary has died, which counts as red.
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

/// The finds of a tier. A missed hard case does not count as seeing a bug.
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
/// Ten times as long as the longest takes.
const PATIENCE: Duration = Duration::from_secs(900);
const TICK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
