//! Searches a model breadth first, to its end or to its first broken law, and reports the result.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model};

use crate::report::Row;
use crate::stopwatch::Stopwatch;

/// The most steps of a configuration, counting states as often as they are met, so that it stays within memory.
const MOST_STEPS: usize = 120_000_000;
const THREADS: usize = 2;

/// A model that can be set up, and whose ways can be described.
pub(crate) trait Subject: Model + Clone + Send + Sync + 'static {
    type Setup: Copy;

    /// The model; nothing if it cannot be set up.
    fn new(setup: Self::Setup) -> Option<Self>;

    fn name(setup: &Self::Setup) -> &'static str;

    /// One numbered sentence for each step of a way.
    fn tell(&self, path: &[(Self::State, Option<Self::Action>)]) -> String;

    /// Adds the counts and the broken laws to a row.
    fn report(&self, broken: &[&str], row: &mut Row);
}

/// The names of a model's parts here: the actions that are `possible` in a `World`, the world that `happens` by
/// an `Action`, and the `Law`s.
macro_rules! is_model {
    ($subject:ident) => {
        impl stateright::Model for $subject {
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

            fn properties(&self) -> Vec<stateright::Property<Self>> {
                Law::properties()
            }
        }
    };
}

pub(crate) use is_model;

/// Hard cases that were met and faults that were dealt, by number.
#[derive(Clone)]
pub(crate) struct Tally {
    met: Arc<[AtomicU64]>,
    dealt: Arc<[AtomicU64]>,
}

impl Tally {
    pub(crate) fn new(cases: usize, faults: usize) -> Self {
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            met: zeros(cases),
            dealt: zeros(faults),
        }
    }

    pub(crate) fn meets(&self, case: usize) {
        self.met[case].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn deals(&self, fault: usize) {
        self.dealt[fault].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn met(&self, case: usize) -> u64 {
        self.met[case].load(Ordering::Relaxed)
    }

    pub(crate) fn dealt(&self, fault: usize) -> u64 {
        self.dealt[fault].load(Ordering::Relaxed)
    }

    /// Adds the counts to a row, by the names of faults and cases.
    pub(crate) fn report(&self, faults: &[&str], cases: &[&str], row: &mut Row) {
        for (at, fault) in faults.iter().enumerate() {
            row.faults.insert((*fault).to_owned(), self.dealt(at));
        }
        for (at, case) in cases.iter().enumerate() {
            row.seen.insert((*case).to_owned(), self.met(at));
        }
    }
}

/// The result of a search.
pub(crate) struct Found<M> {
    states: u64,
    /// True if it came to its end.
    is_whole: bool,
    /// Broken laws, each with a way to it.
    pub(crate) broken: Vec<Way>,
    model: M,
}

/// A way to a broken law.
pub(crate) struct Way {
    pub(crate) law: &'static str,
    steps: usize,
    pub(crate) story: String,
}

/// Searches one configuration: to its end, to its first broken law, or until there is no time left.
pub(crate) fn search<M>(setup: M::Setup, threads: usize, time: Option<Duration>) -> Option<Found<M>>
where
    M: Subject,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let mut found = search_to(setup, threads, time, usize::MAX)?;
    // The searcher ends a little after its first find, and reports its last one.
    let shortest = |found: &Found<M>| found.broken.iter().map(|way| way.steps).min();
    while let Some(steps) = shortest(&found) {
        let shorter = search_to::<M>(setup, 1, None, steps)?;
        if shorter.broken.is_empty() {
            found.broken.retain(|way| way.steps == steps);
            break;
        }
        found.broken = shorter.broken;
    }
    Some(found)
}

/// The laws that a setup breaks. The way to them need not be a shortest one.
#[cfg(test)]
#[track_caller]
pub(crate) fn broken<M>(setup: M::Setup) -> Vec<&'static str>
where
    M: Subject,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let found = search_to::<M>(setup, 1, None, usize::MAX).expect("a model");
    found.broken.iter().map(|way| way.law).collect()
}

/// Checks that the setup that `wrong` makes of a right one breaks `law`, perhaps among others.
#[cfg(test)]
#[track_caller]
pub(crate) fn breaks<M>(right: M::Setup, wrong: impl FnOnce(&mut M::Setup), law: &str)
where
    M: Subject,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let mut setup = right;
    wrong(&mut setup);
    let laws = broken::<M>(setup);
    assert!(laws.contains(&law), "broke only {laws:?}");
}

/// The same, for ways of fewer than `steps` steps.
fn search_to<M>(
    setup: M::Setup,
    threads: usize,
    time: Option<Duration>,
    steps: usize,
) -> Option<Found<M>>
where
    M: Subject,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let model = M::new(setup)?;
    let mut builder = model
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
                story: model.tell(&path),
            }
        })
        .collect();
    Some(Found {
        states: u64::try_from(checker.unique_state_count()).unwrap_or(u64::MAX),
        is_whole: in_time && checker.state_count() < MOST_STEPS,
        broken,
        model,
    })
}

/// The row of one configuration.
pub(crate) fn check<M>(setup: M::Setup, time: Option<Duration>) -> Row
where
    M: Subject,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let since = Stopwatch::start();
    let mut row = Row::new(M::name(&setup), "states");
    let Some(found) = search::<M>(setup, THREADS, time) else {
        row.violations.push("cannot be set up".to_owned());
        return row;
    };
    if !found.is_whole && found.broken.is_empty() {
        "states, not to the end".clone_into(&mut row.unit);
    }
    row.tried = found.states;
    let broken: Vec<&str> = found.broken.iter().map(|way| way.law).collect();
    found.model.report(&broken, &mut row);
    row.violations = told(found.broken);
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
