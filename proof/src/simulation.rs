//! T2: the engine in a seeded world, story by story, as many at once as there are processors.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use semel_simulation::seeded::{Kind, Told, minimised, play};

use crate::effort::{Effort, Size};
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// Plays as many stories of each kind as the effort has room for.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let budget = effort.budget(MERGE);
    let mut rows = Kind::ALL.map(|kind| (kind, Row::new(kind.name(), "seeds")));
    let mut tried = 0;
    while budget.allows(tried) {
        let seeds = ROUND.min(budget.most() - tried);
        for (kind, row) in &mut rows {
            let since = Stopwatch::start();
            round(
                *kind,
                effort.seed + tried,
                seeds,
                effort.size == Size::Merge,
                row,
            );
            row.seconds += since.elapsed().as_secs_f64();
        }
        tried += seeds;
    }
    for (kind, row) in &mut rows {
        // A few stories cannot meet everything.
        if row.tried >= ENOUGH {
            for case in kind.hard_cases() {
                row.seen.entry(case.to_owned()).or_default();
            }
        }
    }
    rows.map(|(_, row)| row).into()
}

/// Plays these seeds on all processors.
fn round(kind: Kind, first: u64, seeds: u64, always_twice: bool, row: &mut Row) {
    let next = AtomicU64::new(first);
    let shared = Mutex::new(row);
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Row::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first.saturating_add(seeds) {
                        break;
                    }
                    let is_twice = always_twice || seed.is_multiple_of(TWICE);
                    one(kind, seed, is_twice, &mut own);
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

fn one(kind: Kind, seed: u64, is_twice: bool, row: &mut Row) {
    let told = play(kind, seed, &BTreeSet::new());
    let again = format!("cargo xtask prove T2 --seeds 1 --seed {seed}");
    if is_twice && play(kind, seed, &BTreeSet::new()) != told {
        row.violations.push(format!(
            "seed {seed} tells another story each time: {again}"
        ));
    }
    if !told.violations.is_empty() {
        let what = told.violations.join("; ");
        let story = if row.violations.is_empty() {
            format!("\n{}", minimised(kind, seed))
        } else {
            String::new()
        };
        row.violations
            .push(format!("seed {seed}: {what}: {again}{story}"));
    }
    row.add(&counted(told));
}

/// A story as a row of one.
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
const MERGE: u64 = 2_000;
/// Seeds of one kind before the next one has its turn.
const ROUND: u64 = 2_000;
/// Of so many seeds one is played twice.
const TWICE: u64 = 16;
/// Seeds that must have met every hard case.
const ENOUGH: u64 = 1_000;
