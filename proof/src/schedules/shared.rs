//! One key and several claimants on one store: memory, embedded, and approximate.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Renewal, Renewed, Store};
use semel_scheduled_engine::layer::approximate::{Approximate, Settings};
use semel_scheduled_memory::MemoryStore;

use super::Scenario;
use super::cast::{
    LEASE, NoChance, TestClock, claim, completes, is_granted, is_replay, joined, request, spawn,
    wait,
};
use super::coverage::Coverage;
use super::disk::Disk;
use super::durable;

/// A store for the scenarios, on this clock.
trait Kind {
    type Store: Store;

    fn open(clock: &TestClock) -> Self::Store;
}

struct Memory;
struct Embedded;
struct Approximated;

impl Kind for Memory {
    type Store = MemoryStore;

    fn open(clock: &TestClock) -> MemoryStore {
        MemoryStore::new(Arc::new(clock.clone()))
    }
}

impl Kind for Embedded {
    type Store = semel_scheduled_embedded::EmbeddedStore;

    fn open(clock: &TestClock) -> Self::Store {
        durable::open(&Disk::default(), clock)
    }
}

impl Kind for Approximated {
    type Store = Approximate<MemoryStore>;

    fn open(clock: &TestClock) -> Self::Store {
        let settings = Settings::new(Duration::from_secs(3_600), 100);
        let opened = Approximate::new(
            Memory::open(clock),
            settings,
            Arc::new(clock.clone()),
            &NoChance,
        );
        opened.expect("settings that can be kept")
    }
}

macro_rules! scenario {
    ($kind:ident $name:literal $law:literal, $play:ident, $seen:expr) => {
        Scenario {
            law: concat!($name, ": ", $law),
            seen: &$seen,
            play: $play::<$kind>,
        }
    };
    ($kind:ident $name:literal granted) => {
        scenario!(
            $kind $name "of claims at the same time one is granted",
            one_granted,
            ["the first was granted", "the last was granted", "a late one was answered by a replay"]
        )
    };
    ($kind:ident $name:literal completes) => {
        scenario!(
            $kind $name "of an old claim and its takeover one completes",
            one_completes,
            ["the old one was fenced", "the old one was first"]
        )
    };
    ($kind:ident $name:literal renewed) => {
        scenario!(
            $kind $name "a lease that is over is renewed or taken over",
            renewed_or_taken,
            ["renewed", "taken over"]
        )
    };
    ($kind:ident $name:literal swept) => {
        scenario!(
            $kind $name "a sweep takes nothing that somebody has just claimed",
            swept,
            ["the sweep found it", "the sweep came too late"]
        )
    };
}

/// The approximate store keeps no claim of a finished operation, so it answers a late completion as its
/// own.
pub(super) const SCENARIOS: &[Scenario] = &[
    scenario!(Memory "memory" granted),
    scenario!(Memory "memory" completes),
    scenario!(Memory "memory" renewed),
    scenario!(Memory "memory" swept),
    scenario!(Embedded "embedded" granted),
    scenario!(Embedded "embedded" completes),
    scenario!(Embedded "embedded" renewed),
    scenario!(Embedded "embedded" swept),
    scenario!(Approximated "approximate" granted),
    scenario!(Approximated "approximate" renewed),
];

/// The break of these scenarios: every claimant uses the id of the first, as if they were one.
const fn claimant(number: u128, broken: bool) -> u128 {
    if broken { 1 } else { number }
}

fn one_granted<K: Kind>(coverage: &Coverage, broken: bool) {
    let store = Arc::new(K::open(&TestClock::default()));
    let callers = (1..=3).map(|number| {
        let store = Arc::clone(&store);
        let request = request(0, claimant(number, broken));
        spawn(move || {
            let admission = claim(&*store, &request);
            let granted = is_granted(&admission);
            let done = granted && completes(&*store, &request).unwrap_or(false);
            (granted, done, is_replay(&admission))
        })
    });
    let ended = joined(callers.collect());
    let granted = ended.iter().filter(|(granted, ..)| *granted).count();
    let done = ended.iter().filter(|(_, done, _)| *done).count();
    coverage.law(granted == 1 && done == 1, || {
        format!("{granted} of three claims were granted, {done} completed")
    });
    coverage.saw("the first was granted", ended[0].0);
    coverage.saw("the last was granted", ended[2].0);
    let replayed = ended.iter().any(|(.., replayed)| *replayed);
    coverage.saw("a late one was answered by a replay", replayed);
}

fn one_completes<K: Kind>(coverage: &Coverage, broken: bool) {
    let clock = TestClock::default();
    let store = Arc::new(K::open(&clock));
    let old = request(0, 1);
    let new = request(0, claimant(2, broken));
    coverage.law(is_granted(&claim(&*store, &old)), || {
        "nobody else is there, and the claim was not granted".to_owned()
    });
    clock.advance(LEASE + Duration::from_millis(1));
    let late = {
        let store = Arc::clone(&store);
        spawn(move || completes(&*store, &old).unwrap_or(false))
    };
    let taker = {
        let store = Arc::clone(&store);
        spawn(move || {
            let admission = claim(&*store, &new);
            is_granted(&admission) && completes(&*store, &new).unwrap_or(false)
        })
    };
    let done = joined(vec![late, taker]);
    coverage.law(done[0] != done[1], || {
        format!(
            "the old claim completed: {}, its takeover: {}",
            done[0], done[1]
        )
    });
    coverage.saw("the old one was fenced", !done[0]);
    coverage.saw("the old one was first", done[0]);
}

fn renewed_or_taken<K: Kind>(coverage: &Coverage, broken: bool) {
    let clock = TestClock::default();
    let store = Arc::new(K::open(&clock));
    let old = request(0, 1);
    let new = request(0, claimant(2, broken));
    coverage.law(is_granted(&claim(&*store, &old)), || {
        "nobody else is there, and the claim was not granted".to_owned()
    });
    clock.advance(LEASE + Duration::from_millis(1));
    let renewer = {
        let store = Arc::clone(&store);
        spawn(move || {
            let renewal = Renewal {
                operation: old.operation,
                claim_id: old.claim_id,
                lease: LEASE,
            };
            let answers = wait(store.renew([renewal].into()));
            answers.is_ok_and(|it| matches!(it[..], [Renewed::Until(_)]))
        })
    };
    let taker = {
        let store = Arc::clone(&store);
        spawn(move || is_granted(&claim(&*store, &new)))
    };
    let done = joined(vec![renewer, taker]);
    coverage.law(done[0] != done[1], || {
        format!("renewed: {}, taken over: {}", done[0], done[1])
    });
    coverage.saw("renewed", done[0]);
    coverage.saw("taken over", done[1]);
}

/// Plays a sweep of a key that was completed long ago.
fn swept<K: Kind>(coverage: &Coverage, broken: bool) {
    let clock = TestClock::default();
    let store = Arc::new(K::open(&clock));
    let old = request(0, 9);
    let finished = is_granted(&claim(&*store, &old)) && completes(&*store, &old).unwrap_or(false);
    coverage.law(finished, || "the key was not completed".to_owned());
    clock.advance(Duration::from_secs(30 * 86_400));
    let sweeper = {
        let store = Arc::clone(&store);
        spawn(move || wait(store.sweep(10)).map_or(0, |swept| swept.removed))
    };
    let callers = (1..=2).map(|number| {
        let store = Arc::clone(&store);
        let request = request(0, claimant(number, broken));
        spawn(move || is_granted(&claim(&*store, &request)))
    });
    let granted = joined(callers.collect()).iter().filter(|it| **it).count();
    let removed = sweeper.join().expect("a thread without a panic");
    coverage.law(granted == 1, || {
        format!("{granted} of two claims were granted beside a sweep")
    });
    coverage.saw("the sweep found it", removed > 0);
    coverage.saw("the sweep came too late", removed == 0);
    let later = claim(&*store, &request(0, 50));
    coverage.law(!is_granted(&later), || {
        "what was just claimed was swept away".to_owned()
    });
}
