//! T4: state that several threads of one process share, under a scheduler that chooses every order (`shuttle`): at
//! random, and by priorities that change at few places (PCT), block by block in turns.
//!
//! The code under test is the product's own source, built once more with the scheduler's locks and threads
//! (`proof/scheduled`). A thread may be stopped wherever it takes a lock, starts or joins a thread, waits, reads the
//! clock, or touches a file. Not tested here: reordering by the processor (everything is sequentially consistent;
//! decision 0060 says why nothing rests on it), and the inside of tokio's channels, whose every step counts as one.
//!
//! `single_thread` is of another kind, as it says: tasks on one thread.
//!
//! Each scenario states a law, and has a break of its own. Before the orders are played, the tier demands of each that
//! it sees that break, and sees it in the same order again. A scenario that sees no break must fail this demand.

mod cache;
mod cast;
mod coverage;
mod disk;
mod durable;
mod outage;
mod shared;
mod single_thread;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

use self::coverage::Coverage;
use crate::effort::Effort;
use crate::panics::quietly;
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// A few threads, and the law that must hold whatever their order.
struct Scenario {
    /// The law, in a few words.
    law: &'static str,
    /// The cases that have to occur in some of the orders.
    seen: &'static [&'static str],
    /// Plays it once; with its own break, if that is `true`.
    play: fn(&Coverage, bool),
}

/// The choice of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The scheduler, over threads.
    Threads,
    /// The scenario's own dice, over tasks on one thread.
    Awaits,
}

/// Plays every scenario as often as is asked for, once it has shown that it sees its own break.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let budget = effort.budget(MERGE);
    let mut tried: Vec<_> = scenarios()
        .map(|(it, way)| {
            let unit = match way {
                Way::Threads => "schedules of threads",
                Way::Awaits => "schedules of tasks",
            };
            let row = Row::new(it.law, unit);
            ((it, way), Coverage::new(it.seen), row)
        })
        .collect();
    // Shuttle puts its hook in the way with its first run; afterwards it would stay in place of a quiet one.
    let nothing = RandomScheduler::new_from_seed(1, 1);
    Runner::new(nothing, config()).run(|| ());
    eprintln!(
        "T4 breaks its laws on purpose first; `test panicked` and `failing seed` are shuttle's words for that"
    );
    quietly(|| {
        // What is demanded of each has to be able to fail.
        let demand = blind((&SEES_NOTHING, Way::Awaits));
        for (scenario, _, row) in &mut tried {
            if demand.is_none() {
                row.violations
                    .push("a scenario that sees no break passes".to_owned());
            }
            row.violations.extend(blind(*scenario));
        }
    });
    let (mut count, mut seed) = (0, effort.seed);
    while budget.allows(count) {
        let block = BLOCK.min(budget.most() - count);
        for ((scenario, way), coverage, row) in &mut tried {
            // One order that breaks a law is enough.
            if row.violations.is_empty() {
                let (since, before) = (Stopwatch::start(), coverage.played());
                let violations = played((scenario, *way), coverage, false, seed, block);
                row.add(&Row {
                    violations: violations.into_iter().collect(),
                    tried: coverage.played() - before,
                    seconds: since.elapsed().as_secs_f64(),
                    ..Row::default()
                });
            }
        }
        count += block;
        seed = seed.wrapping_add(1);
    }
    let rows = tried.into_iter().map(|(_, coverage, row)| Row {
        seen: coverage.seen(),
        ..row
    });
    rows.collect()
}

fn scenarios() -> impl Iterator<Item = (&'static Scenario, Way)> {
    [
        durable::SCENARIOS,
        shared::SCENARIOS,
        cache::SCENARIOS,
        outage::SCENARIOS,
    ]
    .into_iter()
    .flatten()
    .map(|it| (it, Way::Threads))
    .chain(single_thread::SCENARIOS.iter().map(|it| (it, Way::Awaits)))
}

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    config
}

/// The fault of a scenario that does not see its own break, or that plays other orders when it is played again.
fn blind(scenario: (&Scenario, Way)) -> Option<String> {
    let Some(seen) = broken(scenario, true, CONTROLS) else {
        return Some("does not see the break that belongs to it".to_owned());
    };
    let again = broken(scenario, true, CONTROLS).unwrap_or_default();
    (again != seen).then(|| format!("not the same again: {seen}, then {again}"))
}

/// The first order in which the law is broken, in this many blocks of a few hundred.
fn broken(scenario: (&Scenario, Way), with_break: bool, blocks: u64) -> Option<String> {
    let coverage = Coverage::new(scenario.0.seen);
    let mut seeds = 1..=blocks;
    seeds.find_map(|seed| played(scenario, &coverage, with_break, seed, BLOCK / 2))
}

/// Plays `count` orders, which `seed` fixes; returns what broke the law.
fn played(
    (scenario, way): (&Scenario, Way),
    coverage: &Arc<Coverage>,
    with_break: bool,
    seed: u64,
    count: u64,
) -> Option<String> {
    let before = coverage.played();
    coverage.block(seed);
    let times = usize::try_from(count).unwrap_or(usize::MAX);
    let (play, told) = (scenario.play, Arc::clone(coverage));
    let play = move || {
        told.begins();
        play(&told, with_break);
    };
    let ran = catch_unwind(AssertUnwindSafe(|| {
        if way == Way::Awaits {
            (0..count).for_each(|_| play());
        } else if seed.is_multiple_of(2) {
            let scheduler = PctScheduler::new_from_seed(seed, PCT_DEPTH, times);
            Runner::new(scheduler, config()).run(play);
        } else {
            let scheduler = RandomScheduler::new_from_seed(seed, times);
            Runner::new(scheduler, config()).run(play);
        }
    }));
    let (number, what) = match (coverage.broken(), ran) {
        (Some((number, what)), _) => (number, what),
        (None, Ok(())) => return None,
        // Threads that all wait for each other, or a panic in the code under test.
        (None, Err(payload)) => (coverage.played(), said(&*payload)),
    };
    Some(format!(
        "{what} (--seed {seed} --seeds {})",
        number - before
    ))
}

fn said(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| payload.downcast_ref::<&str>().map(|it| (*it).to_owned()));
    text.unwrap_or_else(|| "a panic without words".to_owned())
}

/// Orders of each scenario at a merge.
const MERGE: u64 = 2_500;
/// Orders in one block, which has one seed and one way to choose.
const BLOCK: u64 = 500;
/// The number of blocks, of half the length, within which a scenario sees its break.
const CONTROLS: u64 = 4;
/// The number of places at which priorities change.
const PCT_DEPTH: usize = 3;
const STACK_BYTES: usize = 256 << 10;
/// A scenario that keeps its law whatever is broken.
const SEES_NOTHING: Scenario = Scenario {
    law: "none",
    seen: &[],
    play: |_, _| {},
};
