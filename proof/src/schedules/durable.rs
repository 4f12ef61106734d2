//! The group commit of the embedded store: every answer is durable, also for concurrent callers.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};

use semel_core::Store;
use semel_scheduled_embedded::{EmbeddedStore, Options};
use shuttle::rand::{Rng, thread_rng};

use super::Scenario;
use super::cast::{
    TestClock, claim, completes, dawdle, is_granted, is_replay, joined, request, spawn,
};
use super::coverage::Coverage;
use super::disk::{Disk, How};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        law: "embedded: what was answered outlives a power cut",
        seen: &[
            "calls that share a sync",
            "the power went between answers",
            "the power went before any answer",
        ],
        play: answered_is_durable,
    },
    Scenario {
        law: "embedded: with a queue of one, every call is answered",
        seen: &["calls that share a sync", "calls that share none"],
        play: short_queue,
    },
    Scenario {
        law: "embedded: after a sync that failed, nothing is answered from memory",
        seen: &[
            "calls failed",
            "calls failed together",
            "calls were answered before",
        ],
        play: failed_sync,
    },
    Scenario {
        law: "embedded: a call that nobody waits for is written before the store is closed",
        seen: &["given up with others", "given up alone"],
        play: given_up,
    },
    Scenario {
        law: "embedded: a store is opened anew once the one before is closed, no earlier",
        seen: &["refused while it was open", "opened anew at once"],
        play: opened_anew,
    },
];

pub(super) fn open(disk: &Disk, clock: &TestClock) -> EmbeddedStore {
    opened(disk, clock, 64).expect("a store on this disk")
}

fn opened(disk: &Disk, clock: &TestClock, queue_len: usize) -> semel_core::Result<EmbeddedStore> {
    let mut options = Options::default().with_segment_bytes(1 << 16);
    options.queue_len = queue_len;
    EmbeddedStore::open_in(Arc::new(disk.clone()), Arc::new(clock.clone()), options)
}

/// Completed keys, as their callers learned.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u64>>>);

impl Heard {
    fn add(&self, key: u64) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.push(key);
    }

    fn keys(&self) -> Vec<u64> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }
}

/// Claims and completes a key. Returns whether the store reported it completed.
fn finish(store: &EmbeddedStore, key: u64) -> bool {
    let request = request(key, 1 + u128::from(key));
    is_granted(&claim(store, &request)) && completes(store, &request).unwrap_or(false)
}

/// Checks that every key of `heard` is completed in the contents left on `disk`.
fn all_there(coverage: &Coverage, disk: &Disk, heard: &[u64]) {
    let left = open(&disk.after_power_cut(), &TestClock::default());
    for key in heard {
        let again = claim(&left, &request(*key, 99));
        coverage.law(is_replay(&again), || {
            format!("key {key} was answered as completed, and is not: {again:?}")
        });
    }
}

fn answered_is_durable(coverage: &Coverage, broken: bool) {
    let (disk, clock, heard) = (Disk::default(), TestClock::default(), Heard::default());
    let store = Arc::new(open(&disk, &clock));
    if broken {
        disk.answer(How::Lying);
    }
    let before = disk.syncs();
    let callers = (0..CALLERS).map(|key| {
        let (store, heard) = (Arc::clone(&store), heard.clone());
        spawn(move || {
            if finish(&store, key) {
                heard.add(key);
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let power = {
        let (disk, heard) = (disk.clone(), heard.clone());
        spawn(move || {
            dawdle(30);
            // No stop in between: both from one moment.
            (heard.keys(), disk.after_power_cut())
        })
    };
    let (told, left) = power.join().expect("a thread without a panic");
    joined(callers);
    coverage.law(heard.keys().len() as u64 == CALLERS, || {
        "a caller was not told that its key is done".to_owned()
    });
    coverage.saw(
        "calls that share a sync",
        disk.syncs() - before < 2 * CALLERS,
    );
    coverage.saw("the power went before any answer", told.is_empty());
    let between = !told.is_empty() && (told.len() as u64) < CALLERS;
    coverage.saw("the power went between answers", between);
    all_there(coverage, &left, &told);
}

fn short_queue(coverage: &Coverage, broken: bool) {
    let (disk, clock) = (Disk::default(), TestClock::default());
    let store = Arc::new(opened(&disk, &clock, 1).expect("a store on this disk"));
    let before = disk.syncs();
    let callers = (0..FULL).map(|key| {
        let store = Arc::clone(&store);
        // The break: as if two callers were mixed up.
        let key = if broken { key / 2 } else { key };
        spawn(move || finish(&store, key))
    });
    let done = joined(callers.collect());
    coverage.law(done.iter().all(|it| *it), || {
        format!("not every caller finished its key: {done:?}")
    });
    let syncs = disk.syncs() - before;
    coverage.saw("calls that share a sync", syncs < 2 * FULL);
    coverage.saw("calls that share none", syncs == 2 * FULL);
}

fn failed_sync(coverage: &Coverage, broken: bool) {
    let (disk, clock, heard) = (Disk::default(), TestClock::default(), Heard::default());
    let store = Arc::new(open(&disk, &clock));
    if broken {
        disk.answer(How::Hushing);
    }
    disk.fail_sync(thread_rng().gen_range(0..4));
    let callers = (0..CALLERS).map(|key| {
        let (store, heard, disk) = (Arc::clone(&store), heard.clone(), disk.clone());
        spawn(move || {
            let too_late = disk.has_failed();
            let done = finish(&store, key);
            if done {
                heard.add(key);
            }
            (too_late, done)
        })
    });
    let ended = joined(callers.collect());
    let failed = ended.iter().filter(|(_, done)| !done).count();
    coverage.saw("calls failed", failed > 0);
    coverage.saw("calls failed together", failed > 1);
    coverage.saw(
        "calls were answered before",
        disk.has_failed() && !heard.keys().is_empty(),
    );
    let answered_late = ended.iter().any(|(too_late, done)| *too_late && *done);
    coverage.law(!answered_late, || {
        "answered after a sync had failed".to_owned()
    });
    let later = claim(&*store, &request(50, 50));
    coverage.law(!disk.has_failed() || later.is_err(), || {
        format!("claimed after a sync had failed: {later:?}")
    });
    all_there(coverage, &disk, &heard.keys());
}

fn given_up(coverage: &Coverage, broken: bool) {
    let (disk, clock, heard) = (Disk::default(), TestClock::default(), Heard::default());
    let store = Arc::new(open(&disk, &clock));
    if broken {
        disk.answer(How::Lying);
    }
    let before = disk.syncs();
    let hasty = {
        let store = Arc::clone(&store);
        spawn(move || {
            let asked = [request(0, 1)];
            let mut call = pin!(store.claim(asked.clone().into()));
            let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        })
    };
    let other = {
        let (store, heard) = (Arc::clone(&store), heard.clone());
        spawn(move || {
            if finish(&store, 1) {
                heard.add(1);
            }
        })
    };
    joined(vec![hasty, other]);
    drop(store);
    let syncs = disk.syncs() - before;
    // One more is that of the superblock, at the end.
    coverage.saw("given up with others", syncs <= 3);
    coverage.saw("given up alone", syncs > 3);
    all_there(coverage, &disk, &heard.keys());
    let left = open(&disk.after_power_cut(), &clock);
    let again = claim(&left, &request(0, 99));
    let is_there = !matches!(&again, Ok(semel_core::Admission::Granted(it)) if !it.possible_repeat);
    coverage.law(is_there, || {
        format!("what was asked and given up on was not written: {again:?}")
    });
}

fn opened_anew(coverage: &Coverage, broken: bool) {
    let (disk, clock, heard) = (Disk::default(), TestClock::default(), Heard::default());
    let store = Arc::new(open(&disk, &clock));
    let users = Arc::new(AtomicUsize::new(2));
    let callers = (0..2).map(|key| {
        let (store, heard, users) = (Arc::clone(&store), heard.clone(), Arc::clone(&users));
        spawn(move || {
            if finish(&store, key) {
                heard.add(key);
            }
            users.fetch_sub(1, Ordering::SeqCst);
        })
    });
    let callers: Vec<_> = callers.collect();
    drop(store);
    if broken {
        disk.answer(How::Unlocked);
    }
    dawdle(60);
    let mut refused = 0;
    let next = (0..TRIES).find_map(|_| {
        let next = opened(&disk, &clock, 64).ok();
        refused += u64::from(next.is_none());
        let used = users.load(Ordering::SeqCst);
        coverage.law(next.is_none() || used == 0, || {
            format!("opened while {used} others were at it")
        });
        next
    });
    joined(callers);
    coverage.saw("refused while it was open", refused > 0);
    coverage.saw("opened anew at once", refused == 0 && next.is_some());
    drop(next);
    let last = opened(&disk, &clock, 64);
    coverage.law(last.is_ok(), || format!("not to be opened: {last:?}"));
    drop(last);
    all_there(coverage, &disk, &heard.keys());
}

const CALLERS: u64 = 3;
/// More than a queue of one takes.
const FULL: u64 = 4;
/// The number of tries to open a store that is in use.
const TRIES: usize = 12;
