//! Real processes and servers, killed: the tests of the package `torture`, and what they counted.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Map, Value};

use crate::cargo::cargo;
use crate::effort::{Effort, Size};
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Runs them all: as large as a merge affords, or as a campaign where any number or time is asked for.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let since = Stopwatch::start();
    let mut tests = Row::new("tests", "tests");
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => {
            tests
                .violations
                .push(format!("no place for the figures: {error}"));
            return vec![tests];
        }
    };
    let path = folder.path().join("figures.ndjson");
    let mut variables = vec![("SEMEL_TORTURE_FIGURES", path.display().to_string())];
    if effort.size != Size::Merge {
        variables.push(("SEMEL_TORTURE", "campaign".to_owned()));
    }
    let args = [
        "test",
        "--release",
        "--no-fail-fast",
        "-p",
        "torture",
        "--",
        "--include-ignored",
    ];
    let ran = cargo(&args, &variables);
    tests.tried = ran.passed();
    tests.violations = ran.failures();
    tests.seconds = since.elapsed().as_secs_f64();
    // Where there is no file, nobody told anything: the sum is a failure then.
    let told = fs::read_to_string(path).unwrap_or_default();
    match rows(&told) {
        Ok(mut rows) => {
            rows.push(sum(&rows));
            rows.push(tests);
            rows
        }
        Err(why) => {
            tests.violations.push(why);
            vec![tests]
        }
    }
}

/// A row for each source and store, or whatever else a test goes by, in the order of their names.
fn rows(told: &str) -> Result<Vec<Row>, String> {
    let mut rows = BTreeMap::<String, Row>::new();
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
            match what.as_str() {
                "operations" => row.tried += count,
                "takeovers" => row.takeovers += count,
                "fenced" => row.fenced += count,
                // A test has held each of them against what did not happen.
                "doubts" => row.doubts_explained += count,
                fault => *row.faults.entry(fault.to_owned()).or_default() += count,
            }
        }
    }
    Ok(rows.into_values().collect())
}

/// All of it, which must have met what is hard.
fn sum(rows: &[Row]) -> Row {
    let mut all = Row::new("all", "operations");
    for row in rows {
        all.add(row);
    }
    let commits = all.faults.get(COMMITS).copied().unwrap_or_default();
    for (case, count) in [
        ("takeover", all.takeovers),
        ("fenced", all.fenced),
        (COMMITS, commits),
    ] {
        all.seen.insert(case.to_owned(), count);
    }
    all
}

/// The fault after which nobody can know whether a transaction was committed.
const COMMITS: &str = "cut during COMMIT";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_one_name_are_added_up_and_the_sum_demands_what_is_hard() {
        let told = "{\"name\":\"NATS, Redis\",\"operations\":20,\"takeovers\":2,\"workers killed\":4}\n\
                    {\"name\":\"NATS, Redis\",\"operations\":5,\"fenced\":1,\"doubts\":3}\n\
                    {\"name\":\"file, Redis\",\"operations\":1}\n";
        let rows = rows(told).expect("figures");
        assert_eq!(rows.len(), 2);
        let first = &rows[0];
        assert_eq!((first.tried, first.takeovers, first.fenced), (25, 2, 1));
        assert_eq!(
            (first.doubts_explained, first.faults["workers killed"]),
            (3, 4)
        );
        let all = sum(&rows);
        assert_eq!(all.tried, 26);
        let never = "never seen, so never tried: cut during COMMIT";
        assert_eq!(all.faults_found(), [never]);
    }

    #[test]
    fn where_nobody_told_anything_nothing_stands() {
        assert!(!sum(&[]).faults_found().is_empty());
        assert!(super::rows("no figures").is_err());
    }
}
