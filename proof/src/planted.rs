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
    for (number, (bug, suite)) in (0..).zip(in_order()) {
        if !budget.allows(number) {
            break;
        }
        // What is red without the bug proves nothing about it.
        if controlled.insert(suite) {
            rows.push(control(suite));
        }
        rows.push(planted(bug, suite));
    }
    rows
}

/// Each bug with each that must see it.
fn in_order() -> impl Iterator<Item = (&'static Bug, Suite)> {
    let is_fast = |bug: &&'static Bug| FAST.contains(&bug.name);
    let slow = bugs().filter(move |bug| !is_fast(bug));
    let tests = bugs().filter(is_fast).chain(slow);
    let tiers = bugs().flat_map(|bug| bug.tiers.iter().map(move |tier| (bug, Suite::Tier(tier))));
    tests.map(|bug| (bug, bug.suite)).chain(tiers)
}

fn planted(bug: &Bug, suite: Suite) -> Row {
    let name = format!("{} ({}): {}; by {suite}", bug.name, bug.class, bug.what);
    row(name, bug.name, Some(bug), suite, bug.seen_by)
}

/// What must see a bug there, without any.
fn control(suite: Suite) -> Row {
    let see = bugs().filter(|bug| bug.suite == suite);
    let see: Vec<&str> = see.flat_map(|bug| bug.seen_by).copied().collect();
    row(format!("none; by {suite}"), "none", None, suite, &see)
}

fn row(name: String, log: &str, bug: Option<&Bug>, suite: Suite, filters: &[&str]) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(name, "tests");
    match build::tried(log, bug, suite, filters) {
        Ok(Verdict { tried, unit, red }) => {
            (row.tried, row.unit) = (tried, unit);
            if bug.is_some() {
                row.seen.insert(format!("a planted bug, by {suite}"), red);
            } else if red > 0 {
                row.violations.push(format!("{red} are red without a bug"));
            }
        }
        Err(wrong) => row.violations.push(wrong),
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// What every merge plants.
const FAST: [&str; 12] = [
    "O02", "O07", "U03", "A01", "A02", "A03", "T01", "T02", "T03", "T04", "T05", "T06",
];

#[cfg(test)]
mod tests;
