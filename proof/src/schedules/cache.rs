//! The cache of completed keys: an order of this process counts at once (`layer::tiered`).

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use semel_core::port::store::ListQuery;
use semel_core::{Admission, ClaimRequest, Duplicate, OpId, Result, Store};
use semel_scheduled_engine::layer::tiered::{Settings, Tiered};
use semel_scheduled_memory::MemoryStore;
use shuttle::sync::Mutex;

use super::Scenario;
use super::cast::{
    TestClock, claim, completes, dawdle, forgets, is_granted, is_replay, joined, request, spawn,
    wait,
};
use super::coverage::Coverage;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        law: "cache: a key that was forgotten here is not skipped here",
        seen: &[
            "answered from the cache",
            "skipped while it was being forgotten",
            "granted to whoever read it",
        ],
        play: forgotten_while_read,
    },
    Scenario {
        law: "cache: a key that was forgotten during a warm-up is not skipped",
        seen: &["warmed before", "forgotten before"],
        play: forgotten_while_warmed,
    },
    Scenario {
        law: "cache: a key that is forgotten and done again is granted once each time",
        seen: &["skipped before", "skipped after", "granted"],
        play: done_again,
    },
];

/// The break's replacement for the cache: looks, asks, keeps, and notices nothing in between.
struct Naive {
    authority: MemoryStore,
    kept: Mutex<BTreeSet<OpId>>,
}

enum Cache {
    Real(Tiered<MemoryStore>),
    Naive(Naive),
}

impl Cache {
    /// A cache over a store in which `done` is completed. The cache has no more than a hint of
    /// that.
    fn over(done: &ClaimRequest, coverage: &Coverage, broken: bool) -> Arc<Self> {
        let clock = TestClock::default();
        let memory = MemoryStore::new(Arc::new(clock.clone()));
        let cache = if broken {
            Self::Naive(Naive {
                authority: memory,
                kept: Mutex::default(),
            })
        } else {
            Self::Real(Tiered::new(memory, Settings::default(), Arc::new(clock)))
        };
        let granted = is_granted(&cache.claim(done));
        coverage.law(granted && cache.completes(done), || {
            "the key was not completed".to_owned()
        });
        Arc::new(cache)
    }

    fn claim(&self, request: &ClaimRequest) -> Result<Admission> {
        match self {
            Self::Real(tiered) => claim(tiered, request),
            Self::Naive(naive) => {
                let id = request.operation.id();
                let kept = naive.kept.lock().unwrap_or_else(PoisonError::into_inner);
                let is_kept = kept.contains(&id);
                drop(kept);
                if is_kept {
                    return Ok(Admission::Replay {
                        outcome: None,
                        duplicate: Duplicate::Unknown,
                    });
                }
                let admission = claim(&naive.authority, request);
                if is_replay(&admission) {
                    naive.keep(id);
                }
                admission
            }
        }
    }

    fn completes(&self, request: &ClaimRequest) -> bool {
        let completed = match self {
            Self::Real(tiered) => completes(tiered, request),
            Self::Naive(naive) => completes(&naive.authority, request),
        };
        completed.unwrap_or(false)
    }

    fn forgets(&self, request: &ClaimRequest) -> bool {
        match self {
            Self::Real(tiered) => forgets(tiered, request),
            Self::Naive(naive) => {
                let mut kept = naive.kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.remove(&request.operation.id());
                drop(kept);
                forgets(&naive.authority, request)
            }
        }
    }

    fn warm(&self, request: &ClaimRequest) -> u64 {
        match self {
            Self::Real(tiered) => wait(tiered.warm(ListQuery::default(), 10)).unwrap_or(0),
            Self::Naive(naive) => {
                let found = wait(naive.authority.get([request.operation.clone()].into()));
                let found = found.is_ok_and(|it| it[0].is_some());
                if found {
                    naive.keep(request.operation.id());
                }
                u64::from(found)
            }
        }
    }

    /// Claims that were answered without the authority.
    fn answered(&self) -> u64 {
        match self {
            Self::Real(tiered) => tiered.statistics().answered,
            Self::Naive(_) => 0,
        }
    }
}

impl Naive {
    fn keep(&self, id: OpId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(id);
    }
}

fn forgotten_while_read(coverage: &Coverage, broken: bool) {
    let done = request(0, 1);
    let cache = Cache::over(&done, coverage, broken);
    let readers = (10..12).map(|number| {
        let cache = Arc::clone(&cache);
        spawn(move || {
            let first = cache.claim(&request(0, number));
            let second = cache.claim(&request(0, number));
            (
                is_granted(&first) || is_granted(&second),
                is_replay(&second),
            )
        })
    });
    let readers: Vec<_> = readers.collect();
    let operator = {
        let cache = Arc::clone(&cache);
        spawn(move || {
            dawdle(40);
            let forgotten = cache.forgets(&done);
            (forgotten, cache.claim(&request(0, 20)))
        })
    };
    let (forgotten, after) = operator.join().expect("a thread without a panic");
    let readers = joined(readers);
    coverage.law(forgotten, || "the order was not carried out".to_owned());
    coverage.law(!is_replay(&after), || {
        "forgotten, and skipped as done afterwards".to_owned()
    });
    let last = cache.claim(&request(0, 30));
    coverage.law(!is_replay(&last), || {
        "forgotten, and skipped as done in the end".to_owned()
    });
    coverage.saw("answered from the cache", cache.answered() > 0);
    let skipped = readers.iter().any(|(_, skipped)| *skipped);
    coverage.saw("skipped while it was being forgotten", skipped);
    let granted = readers.iter().any(|(granted, _)| *granted);
    coverage.saw("granted to whoever read it", granted);
}

fn forgotten_while_warmed(coverage: &Coverage, broken: bool) {
    let done = request(0, 1);
    let cache = Cache::over(&done, coverage, broken);
    let warmer = {
        let (cache, done) = (Arc::clone(&cache), done.clone());
        spawn(move || cache.warm(&done))
    };
    let operator = {
        let cache = Arc::clone(&cache);
        spawn(move || {
            dawdle(10);
            cache.forgets(&done)
        })
    };
    let forgotten = operator.join().expect("a thread without a panic");
    let kept = warmer.join().expect("a thread without a panic");
    coverage.law(forgotten, || "the order was not carried out".to_owned());
    let after = cache.claim(&request(0, 20));
    coverage.law(is_granted(&after), || {
        format!("forgotten, and not granted afterwards: {after:?}")
    });
    coverage.saw("warmed before", kept > 0);
    coverage.saw("forgotten before", kept == 0);
}

fn done_again(coverage: &Coverage, broken: bool) {
    let done = request(0, 1);
    let cache = Cache::over(&done, coverage, broken);
    let operator = {
        let cache = Arc::clone(&cache);
        spawn(move || {
            dawdle(60);
            u64::from(cache.forgets(&done))
        })
    };
    let workers = (10..12).map(|number| {
        let cache = Arc::clone(&cache);
        spawn(move || {
            let request = request(0, number);
            let mut ran = 0;
            for _ in 0..2 {
                if is_granted(&cache.claim(&request)) {
                    ran += u64::from(cache.completes(&request));
                }
            }
            ran
        })
    });
    let workers: Vec<_> = workers.collect();
    let ran: u64 = joined(workers).iter().sum();
    let forgotten = operator.join().expect("a thread without a panic");
    // A later call does what is left to do.
    let last = request(0, 30);
    let granted = is_granted(&cache.claim(&last)) && cache.completes(&last);
    let ran_in_all = ran + u64::from(granted);
    coverage.law(ran_in_all == forgotten, || {
        format!("forgotten {forgotten} times and done again {ran_in_all} times")
    });
    coverage.saw("granted", ran > 0);
    coverage.saw("skipped before", granted);
    coverage.saw("skipped after", !granted);
}
