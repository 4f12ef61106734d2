//! T2 and T10: the engine in a seeded world, scenario by scenario, as many at once as there are processors. In T10 the
//! clocks are wild.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use semel_simulation::seeded::{
    Clocks, Kind, PUBLISHED_CASES, RELAYED_CASES, Scenario, Told, minimised, play, published,
    relayed,
};

use crate::effort::{Effort, Size};
use crate::planted;
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// T2: as many scenarios of each kind as the effort has room for.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    // A planted bug is seen, and this run needs no more than that.
    let is_seen = |rows: &[Row]| {
        let is_red = |row: &Row| !row.violations.is_empty();
        cfg!(semel_planted) && rows.iter().any(is_red)
    };
    let sent = planted::is_of_senders().then(|| senders(effort));
    if let Some(rows) = &sent
        && is_seen(rows)
    {
        return sent.unwrap_or_default();
    }
    let mut rows = scenarios(effort, Clocks::Usual, MERGE);
    if !is_seen(&rows) {
        rows.extend(sent.unwrap_or_else(|| senders(effort)));
    }
    rows
}

/// Stories of relays and of producers.
fn senders(effort: Effort) -> Vec<Row> {
    const ALL: [Stories; 2] = [
        Stories {
            name: "relay",
            play: relayed,
            cases: &RELAYED_CASES,
        },
        Stories {
            name: "producer",
            play: published,
            cases: &PUBLISHED_CASES,
        },
    ];
    ALL.iter().map(|stories| stories.row(effort)).collect()
}

/// Stories with a plan of their own.
struct Stories {
    name: &'static str,
    play: fn(u64) -> Told,
    cases: &'static [&'static str],
}

impl Stories {
    /// Plays as many as of each kind of scenario, and as in a merge where time ends those.
    fn row(&self, effort: Effort) -> Row {
        let since = Stopwatch::start();
        let seeds = match effort.size {
            Size::Merge | Size::Minutes(_) => MERGE,
            Size::Seeds(seeds) => seeds,
        };
        let next = AtomicU64::new(effort.seed);
        let end = effort.seed.saturating_add(seeds);
        let shared = Mutex::new(Row::new(self.name, "seeds"));
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let mut own = Row::default();
                    while own.violations.is_empty() {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= end {
                            break;
                        }
                        self.one(seed, effort.size == Size::Merge, &mut own);
                    }
                    shared
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .add(&own);
                });
            }
        });
        let mut row = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        row.violations.sort();
        if row.tried >= MERGE / 2 {
            for case in self.cases {
                row.seen.entry((*case).to_owned()).or_default();
            }
        }
        row.seconds = since.elapsed().as_secs_f64();
        row
    }

    fn one(&self, seed: u64, always_twice: bool, row: &mut Row) {
        let told = (self.play)(seed);
        let again = format!("cargo xtask prove T2 --seeds 1 --seed {seed}");
        let is_twice = always_twice || seed.is_multiple_of(TWICE);
        if is_twice && (self.play)(seed) != told {
            row.violations.push(format!(
                "seed {seed} tells another story each time: {again}"
            ));
        }
        if !told.violations.is_empty() {
            let what = told.violations.join("; ");
            // No one reads the log of a known bug.
            let words = if cfg!(semel_planted) { "" } else { &told.log };
            row.violations
                .push(format!("seed {seed}: {what}: {again}\n{words}"));
        }
        row.add(&counted(told));
    }
}

/// T10: the same with wild clocks.
pub(crate) fn with_wild_clocks(effort: Effort) -> Vec<Row> {
    scenarios(effort, Clocks::Wild, MERGE_OF_CLOCKS)
}

fn scenarios(effort: Effort, clocks: Clocks, merge: u64) -> Vec<Row> {
    let budget = effort.budget(merge);
    let mut rows = Kind::ALL.map(|kind| (kind, Row::new(kind.name(), "seeds")));
    let mut tried = 0;
    while budget.allows(tried) {
        let seeds = ROUND.min(budget.most() - tried);
        for (kind, row) in &mut rows {
            let since = Stopwatch::start();
            let first = Scenario {
                kind: *kind,
                clocks,
                seed: effort.seed + tried,
            };
            round(first, seeds, effort.size == Size::Merge, row);
            row.seconds += since.elapsed().as_secs_f64();
        }
        tried += seeds;
        // A planted bug is seen, and this run needs no more than that.
        if cfg!(semel_planted) && rows.iter().any(|(_, row)| !row.violations.is_empty()) {
            break;
        }
    }
    for (kind, row) in &mut rows {
        // A few scenarios cannot meet every hard case.
        if row.tried >= merge / 2 {
            let scenario = Scenario {
                kind: *kind,
                clocks,
                seed: effort.seed,
            };
            for case in scenario.hard_cases() {
                row.seen.entry(case.to_owned()).or_default();
            }
        }
    }
    rows.map(|(_, row)| row).into()
}

/// Plays this many scenarios from `first` on, on all processors.
fn round(first: Scenario, seeds: u64, always_twice: bool, row: &mut Row) {
    let next = AtomicU64::new(first.seed);
    let shared = Mutex::new(row);
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Row::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first.seed.saturating_add(seeds) {
                        break;
                    }
                    let is_twice = always_twice || seed.is_multiple_of(TWICE);
                    one(Scenario { seed, ..first }, is_twice, &mut own);
                }
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .add(&own);
            });
        }
    });
    let row = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The threads found them in any order.
    row.violations.sort();
}

fn one(scenario: Scenario, is_twice: bool, row: &mut Row) {
    let seed = scenario.seed;
    let tier = match scenario.clocks {
        Clocks::Usual => "T2",
        Clocks::Wild => "T10",
    };
    let told = play(scenario, &BTreeSet::new());
    let again = format!("cargo xtask prove {tier} --seeds 1 --seed {seed}");
    if is_twice && play(scenario, &BTreeSet::new()) != told {
        row.violations.push(format!(
            "seed {seed} tells another story each time: {again}"
        ));
    }
    if !told.violations.is_empty() {
        let what = told.violations.join("; ");
        // No one reads the log of a known bug.
        let words = if row.violations.is_empty() && !cfg!(semel_planted) {
            format!("\n{}", minimised(scenario))
        } else {
            String::new()
        };
        row.violations
            .push(format!("seed {seed}: {what}: {again}{words}"));
    }
    row.add(&counted(told));
}

/// The result of a scenario as a row of one.
fn counted(told: Told) -> Row {
    let named = |counts: std::collections::BTreeMap<&'static str, u64>| {
        counts
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    };
    Row {
        tried: 1,
        faults: named(told.faults),
        seen: named(told.seen),
        duplicates: told.duplicates,
        lost: told.lost,
        doubts_explained: told.doubts_explained,
        doubts_unexplained: told.doubts_unexplained,
        fenced: told.fenced,
        takeovers: told.takeovers,
        ..Row::default()
    }
}

/// Seeds of each kind for a merge.
const MERGE: u64 = 500;
/// The same where clocks are wild: some scenarios take days.
const MERGE_OF_CLOCKS: u64 = 80;
/// Seeds of one kind before the next one has its turn.
const ROUND: u64 = if cfg!(semel_planted) { 50 } else { 2_000 };
/// One of this many seeds is played twice.
const TWICE: u64 = 16;
