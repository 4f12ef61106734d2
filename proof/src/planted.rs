//! T14: bugs that are known, built into the code one at a time. The tests that must see each have to be red with
//! it, and green without.

mod build;
mod compiler;
mod table;

use std::collections::BTreeSet;

use self::build::{Suite, Verdict};
pub(crate) use self::compiler::stand_in;
use self::table::{Bug, bugs};
use crate::effort::Effort;
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Plants as many bugs as are asked for; those that take least time go first.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let budget = effort.budget(FAST.len() as u64);
    let mut rows = Vec::new();
    let mut controlled = BTreeSet::new();
    for (number, bug) in (0..).zip(in_order()) {
        if !budget.allows(number) {
            break;
        }
        // What is red without the bug proves nothing about it.
        if controlled.insert(bug.suite) {
            rows.push(control(bug.suite));
        }
        rows.push(planted(bug));
    }
    rows
}

fn in_order() -> impl Iterator<Item = &'static Bug> {
    let is_fast = |bug: &&'static Bug| FAST.contains(&bug.name);
    let slow = bugs().filter(move |bug| !is_fast(bug));
    bugs().filter(is_fast).chain(slow)
}

fn planted(bug: &Bug) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(
        format!("{} ({}): {}", bug.name, bug.class, bug.what),
        "tests",
    );
    let verdict = build::tried(bug.name, Some(bug), bug.suite, bug.seen_by);
    row.seconds = since.elapsed().as_secs_f64();
    match verdict {
        Ok(Verdict { ran, red }) => {
            row.tried = ran;
            row.seen.insert("tests that saw the bug".to_owned(), red);
        }
        Err(wrong) => row.violations.push(wrong),
    }
    row
}

/// The tests of the suite that must see a bug, without any.
fn control(suite: Suite) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(format!("none, in {suite}"), "tests");
    let see = bugs().filter(|bug| bug.suite == suite);
    let see: Vec<&str> = see.flat_map(|bug| bug.seen_by).copied().collect();
    let verdict = build::tried("none", None, suite, &see);
    row.seconds = since.elapsed().as_secs_f64();
    match verdict {
        Ok(Verdict { ran, red: 0 }) => row.tried = ran,
        Ok(Verdict { ran, red }) => {
            row.tried = ran;
            row.violations
                .push(format!("{red} tests are red without a bug"));
        }
        Err(wrong) => row.violations.push(wrong),
    }
    row
}

/// What every merge plants.
const FAST: [&str; 12] = [
    "O02", "O07", "U03", "A01", "A02", "A03", "T01", "T02", "T03", "T04", "T05", "T06",
];

#[cfg(test)]
mod tests;
