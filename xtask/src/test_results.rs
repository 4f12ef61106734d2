//! The result of a run of `cargo test`, read from its output.

use std::collections::{BTreeSet, VecDeque};
use std::process::ExitStatus;

/// Sums over the test binaries of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestResults {
    /// Test binaries and doc-test runs that reported a result.
    pub(crate) suites: usize,
    /// Tests that passed.
    pub(crate) passed: usize,
    /// Tests that failed.
    pub(crate) failed: usize,
    /// The failed tests, in the order of the run.
    pub(crate) failures: Vec<Failed>,
    /// Tests that were not run, by name.
    ignored: Vec<String>,
    not_run: usize,
    /// Tests that run for long and have not ended.
    slow: BTreeSet<String>,
    /// The test binary that is running, as cargo names it.
    suite: String,
    /// True if the lines belong to the output of the last of `failures`.
    telling: bool,
}

/// The sums of a step that runs checks of its own.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) passed: usize,
    pub(crate) failures: Vec<Failed>,
}

/// A test that failed, with the end of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    /// The test, and the binary that it is in.
    pub(crate) name: String,
    pub(crate) said: Tail,
}

/// The last lines of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail(VecDeque<String>);

impl Tail {
    const LINES: usize = 40;

    pub(crate) fn push(&mut self, line: &str) {
        if self.0.len() == Self::LINES {
            self.0.pop_front();
        }
        self.0.push_back(plain(line));
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl TestResults {
    /// Counts a suite that was run on its own, with all of its output: one that ended badly, or without a result,
    /// has failed whatever it counted.
    pub(crate) fn suite(&mut self, name: &str, status: ExitStatus, said: &str) {
        let (suites, failed) = (self.suites, self.failed);
        self.slow.clear();
        name.clone_into(&mut self.suite);
        said.lines().for_each(|line| self.read(line));
        let why = match (status.success(), self.failed > failed, self.suites > suites) {
            (false, false, _) => status.to_string(),
            (true, _, false) => "it ended without a result".to_owned(),
            (true, ..) | (false, true, _) => return,
        };
        let running: Vec<&str> = self.slow.iter().map(String::as_str).collect();
        let why = match running.join(", ") {
            running if running.is_empty() => why,
            running => format!("{why}; still running: {running}"),
        };
        let mut tail = Tail::default();
        said.lines().for_each(|line| tail.push(line));
        self.died(format!("{name}: {why}"), tail);
    }

    /// Counts a suite that ended before it could count.
    pub(crate) fn died(&mut self, name: String, said: Tail) {
        self.failed += 1;
        self.failures.push(Failed { name, said });
        self.telling = false;
    }

    /// Counts one line of output.
    pub(crate) fn read(&mut self, line: &str) {
        let line = plain(line);
        self.tell(&line);
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.suites += 1;
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.not_run += count(counts, "ignored") + count(counts, "filtered out");
        } else if let Some(rest) = line.strip_prefix("test ") {
            if let Some((name, _)) = rest.split_once(" ... ignored") {
                self.ignored.push(name.to_owned());
            } else if let Some((name, _)) = rest.split_once(" has been running for over ") {
                self.slow.insert(name.to_owned());
            } else if let Some((name, _)) = rest.split_once(" ... ") {
                self.slow.remove(name);
            }
        }
    }

    /// Keeps the output of failed tests: libtest repeats it under `---- NAME stdout ----`, before it lists their
    /// names.
    fn tell(&mut self, line: &str) {
        let heading = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(suite) = line.trim_start().strip_prefix("Running ") {
            suite
                .split(" (")
                .next()
                .unwrap_or(suite)
                .clone_into(&mut self.suite);
        } else if let Some(suite) = line.trim_start().strip_prefix("Doc-tests ") {
            self.suite = format!("doc-tests of {suite}");
        } else if let Some(test) = heading {
            let name = format!("{test} ({})", self.suite);
            let said = Tail::default();
            self.failures.push(Failed { name, said });
            self.telling = true;
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.telling = false;
        } else if self.telling
            && !is_of_backtrace(line)
            && let Some(failed) = self.failures.last_mut()
        {
            failed.said.push(line);
        }
    }

    /// The reason why this run proves nothing, if it does not: a failure, nothing run, or something skipped.
    pub(crate) fn fault(&self, status: ExitStatus) -> Option<String> {
        if self.failed > 0 {
            let names: Vec<&str> = self.failures.iter().map(|f| f.name.as_str()).collect();
            let sums = format!("{} failed, {} passed", self.failed, self.passed);
            return Some(
                [sums, names.join(", ")]
                    .join(": ")
                    .trim_end_matches(": ")
                    .to_owned(),
            );
        }
        if !status.success() {
            let passed = format!("{status}; {} passed before that", self.passed);
            if self.slow.is_empty() {
                return Some(passed);
            }
            let slow: Vec<&str> = self.slow.iter().map(String::as_str).collect();
            return Some(format!("{passed}; still running: {}", slow.join(", ")));
        }
        if self.passed == 0 {
            return Some("not one test ran".to_owned());
        }
        if self.not_run > 0 {
            let names = self.ignored.join(", ");
            return Some(format!("{} skipped: {names}", self.not_run));
        }
        None
    }
}

/// Returns whether a line is a frame of a backtrace, of which a panic has more than anyone reads.
fn is_of_backtrace(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("  ") else {
        return line == "stack backtrace:";
    };
    let rest = rest.trim_start();
    let number = rest.split(": ").next().unwrap_or_default();
    rest.starts_with("at ") || (!number.is_empty() && number.bytes().all(|it| it.is_ascii_digit()))
}

/// The line without its colours.
fn plain(line: &str) -> String {
    let mut parts = line.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| match part.strip_prefix("(B") {
        Some(rest) => line + rest,
        None => line + part.split_once('m').map_or("", |(_, rest)| rest),
    })
}

/// The number before `word` in `ok. 3 passed; 0 failed; …`.
fn count(counts: &str, word: &str) -> usize {
    counts
        .split([';', '.'])
        .filter_map(|part| part.trim().strip_suffix(word))
        .find_map(|number| number.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn results(lines: &[&str]) -> TestResults {
        let mut results = TestResults::default();
        for line in lines {
            results.read(line);
        }
        results
    }

    fn exited(code: i32) -> ExitStatus {
        ExitStatus::from_raw(code << 8)
    }

    const OK: &str = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";

    #[test]
    fn suites_add_up() {
        let colours = OK.replace(" ok.", " \u{1b}[32mok\u{1b}(B\u{1b}[m.");
        let results = results(&["running 12 tests", "test a ... ok", OK, &colours]);
        assert_eq!((results.suites, results.passed, results.failed), (2, 24, 0));
        assert_eq!(results.fault(exited(0)), None);
    }

    #[test]
    fn what_failed_is_told_with_its_last_words() {
        let lines = [
            "     Running tests/laws.rs (target/debug/deps/laws-1)",
            "test one ... FAILED",
            "failures:",
            "",
            "---- one stdout ----",
            "thread 'one' panicked at tests/laws.rs:1:1:",
            "why",
            "stack backtrace:",
            "   0: std::panicking",
            "             at ./src/panicking.rs:1:1",
            "failures:",
            "    one",
            "",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; x",
            "   Doc-tests semel",
            "later",
        ];
        let results = results(&lines);
        let [failed] = results.failures.as_slice() else {
            panic!("{:?}", results.failures);
        };
        assert_eq!(failed.name, "one (tests/laws.rs)");
        let said: Vec<&str> = failed.said.lines().collect();
        assert_eq!(said, ["thread 'one' panicked at tests/laws.rs:1:1:", "why"]);
        let fault = results.fault(exited(101));
        let expected = "1 failed, 1 passed: one (tests/laws.rs)";
        assert_eq!(fault.as_deref(), Some(expected));
    }

    #[test]
    fn what_had_not_ended_is_named() {
        let results = results(&[
            OK,
            "test quick has been running for over 60 seconds",
            "test stuck has been running for over 60 seconds",
            "test quick ... ok",
        ]);
        let fault = results.fault(exited(124)).unwrap_or_default();
        assert!(fault.ends_with("; still running: stuck"), "{fault}");
    }

    #[test]
    fn a_suite_that_dies_has_failed_whatever_passed_before() {
        let mut results = TestResults::default();
        results.suite("a tests/a.rs", exited(0), OK);
        assert_eq!(results.fault(exited(0)), None);
        let slow = "test stuck has been running for over 60 seconds";
        results.suite("b tests/b.rs", exited(124), slow);
        results.suite("c src/lib.rs", exited(0), "running 3 tests");
        let names: Vec<_> = results.failures.iter().map(|it| it.name.as_str()).collect();
        let expected = [
            "b tests/b.rs: exit status: 124; still running: stuck",
            "c src/lib.rs: it ended without a result",
        ];
        assert_eq!(names, expected);
        let said: Vec<_> = results.failures[0].said.lines().collect();
        assert_eq!(said, [slow]);
        let fault = results.fault(exited(0)).unwrap_or_default();
        assert!(fault.starts_with("2 failed, 12 passed: b tests"), "{fault}");
    }

    #[test]
    fn a_failed_test_of_a_suite_is_named_with_it_and_counted_once() {
        let mut results = TestResults::default();
        let said = "test one ... FAILED\n\n---- one stdout ----\nwhy\nfailures:\n    one\n\n\
                    test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; x\n";
        results.suite("semel-core src/lib.rs", exited(101), said);
        assert_eq!((results.passed, results.failed), (1, 1));
        assert_eq!(results.failures[0].name, "one (semel-core src/lib.rs)");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let mut tail = Tail::default();
        for line in 0..100 {
            tail.push(&line.to_string());
        }
        assert_eq!(tail.lines().count(), 40);
        assert_eq!(tail.lines().last(), Some("99"));
    }

    #[test]
    fn whatever_proves_nothing_is_a_fault() {
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; x";
        let ignored =
            "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; x";
        let filtered =
            "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; x";
        let failed =
            "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; x";
        let fault = |lines: &[&str], code| results(lines).fault(exited(code)).unwrap_or_default();
        assert_eq!(fault(&[], 0), "not one test ran");
        assert_eq!(fault(&[none], 0), "not one test ran");
        assert_eq!(
            fault(&["test b ... ignored, needs a server", ignored], 0),
            "1 skipped: b"
        );
        assert_eq!(fault(&[filtered], 0), "3 skipped: ");
        assert_eq!(fault(&[failed], 101), "2 failed, 1 passed");
        assert!(fault(&[OK], 101).contains("12 passed before that"));
    }
}
