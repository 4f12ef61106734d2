//! Real processes and servers, killed: the tests of the package `torture`, and their counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use crate::cargo::cargo;
use crate::effort::{Effort, Size};
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Runs them all: as large as a merge affords, or as campaigns, one after the other, as many as the seeds that are
/// asked for. The first has the seeds of the tests themselves.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let mut tests = Row::new("tests", "tests");
    let names = match Part::of(effort.only).names(&listed()) {
        Ok(names) => names,
        Err(why) => {
            tests.violations.push(why);
            return vec![tests];
        }
    };
    let told = tempfile::tempdir().map(|folder| {
        let path = folder.path().join("figures.ndjson");
        let budget = effort.budget(1);
        let mut rounds = 0;
        while tests.violations.is_empty() && budget.allows(rounds) {
            tests.add(&round(effort, rounds, &names, &path));
            rounds += 1;
        }
        // Without a file, no test reported anything: the sum is a failure then.
        fs::read_to_string(path).unwrap_or_default()
    });
    let told = match told {
        Ok(told) => told,
        Err(error) => {
            tests
                .violations
                .push(format!("nowhere to tell figures to: {error}"));
            return vec![tests];
        }
    };
    match rows(&told) {
        Ok((mut rows, about)) => {
            rows.push(sum(&rows, effort.only.map(|_| &about)));
            rows.push(tests);
            rows
        }
        Err(why) => {
            tests.violations.push(why);
            vec![tests]
        }
    }
}

/// The requested part of the tests.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    /// The module of tests, by the store or the broker that they torture; all if none is named.
    module: Option<&'static str>,
    /// The words in the names of its tests.
    tests: Option<&'static str>,
}

impl Part {
    /// Reads `kafka`, or `kafka-postgres`.
    fn of(only: Option<&'static str>) -> Self {
        let (module, tests) = match only.and_then(|only| only.split_once('-')) {
            Some((module, tests)) => (Some(module), Some(tests)),
            None => (only, None),
        };
        Self { module, tests }
    }

    /// The names of those tests among what cargo has listed.
    fn names(&self, listed: &str) -> Result<Vec<String>, String> {
        let all: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .collect();
        if all.is_empty() {
            let last = listed.lines().last().unwrap_or("no line at all");
            return Err(format!("the tests of torture cannot be listed: `{last}`"));
        }
        let chosen = all.iter().filter(|name| {
            let (module, test) = name.split_once("::").unwrap_or((name, ""));
            self.module.is_none_or(|only| only == module)
                && self.tests.is_none_or(|some| test.contains(some))
        });
        let names: Vec<String> = chosen.map(|&name| name.to_owned()).collect();
        if names.is_empty() {
            return Err(self.none_of(&all));
        }
        Ok(names)
    }

    /// The reason why it chooses none of these, and the names to use instead.
    fn none_of(&self, all: &[&str]) -> String {
        let modules = all.iter().filter_map(|name| Some(name.split_once("::")?.0));
        let modules = Vec::from_iter(modules.collect::<BTreeSet<_>>()).join(", ");
        let part = [self.module, self.tests].map(Option::unwrap_or_default);
        format!(
            "`{}` chooses no test of torture: name one of {modules}, and behind it, after a dash, what its tests have \
             in their names",
            part.join("-").trim_end_matches('-')
        )
    }
}

/// The tests that there are.
fn listed() -> String {
    let args = [BUILT, &["--", "--list"]].concat();
    cargo(&args, &[]).stdout
}

/// Plays one round of these tests, which report their figures to `path`.
fn round(effort: Effort, round: u64, names: &[String], path: &Path) -> Row {
    let since = Stopwatch::start();
    let mut variables = vec![("SEMEL_TORTURE_FIGURES", path.display().to_string())];
    if effort.size != Size::Merge {
        variables.push(("SEMEL_TORTURE", "campaign".to_owned()));
    }
    if round > 0 {
        variables.push(("SEMEL_SEED", (effort.seed + round).to_string()));
    }
    let mut args = BUILT.to_vec();
    args.extend(["--", "--include-ignored", "--exact"]);
    args.extend(names.iter().map(String::as_str));
    let ran = cargo(&args, &variables);
    Row {
        tried: ran.passed(),
        violations: ran.failures(),
        seconds: since.elapsed().as_secs_f64(),
        ..Row::default()
    }
}

/// The packages that `cargo xtask prove` has built, with the features of the binary: for another list cargo would
/// compile the shared ones once more.
const BUILT: &[&str] = &[
    "test",
    "--release",
    "--no-fail-fast",
    "--package",
    "semel-cli",
    "--package",
    "torture",
    "--features=semel-cli/full",
    "--test",
    "torture",
];

/// A row for each source and store, or other name of a test, in the order of their names; and the hard cases that
/// these tests are about: they report how often each was met, or that it was not.
fn rows(told: &str) -> Result<(Vec<Row>, BTreeSet<&'static str>), String> {
    let mut rows = BTreeMap::<String, Row>::new();
    let mut about = BTreeSet::new();
    for line in told.lines() {
        let figures: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
        let name = figures.get("name").and_then(Value::as_str);
        let name = name.ok_or(format!("without a name: {line}"))?.to_owned();
        let row = rows
            .entry(name.clone())
            .or_insert_with(|| Row::new(name, "operations"));
        for (what, count) in &figures {
            let Some(count) = count.as_u64() else {
                continue;
            };
            let case = CASES.iter().find(|(figure, _)| figure == what);
            about.extend(case.map(|(_, case)| *case));
            match what.as_str() {
                "operations" => row.tried += count,
                "takeovers" => row.takeovers += count,
                "fenced" => row.fenced += count,
                // The test has compared each of them with what did not happen.
                "doubts" => row.doubts_explained += count,
                fault => *row.faults.entry(fault.to_owned()).or_default() += count,
            }
        }
    }
    Ok((rows.into_values().collect(), about))
}

/// The sum of all rows, which must have met every hard case; for a part, those that its tests are `about`.
fn sum(rows: &[Row], about: Option<&BTreeSet<&'static str>>) -> Row {
    let mut all = Row::new("all", "operations");
    for row in rows {
        all.add(row);
    }
    // A part without any of them has not tried anything.
    let about = about.filter(|cases| !cases.is_empty());
    for (figure, case) in CASES {
        let count = match figure {
            "takeovers" => all.takeovers,
            "fenced" => all.fenced,
            "doubts" => all.doubts_explained,
            fault => all.faults.get(fault).copied().unwrap_or_default(),
        };
        if about.is_none_or(|cases| cases.contains(case)) {
            all.seen.insert(case.to_owned(), count);
        }
    }
    all
}

/// The hard cases: by the name in the tests, and in the report.
const CASES: [(&str, &str); 5] = [
    ("takeovers", "takeover"),
    ("fenced", "fenced"),
    ("doubts", "in doubt, and held against what happened"),
    // After such a cut, nobody can know whether the transaction was committed.
    ("cut during COMMIT", "cut during COMMIT"),
    ("workers killed", "killed at work"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_name_are_added_up_and_the_sum_demands_what_is_hard() {
        let told = "{\"name\":\"NATS, Redis\",\"operations\":20,\"takeovers\":2,\"workers killed\":4}\n\
                    {\"name\":\"NATS, Redis\",\"operations\":5,\"fenced\":1,\"doubts\":3}\n\
                    {\"name\":\"file, Redis\",\"operations\":1}\n";
        let (rows, about) = rows(told).expect("figures");
        assert_eq!(rows.len(), 2);
        let first = &rows[0];
        assert_eq!((first.tried, first.takeovers, first.fenced), (25, 2, 1));
        assert_eq!(
            (first.doubts_explained, first.faults["workers killed"]),
            (3, 4)
        );
        let all = sum(&rows, None);
        assert_eq!(all.tried, 26);
        let never = "never seen, so never tried: cut during COMMIT";
        assert_eq!(all.faults_found(), [never]);
        // Cases that these tests are not about are for the others.
        assert_eq!(sum(&rows, Some(&about)).faults_found(), [""; 0]);
        assert_eq!(about.len(), 4);
    }

    #[test]
    fn a_part_that_missed_what_its_tests_are_about_has_failed() {
        let told = "{\"name\":\"NATS, Redis\",\"operations\":20,\"takeovers\":2,\"fenced\":0}\n\
                    {\"name\":\"NATS, embedded\",\"operations\":5,\"takeovers\":1}\n";
        let (rows, about) = rows(told).expect("figures");
        let never = "never seen, so never tried: fenced";
        assert_eq!(sum(&rows, Some(&about)).faults_found(), [never]);
        let (rows, about) = super::rows("{\"name\":\"x\",\"operations\":5}").expect("figures");
        assert_eq!(sum(&rows, Some(&about)).faults_found().len(), CASES.len());
    }

    #[test]
    fn a_part_is_a_module_or_some_of_its_tests() {
        let listed =
            "kafka::in_postgresql: test\nkafka::in_redis: test\nredis::in_kafka: test\n\n3 tests\n";
        let names = |only| Part::of(only).names(listed);
        let both = ["kafka::in_postgresql", "kafka::in_redis"].map(str::to_owned);
        assert_eq!(names(None).expect("all").len(), 3);
        assert_eq!(names(Some("kafka")).expect("both"), both);
        assert_eq!(names(Some("kafka-postgres")).expect("one"), both[..1]);
        for none in ["kafk", "kafka-mysql", "in_redis"] {
            let why = names(Some(none)).expect_err("no test");
            let said =
                format!("`{none}` chooses no test of torture: name one of kafka, redis, and");
            assert!(why.starts_with(&said), "{why}");
        }
        let why = Part::of(None).names("error: no such target");
        assert_eq!(
            why.expect_err("no list"),
            "the tests of torture cannot be listed: `error: no such target`"
        );
    }

    #[test]
    fn where_nobody_told_anything_nothing_stands() {
        assert!(!sum(&[], Some(&BTreeSet::new())).faults_found().is_empty());
        assert!(super::rows("no figures").is_err());
    }
}
