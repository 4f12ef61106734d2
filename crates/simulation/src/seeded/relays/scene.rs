//! The world of a story: the table, the leases, the topic, and the faults that the seed has in store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::outbox::PARTITIONS;
use tokio::sync::Notify;

use crate::seeded::course::{Course, secs};
use crate::seeded::dice::{Dice, Site};

/// The world.
pub(super) struct Scene {
    pub(super) plan: Plan,
    pub(super) course: Arc<Course>,
    pub(super) commits: Notify,
    state: Mutex<State>,
}

/// The decisions of the seed that come first.
pub(super) struct Plan {
    pub(super) processes: u64,
    pub(super) lease: Duration,
    pub(super) transactions: Vec<Transaction>,
    /// The messages that the sink never takes.
    pub(super) poison: BTreeSet<u128>,
    /// The time for which things go wrong.
    pub(super) safety: Duration,
    /// True of a story in which nothing ever goes wrong, but slowly.
    pub(super) is_calm: bool,
}

pub(super) struct Transaction {
    pub(super) begins: Duration,
    pub(super) lasts: Duration,
    is_undone: bool,
    /// Its messages: ids and order keys.
    messages: Vec<(u128, Option<u64>)>,
}

/// The part of the world that changes.
#[derive(Default)]
pub(super) struct State {
    last_place: i64,
    /// Messages of transactions that are still open, with their places.
    open: BTreeMap<u128, i64>,
    /// Committed messages that are not on record as published.
    pub(super) rows: BTreeMap<u128, Row>,
    /// The place of all that was ever committed, with its order key.
    pub(super) committed: BTreeMap<u128, (i64, Option<u64>)>,
    ended: usize,
    pub(super) leases: Vec<Lease>,
    /// Until when each process is there.
    pub(super) processes: BTreeMap<Box<str>, Duration>,
    /// Messages that the sink took, in its order.
    pub(super) topic: Vec<u128>,
    /// Messages by the lives of processes that the sink told that it took them.
    pub(super) answered: BTreeMap<(u64, u64), Vec<u128>>,
}

/// A committed message.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) place: i64,
    pub(super) key: Option<u64>,
    pub(super) attempts: u32,
    pub(super) due: Option<Duration>,
    pub(super) is_dead: bool,
}

/// The lease of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Lease {
    pub(super) holder: Option<Box<str>>,
    pub(super) token: i64,
    pub(super) until: Duration,
}

impl Scene {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let state = State {
            leases: vec![Lease::default(); usize::from(PARTITIONS)],
            ..State::default()
        };
        let plan = Plan::new(seed);
        Arc::new(Self {
            course: Arc::new(Course::new(seed, plan.is_calm)),
            plan,
            commits: Notify::new(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fenced(&self) {
        self.course.fenced();
        self.course.saw(LOST_LEASE);
    }

    /// Writes the messages of a transaction: their places are in order of insertion.
    pub(super) fn insert(&self, transaction: usize) {
        let mut state = self.state();
        for (id, _) in &self.plan.transactions[transaction].messages {
            state.last_place += 1;
            let place = state.last_place;
            state.open.insert(*id, place);
        }
    }

    /// Ends a transaction. Where another one has committed later places of an order key, those of this one move behind.
    pub(super) fn end(&self, transaction: usize) {
        let Transaction {
            is_undone,
            messages,
            ..
        } = &self.plan.transactions[transaction];
        let mut is_late = false;
        let mut state = self.state();
        state.ended += 1;
        for (id, key) in messages {
            let Some(mut place) = state.open.remove(id) else {
                continue;
            };
            if *is_undone {
                continue;
            }
            let is_before =
                |&(other, of): &(i64, Option<u64>)| key.is_some() && of == *key && other > place;
            is_late |= state.committed.values().any(|(other, _)| *other > place);
            if state.committed.values().any(is_before) {
                state.last_place += 1;
                place = state.last_place;
            }
            state.committed.insert(*id, (place, *key));
            let row = Row {
                place,
                key: *key,
                attempts: 0,
                due: None,
                is_dead: false,
            };
            state.rows.insert(*id, row);
        }
        drop(state);
        if is_late {
            self.course.saw(LATE_COMMIT);
        }
        self.course
            .log(format_args!("transaction {transaction} ended"));
        self.commits.notify_waiters();
    }

    /// Returns whether nothing is left to publish but what waits for a person.
    pub(super) fn is_done(&self) -> bool {
        let state = self.state();
        let dead: BTreeMap<u64, i64> = state
            .rows
            .values()
            .filter(|row| row.is_dead)
            .filter_map(|row| Some((row.key?, row.place)))
            .collect();
        let waits = |row: &Row| {
            let before = row.key.and_then(|key| dead.get(&key));
            row.is_dead || before.is_some_and(|before| *before < row.place)
        };
        state.ended == self.plan.transactions.len() && state.rows.values().all(waits)
    }

    /// The time until a process is killed, if it is.
    pub(super) fn next_kill(&self, process: u64, life: u64) -> Option<Duration> {
        let mut dice = self.course.dice(&[KILL, process, life]);
        let after = dice.between(secs(1), secs(40));
        let is_early = self.course.now() + after < self.plan.safety;
        (!self.plan.is_calm && is_early).then_some(after)
    }

    pub(super) fn rest(&self, process: u64, life: u64) -> Duration {
        let mut dice = self.course.dice(&[REST, process, life]);
        dice.between(Duration::ZERO, secs(5))
    }

    pub(super) fn killed(&self, process: u64, life: u64) {
        let state = self.state();
        let mut answered = state.answered.get(&(process, life)).into_iter().flatten();
        let is_unrecorded = answered.any(|id| state.rows.contains_key(id));
        drop(state);
        if is_unrecorded {
            self.course.saw(UNRECORDED);
        }
        self.course
            .log(format_args!("process {process}, life {life}"));
        self.course.blow("relay killed");
    }
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed, Site::at(&[PLAN]));
        let is_calm = dice.one_in(6);
        let has_poison = dice.one_in(3);
        let mut poison = BTreeSet::new();
        let mut next = 0_u128;
        let mut message = |dice: &mut Dice| {
            next += 1;
            if has_poison && dice.one_in(20) {
                poison.insert(next);
            }
            let key = (!dice.one_in(4)).then(|| dice.roll(KEYS));
            (next, key)
        };
        let count = 6 + dice.roll(20);
        let transactions = (0..count)
            .map(|_| {
                let lasts = if dice.one_in(3) { secs(20) } else { secs(1) };
                Transaction {
                    begins: dice.between(Duration::ZERO, secs(100)),
                    lasts: dice.between(Duration::ZERO, lasts),
                    is_undone: dice.one_in(6),
                    messages: (0..=dice.roll(4)).map(|_| message(&mut dice)).collect(),
                }
            })
            .collect();
        Self {
            processes: 2 + dice.roll(2),
            lease: secs(10),
            transactions,
            poison,
            safety: secs(150),
            is_calm,
        }
    }
}

/// The partition of a message.
pub(super) fn partition(id: u128, key: Option<u64>) -> u16 {
    let of = key.map_or(id, |key| u128::from(key) + 1_000);
    u16::try_from(of * 7 % u128::from(PARTITIONS)).unwrap_or(0)
}

const KEYS: u64 = 5;
// The places that draws are made for.
const PLAN: u64 = 1;
const KILL: u64 = 2;
const REST: u64 = 3;
pub(super) const CALL: u64 = 4;
pub(super) const PUBLICATION: u64 = 5;
// The hard cases.
pub(super) const LATE_COMMIT: &str = "a commit behind later places";
pub(super) const LOST_LEASE: &str = "a lease lost while it was counted on";
pub(super) const UNRECORDED: &str = "killed between publication and record";
pub(super) const DEAD: &str = "a message given up";
