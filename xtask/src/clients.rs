//! `cargo xtask clients`: the tests of the clients in other languages, against the real server.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use crate::failure::{Failure, Result};
use crate::process;
use crate::test_results::{Checks, Failed, Tail};
use crate::workspace::Workspace;

/// The compiler of Go, and the Debian package that contains it.
pub(crate) const GO: (&str, &str) = ("go", "golang-go");
/// The compiler of Java, and the Debian package that contains it.
pub(crate) const JAVAC: (&str, &str) = ("javac", "default-jdk-headless");
/// A program of every language, and the Debian package that contains it.
pub(crate) const NEEDED: [(&str, &str); 4] =
    [("python3", "python3"), ("node", "nodejs"), GO, JAVAC];

/// The tests of one language.
struct Language {
    name: &'static str,
    /// Runs them in the folder of the client. `$OUT` is a folder for what is built.
    script: &'static str,
    /// Tells whether a line of the output is that of a test that passed.
    has_passed: fn(&str) -> bool,
}

const LANGUAGES: [Language; 4] = [
    Language {
        name: "node",
        script: "exec node --test test/cases.test.js test/server.test.js test/race.test.js",
        has_passed: |line| line.starts_with("ok "),
    },
    Language {
        name: "go",
        script: "test -z \"$(gofmt -l .)\"; go vet ./...; exec go test -count=1 -v ./...",
        has_passed: |line| line.starts_with("--- PASS: "),
    },
    Language {
        name: "java",
        script: "javac -Xlint:all -Werror -d \"$OUT\" src/*/java/io/github/semelrs/*.java; \
            exec java -cp \"$OUT\" io.github.semelrs.SemelTest",
        has_passed: |line| line.starts_with("ok "),
    },
    Language {
        name: "python",
        script: "exec python3 -B -m unittest --verbose",
        has_passed: |line| line.ends_with(" ... ok") || line == "ok",
    },
];

/// Runs all tests against the server `semel`; prints what failed.
pub(crate) fn run(workspace: &Workspace, semel: &Path) -> Result {
    let results = tests(workspace, semel);
    for failed in &results.failures {
        eprintln!("failed: {}", failed.name);
    }
    if results.failures.is_empty() {
        println!("clients: {} tests passed", results.passed);
        return Ok(());
    }
    Err(Failure::no("not every client keeps what it promises"))
}

/// Runs the tests of all languages against the server `semel`, two at a time, since they wait more than they work.
pub(crate) fn tests(workspace: &Workspace, semel: &Path) -> Checks {
    let run = |language: &Language| process::gather(command(workspace, semel, language));
    summed(&LANGUAGES, run)
}

fn command(workspace: &Workspace, semel: &Path, language: &Language) -> Command {
    let out = workspace.target.join("clients").join(language.name);
    let mut command = Command::new("sh");
    command
        .args(["-ec", language.script])
        .current_dir(workspace.root.join("clients").join(language.name))
        .env("SEMEL_BIN", semel)
        .env("GOCACHE", out.join("cache"))
        .env("GOTOOLCHAIN", "local")
        .env("OUT", out)
        .env_remove("SEMEL_URL")
        .env_remove("SEMEL_TOKEN");
    process::by("timeout", &["--kill-after=10s", LONGEST], &command)
}

fn summed(
    languages: &[Language],
    run: impl Fn(&Language) -> Result<(ExitStatus, String)> + Sync,
) -> Checks {
    let waiting = Mutex::new(languages.iter());
    let (to, ended) = mpsc::sync_channel(languages.len());
    let mut results = Checks::default();
    thread::scope(|scope| {
        for _lane in 0..2 {
            let (to, run, waiting) = (to.clone(), &run, &waiting);
            scope.spawn(move || {
                let next = || {
                    waiting
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .next()
                };
                while let Some(language) = next() {
                    if to.send((language, run(language))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(to);
        for (language, ran) in ended {
            results.count(language, ran);
        }
    });
    results
}

impl Checks {
    /// Counts a language. One that tested nothing has failed.
    fn count(&mut self, language: &Language, ran: Result<(ExitStatus, String)>) {
        let mut tail = Tail::default();
        let fault = match ran {
            Ok((status, said)) => {
                let passed = said.lines().filter(|line| (language.has_passed)(line));
                let passed = passed.count();
                self.passed += passed;
                println!("clients/{}: {passed} tests passed", language.name);
                if status.success() && passed > 0 {
                    return;
                }
                print!("{said}");
                said.lines().for_each(|line| tail.push(line));
                if status.success() {
                    "it tested nothing".to_owned()
                } else {
                    status.to_string()
                }
            }
            Err(failure) => failure.to_string(),
        };
        self.failures.push(Failed {
            name: format!("clients/{}: {fault}", language.name),
            said: tail,
        });
    }
}

/// The time that the tests of one language may take: several times what they take.
const LONGEST: &str = "3m";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_language_that_fails_or_tests_nothing_is_a_failure_and_hides_no_other() {
        let results = summed(&LANGUAGES, |language| match language.name {
            "node" => Ok((
                ExitStatus::default(),
                "ok 1 - a\nok 2 - b\nnot ok".to_owned(),
            )),
            "go" => Ok((
                ExitStatus::from_raw(256),
                "--- PASS: TestA (0.1s)\n".to_owned(),
            )),
            "java" => Err(Failure::environment("cannot start `sh`")),
            _ => Ok((ExitStatus::default(), "Ran 0 tests\n".to_owned())),
        });
        assert_eq!(results.passed, 3);
        let names: BTreeSet<_> = results.failures.into_iter().map(|it| it.name).collect();
        let expected = [
            "clients/go: exit status: 1",
            "clients/java: cannot start `sh`",
            "clients/python: it tested nothing",
        ];
        assert_eq!(names, expected.map(str::to_owned).into());
    }

    #[test]
    fn every_client_is_tested() {
        let workspace = Workspace::find().expect("cargo runs");
        let folders = std::fs::read_dir(workspace.root.join("clients")).expect("the clients");
        let folders = folders.flatten().filter(|entry| entry.path().is_dir());
        let found: BTreeSet<_> = folders.map(|entry| entry.file_name()).collect();
        let tested = LANGUAGES.map(|language| language.name.into());
        assert_eq!(found, tested.into());
    }

    #[test]
    fn a_step_of_a_script_that_fails_ends_it() {
        let workspace = Workspace::find().expect("cargo runs");
        let language = Language {
            name: "go",
            script: "false; echo '--- PASS: later'",
            has_passed: |_| true,
        };
        let (status, said) =
            process::gather(command(&workspace, Path::new("semel"), &language)).expect("sh runs");
        assert_eq!((status.code(), said.as_str()), (Some(1), ""));
    }
}
