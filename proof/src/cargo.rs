//! Tests of other packages as tiers: cargo, run by cargo.

use std::process::{Command, Stdio};

/// The exit status and the output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Standard output; cargo's progress goes to the terminal.
    pub(crate) stdout: String,
    pub(crate) succeeded: bool,
}

/// Runs `cargo` with these arguments and, on top of this program's own, these variables.
pub(crate) fn cargo(args: &[&str], variables: &[(&str, String)]) -> Ran {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).stderr(Stdio::inherit());
    for (name, value) in variables {
        command.env(name, value);
    }
    match command.output() {
        Ok(output) => Ran {
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            succeeded: output.status.success(),
        },
        Err(error) => Ran {
            stdout: format!("cargo cannot be run: {error}"),
            succeeded: false,
        },
    }
}

impl Ran {
    /// The number of tests that passed, over all programs that it ran.
    pub(crate) fn passed(&self) -> u64 {
        let results = self.stdout.lines();
        let results = results.filter_map(|line| line.strip_prefix("test result: "));
        let passed = results.filter_map(|line| {
            let (before, _) = line.split_once(" passed")?;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        });
        passed.sum()
    }

    /// The failures: each test that failed with its output, or the end of the output.
    pub(crate) fn failures(&self) -> Vec<String> {
        if self.succeeded {
            return Vec::new();
        }
        let parts = self.stdout.split("\n---- ").skip(1);
        let told: Vec<String> = parts
            .map(|part| part.split("\n\nfailures:").next().unwrap_or(part))
            .map(|part| part.replacen(" stdout ----", ":", 1).trim().to_owned())
            .collect();
        if !told.is_empty() {
            return told;
        }
        let last: Vec<&str> = self.stdout.lines().rev().take(5).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        vec![format!("cargo failed: {}", last.join(" / "))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
running 2 tests
test one ... ok
test two ... FAILED

failures:

---- two stdout ----
thread 'two' panicked at src/lib.rs:1:1:
CLM-1: seed 7 is not explained


failures:
    two

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 8 filtered out; finished in 0.01s
";

    #[test]
    fn passed_tests_are_counted_and_failed_ones_told() {
        let ran = |succeeded| Ran {
            stdout: SAID.to_owned(),
            succeeded,
        };
        assert_eq!(ran(true).passed(), 1);
        assert_eq!(ran(true).failures(), [""; 0]);
        let failures = ran(false).failures();
        assert_eq!(failures.len(), 1);
        assert!(failures[0].starts_with("two:"), "{failures:?}");
        assert!(
            failures[0].ends_with("seed 7 is not explained"),
            "{failures:?}"
        );
    }

    #[test]
    fn what_was_never_run_is_a_failure() {
        let ran = cargo(&["no-such-command"], &[]);
        assert_eq!(ran.passed(), 0);
        assert_eq!(ran.failures().len(), 1);
    }
}
