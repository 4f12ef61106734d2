//! T1: the protocol as a model, every interleaving of it within bounds.
//!
//! Stores decide here by `semel_core::decide` itself. Around it are workers that crash, stop and go on as
//! zombies, requests and answers that are lost or late, a broker that hands a message to two at once, a
//! provider that forgets keys, operators, and time. Each configuration (`setup`) is searched breadth first
//! and to its end: what breaks a law is told by a shortest way to it.
//!
//! Not here: class E, whose claims are not stored (the broker's transaction decides), and stores that forget
//! what they answered where the class does not survive that, which is shown to break in the tests.

mod happen;
mod judge;
mod law;
mod named;
mod planted;
mod setup;
mod steps;
mod store;
mod story;
#[cfg(test)]
mod tests;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::{Entity, Operation};
use stateright::{Checker, HasDiscoveries, Model, Property};

use self::law::{Case, Fault, Law};
use self::setup::{MOST_OPERATIONS, Setup};
use self::steps::Action;
use self::world::World;
use crate::effort::{Effort, Size};
use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// What a configuration may take at most, counting states as often as they are met, so that it stays within
/// memory.
const MOST_STEPS: usize = 120_000_000;
/// How often a campaign adds to each configuration at most.
const DEEPEST: u8 = 12;
const THREADS: usize = 2;

/// One configuration of the protocol.
#[derive(Clone)]
pub(crate) struct Protocol {
    setup: Setup,
    operations: [Operation; MOST_OPERATIONS],
    entity: Entity,
    met: Arc<[AtomicU64; Case::ALL.len()]>,
    dealt: Arc<[AtomicU64; Fault::ALL.len()]>,
}

impl Protocol {
    fn new(setup: Setup) -> Option<Self> {
        let setup = planted::into(setup);
        Some(Self {
            setup,
            operations: store::operations()?,
            entity: Entity::new("entity").ok()?,
            met: Arc::new([const { AtomicU64::new(0) }; Case::ALL.len()]),
            dealt: Arc::new([const { AtomicU64::new(0) }; Fault::ALL.len()]),
        })
    }

    /// A hard case was met.
    fn meets(&self, case: Case) {
        self.met[case as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A fault was dealt.
    fn deals(&self, fault: Fault) {
        self.dealt[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn times(&self, case: Case) -> u64 {
        self.met[case as usize].load(Ordering::Relaxed)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.setup)]
    }

    fn actions(&self, state: &World, actions: &mut Vec<Action>) {
        self.possible(state, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        self.happens(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        Law::properties()
    }
}

/// What a search found.
struct Found {
    states: u64,
    /// Whether it came to its end.
    is_whole: bool,
    /// Broken laws, each with a way to it.
    broken: Vec<Way>,
    protocol: Protocol,
}

/// A way to a broken law.
struct Way {
    law: &'static str,
    steps: usize,
    story: String,
}

/// Searches one configuration: to its end, to its first broken law, or until there is no time left.
fn search(setup: Setup, threads: usize, time: Option<Duration>) -> Option<Found> {
    let mut found = search_to(setup, threads, time, usize::MAX)?;
    // The searcher ends a little after what it finds first, and tells of what it found last.
    let shortest = |found: &Found| found.broken.iter().map(|way| way.steps).min();
    while let Some(steps) = shortest(&found) {
        let shorter = search_to(setup, 1, None, steps)?;
        if shorter.broken.is_empty() {
            found.broken.retain(|way| way.steps == steps);
            break;
        }
        found.broken = shorter.broken;
    }
    Some(found)
}

/// The same, for ways of fewer than `steps` steps.
fn search_to(setup: Setup, threads: usize, time: Option<Duration>, steps: usize) -> Option<Found> {
    let protocol = Protocol::new(setup)?;
    let mut builder = protocol
        .clone()
        .checker()
        .threads(threads)
        .target_state_count(MOST_STEPS)
        .target_max_depth(steps.saturating_add(1))
        .finish_when(HasDiscoveries::AnyFailures);
    if let Some(time) = time {
        builder = builder.timeout(time);
    }
    let since = Stopwatch::start();
    let checker = builder.spawn_bfs().join();
    let in_time = time.is_none_or(|time| since.elapsed() < time);
    let broken = checker
        .discoveries()
        .into_iter()
        .map(|(law, path)| {
            let path = path.into_vec();
            Way {
                law,
                steps: path.len() - 1,
                story: story::tell(&protocol, &path),
            }
        })
        .collect();
    Some(Found {
        states: u64::try_from(checker.unique_state_count()).unwrap_or(u64::MAX),
        is_whole: in_time && checker.state_count() < MOST_STEPS,
        broken,
        protocol,
    })
}

/// The row of one configuration.
fn check(setup: Setup, time: Option<Duration>) -> Row {
    let since = Stopwatch::start();
    let mut row = Row::new(setup.name, "states");
    let Some(found) = search(setup, THREADS, time) else {
        row.violations.push("cannot be set up".to_owned());
        return row;
    };
    if !found.is_whole && found.broken.is_empty() {
        "states, not to the end".clone_into(&mut row.unit);
    }
    let times = |case| found.protocol.times(case);
    let all = |cases: &[Case]| cases.iter().copied().map(times).sum();
    row.tried = found.states;
    row.fenced = all(&[
        Case::FencedStart,
        Case::FencedCompletion,
        Case::FencedRelease,
        Case::FencedCommit,
    ]);
    row.takeovers = times(Case::Takeover);
    row.doubts_explained = all(&[
        Case::DoubtByVanished,
        Case::DoubtByWindow,
        Case::DoubtByCap,
        Case::DoubtBySweep,
    ]);
    let broken = |law: Law| found.broken.iter().any(|way| way.law == law.name());
    row.duplicates = broken(Law::SingleEffect).into();
    row.lost = broken(Law::NoLoss).into();
    row.doubts_unexplained = broken(Law::DoubtHasACause).into();
    row.violations = told(found.broken);
    for &fault in Fault::ALL {
        let dealt = found.protocol.dealt[fault as usize].load(Ordering::Relaxed);
        row.faults.insert(fault.name().to_owned(), dealt);
    }
    for &case in Case::ALL {
        row.seen.insert(case.name().to_owned(), times(case));
    }
    row.seconds = since.elapsed().as_secs_f64();
    row
}

/// Each way once, with all the laws that it breaks.
fn told(broken: Vec<Way>) -> Vec<String> {
    let mut ways: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for way in broken {
        ways.entry(way.story).or_default().push(way.law);
    }
    ways.into_iter()
        .map(|(way, mut laws)| {
            laws.sort_unstable();
            format!("{}: {way}", laws.join("; "))
        })
        .collect()
}

/// The hard cases are counted over all configurations, since each has those that it can have.
fn gathered(mut rows: Vec<Row>) -> Vec<Row> {
    let mut all = Row::new("together", "states");
    for row in &mut rows {
        all.add(row);
        row.seen.retain(|_, times| *times > 0);
    }
    // What is broken is said where it is.
    all.violations.clear();
    (all.duplicates, all.lost, all.doubts_unexplained) = (0, 0, 0);
    rows.push(all);
    rows
}

/// Every configuration; in a campaign each with more and more of everything, until there are states enough.
pub(crate) fn run(effort: Effort) -> Vec<Row> {
    let setups = setup::all();
    let mut rows = Vec::new();
    for setup in &setups {
        rows.push(check(*setup, None));
        // A bug that is planted is seen: no more is asked of this run.
        if cfg!(semel_planted) && rows.iter().any(|row| !row.violations.is_empty()) {
            return gathered(rows);
        }
    }
    if effort.size != Size::Merge {
        deepen(&setups, &mut rows, effort);
    }
    gathered(rows)
}

/// The states of a deeper configuration are those of the one before and more, so its row takes that one's place.
fn deepen(setups: &[Setup], rows: &mut [Row], effort: Effort) {
    let budget = effort.budget(0);
    for by in 1..=DEEPEST {
        for at in 0..setups.len() {
            let total: u64 = rows.iter().map(|row| row.tried).sum();
            if !budget.allows(total) {
                return;
            }
            let deeper = check(setups[at].deeper(by), budget.left());
            println!(
                "  {total} states of {}; {}, {by} deeper: {} {} in {:.0} s",
                budget.most(),
                deeper.name,
                deeper.tried,
                deeper.unit,
                deeper.seconds
            );
            if deeper.tried > rows[at].tried || !deeper.violations.is_empty() {
                rows[at] = deeper;
            }
        }
    }
}
