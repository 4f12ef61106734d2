//! T14: known bugs, one at a time. The tests that must see a bug have to be red with it, and green without.
//!
//! Those tests are built once, with all bugs in them, and every run has one bug or none (`semel_core::planted`). No
//! other build has any.

mod build;
mod compiler;
mod table;

use std::collections::BTreeSet;

use self::build::{Builds, Suite, Verdict};
pub(crate) use self::compiler::stand_in;
#[cfg(test)]
use self::table::ELSEWHERE;
use self::table::{Bug, bugs};
use crate::effort::Effort;
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Returns whether a bug of relays, producers or the gate is planted in this process, which nothing else can see.
pub(crate) fn is_of_senders() -> bool {
    cfg!(semel_planted) && std::env::var("SEMEL_PLANTED").is_ok_and(|bug| bug.starts_with('X'))
}

/// Plants as many bugs as are asked for, first those that every merge plants; or those that `--only` names.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let only: BTreeSet<&str> = effort.only.into_iter().flat_map(named).collect();
    let budget = effort.budget(if only.is_empty() { MERGE } else { u64::MAX });
    let mut builds = Builds::default();
    let mut rows = Vec::new();
    let mut controlled = BTreeSet::new();
    let is_chosen = |bug: &Bug| only.is_empty() || only.contains(bug.name);
    let chosen = in_order().filter(|(bug, _)| is_chosen(bug));
    for (number, (bug, suite)) in (0..).zip(chosen) {
        if !budget.allows(number) {
            break;
        }
        // A test that is red without the bug proves nothing about it.
        if controlled.insert(suite) {
            rows.push(control(suite, is_chosen, &mut builds));
        }
        let row = planted(bug, suite, &mut builds);
        println!(
            "  {}: {} {}, {:.1} s",
            row.name, row.tried, row.unit, row.seconds
        );
        rows.push(row);
    }
    rows
}

/// The bugs of a list, as far as they are known.
fn named(list: &str) -> impl Iterator<Item = &'static str> {
    let of = |name: &str| bugs().find(|bug| bug.name == name);
    list.split(',').filter_map(of).map(|bug| bug.name)
}

/// Returns whether all of a list are bugs that can be planted.
pub(crate) fn are_known(list: &str) -> bool {
    named(list).count() == list.split(',').count()
}

/// Each bug with each suite that must see it.
fn in_order() -> impl Iterator<Item = (&'static Bug, Suite)> {
    let is_fast = |bug: &&'static Bug| FAST.contains(&bug.name);
    let slow = bugs().filter(move |bug| !is_fast(bug));
    let tests = bugs().filter(is_fast).chain(slow);
    let tiers = bugs().flat_map(|bug| bug.tiers.iter().map(move |tier| (bug, Suite::Tier(tier))));
    tests.map(|bug| (bug, bug.suite)).chain(tiers)
}

fn planted(bug: &'static Bug, suite: Suite, builds: &mut Builds) -> Row {
    let name = format!("{} ({}): {}; by {suite}", bug.name, bug.class, bug.what);
    row(name, Some(bug.name), suite, bug.seen_by, builds)
}

/// Runs the suite that must see bugs there, without any.
fn control(suite: Suite, is_chosen: impl Fn(&Bug) -> bool, builds: &mut Builds) -> Row {
    let see = bugs().filter(|bug| bug.suite == suite && is_chosen(bug));
    let see: Vec<&str> = see.flat_map(|bug| bug.seen_by).copied().collect();
    row(format!("none; by {suite}"), None, suite, &see, builds)
}

fn row(
    name: String,
    bug: Option<&'static str>,
    suite: Suite,
    filters: &[&str],
    builds: &mut Builds,
) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(name, "tests");
    match builds.tried(bug, suite, filters) {
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

const MERGE: u64 = FAST.len() as u64;
/// The bugs that every merge plants: those that two quickly built programs see.
const FAST: [&str; 12] = [
    "O02", "O07", "U03", "A01", "A02", "A03", "T01", "T02", "T03", "T04", "T05", "T06",
];

#[cfg(test)]
mod tests;
