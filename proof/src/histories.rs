//! Random histories against every available store, each explained by the decisions or not: the stores' own tests,
//! `history_laws!`, with more of them than a merge has.
//!
//! A plain test of a store already plays 200 of each kind, or 100 on a server.

use crate::cargo::{Ran, cargo};
use crate::effort::{Effort, Size};
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// The stores, and the variables with the addresses of those that need a server.
const STORES: &[(&str, Option<&str>)] = &[
    ("memory", None),
    ("sqlite", None),
    ("embedded", None),
    ("postgres", Some("SEMEL_TEST_POSTGRES_URL")),
    ("mysql", Some("SEMEL_TEST_MYSQL_URL")),
    ("redis", Some("SEMEL_TEST_REDIS_URL")),
];

/// The kinds of histories, and the words in the names of their tests. A store may have several tests of a kind: as
/// it is, and in other forms.
const KINDS: [(&str, &str); 2] = [
    ("races", "history_laws::races"),
    ("sequences", "history_laws::sequences"),
];

/// Runs histories of each kind for each store; one whose server is missing is a failure.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let all = STORES
        .iter()
        .flat_map(|store| KINDS.iter().map(move |kind| (store, kind)));
    let stores: Vec<_> = all
        .filter(|((store, _), (kind, _))| {
            effort.has(store) || effort.has(&format!("{store}-{kind}"))
        })
        .collect();
    let mut rows: Vec<Row> = stores
        .iter()
        .map(|((store, _), (kind, _))| Row::new(format!("{store}, {kind}"), "histories"))
        .collect();
    let lacks = |((store, variable), _): &(&(&str, Option<&str>), _)| {
        let variable = variable.filter(|it| std::env::var_os(it).is_none())?;
        Some(format!("{variable} names no server for {store}"))
    };
    // Built apart, so that the times are those of the histories.
    for (row, ((store, _), _)) in rows.iter_mut().zip(&stores) {
        row.violations
            .extend(tests(store, &["--no-run"], &[]).failures());
    }
    for (row, lacking) in rows.iter_mut().zip(stores.iter().map(lacks)) {
        row.violations.extend(lacking);
    }
    if rows.iter().any(|row| !row.violations.is_empty()) {
        return rows;
    }
    let budget = effort.budget(MERGE);
    let (mut tried, mut is_broken) = (0, false);
    // In turns, so that any length of time is enough for each.
    while !is_broken && budget.allows(tried) {
        let count = TURN.min(budget.most().saturating_sub(tried)).max(1);
        for (((store, _), (_, filter)), row) in stores.iter().zip(&mut rows) {
            row.add(&turn(store, filter, effort, tried, count));
            is_broken |= !row.violations.is_empty();
        }
        tried += count;
    }
    rows
}

/// `count` histories of one kind on one store, after the first `tried`.
fn turn(store: &str, filter: &str, effort: Effort, tried: u64, count: u64) -> Row {
    let since = Stopwatch::start();
    let mut variables = vec![
        ("SEMEL_HISTORIES", count.to_string()),
        ("SEMEL_FIRST_SEED", (effort.seed + tried).to_string()),
    ];
    if effort.size != Size::Merge && std::env::var_os("SEMEL_RACE").is_none() {
        variables.push(("SEMEL_RACE", RACE.to_owned()));
    }
    let ran = tests(store, &[filter], &variables);
    let mut row = Row {
        // Each of the tests plays this many.
        tried: ran.passed() * count,
        violations: ran.failures(),
        ..Row::default()
    };
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// Runs the tests of a store that play its histories.
fn tests(store: &str, words: &[&str], variables: &[(&str, String)]) -> Ran {
    let package = format!("semel-store-{store}");
    let test = [
        "test",
        "--release",
        "-p",
        &package,
        "--test",
        program(store),
    ];
    cargo(&[&test, words].concat(), variables)
}

/// The test program that checks the laws of a store: one of its own, unless its laws are quickly built and run with
/// the others.
fn program(store: &str) -> &str {
    match store {
        "embedded" | "sqlite" => store,
        _ => "conformance",
    }
}

/// Histories of each kind if nothing was asked for.
const MERGE: u64 = 300;
/// Histories of each kind in one turn of a store.
const TURN: u64 = 1_000;
/// Tasks and calls of each race in a campaign.
const RACE: &str = "8x40";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Only a campaign would notice that a test is gone.
    #[test]
    fn the_program_with_the_laws_of_each_store_is_there() {
        for (store, _) in STORES {
            let tests = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../crates/stores")
                .join(store)
                .join("tests");
            let program = program(store);
            let is_there = [format!("{program}.rs"), format!("{program}/main.rs")]
                .iter()
                .any(|root| tests.join(root).is_file());
            assert!(is_there, "{store}: {program}");
        }
    }
}
