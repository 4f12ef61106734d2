//! The state that everything in a scenario shares: time, the store, the dealt faults, the log. A scenario runs on one
//! thread, so the locks are never contended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Arguments, Display, Write};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use semel_core::{Clock, Error, ErrorKind, Key, Operation, Record, Scope, StoreExt, Timestamp};
use semel_store_memory::MemoryStore;
use tokio::time::Instant;

use crate::seeded::dice::Site;
use crate::seeded::disk::Disk;
use crate::seeded::kind::Kind;
use crate::seeded::lock::lock;
use crate::seeded::plan::Plan;
use crate::seeded::provider::Provider;
use crate::seeded::queue::Queue;
use crate::seeded::scenario::Scenario;

/// A scenario under way.
pub(crate) struct World {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    pub(crate) scope: Scope,
    muted: BTreeSet<Site>,
    origin: Instant,
    /// The clock of the store.
    pub(crate) store_clock: WorldClock,
    store: Mutex<Arc<MemoryStore>>,
    /// True once faults are over.
    is_calm: AtomicBool,
    /// True once everything is settled: workers are asked to stop.
    is_over: AtomicBool,
    /// Unlike a watch channel, it wakes tasks in the order in which they wait.
    ended: tokio::sync::Notify,
    queue: Mutex<Queue>,
    provider: Mutex<Provider>,
    pub(crate) disks: Vec<Disk>,
    tally: Mutex<Tally>,
}

/// The counts of a scenario.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) log: String,
    pub(crate) dealt: Vec<(Site, String)>,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) seen: BTreeMap<&'static str, u64>,
    pub(crate) fenced: u64,
    pub(crate) takeovers: u64,
    /// Operations around which something went wrong that may leave a doubt.
    pub(crate) touched: BTreeSet<usize>,
    /// Operations that a store had recorded before it forgot.
    pub(crate) remembered: BTreeSet<usize>,
    /// Operations that a caller was told are dead.
    pub(crate) told_dead: BTreeSet<usize>,
    /// Operations that a caller was told are too old.
    pub(crate) told_too_old: BTreeSet<usize>,
    /// Operations whose callers were told that the key was used with another request.
    pub(crate) told_conflict: BTreeSet<usize>,
    /// Operations that a client was told are in doubt.
    pub(crate) told_in_doubt: BTreeSet<usize>,
    /// Operations that a client was told are refused for good.
    pub(crate) told_refused: BTreeSet<usize>,
    /// Effects that callers began.
    pub(crate) runs: usize,
    /// The unmarked claims of each operation that ended with their leases: their clients may have begun, and said
    /// nothing.
    pub(crate) untold: BTreeMap<usize, u32>,
    /// Operations that were seen in doubt.
    pub(crate) doubted: BTreeSet<usize>,
    /// The last owner of each operation, and the time of its grant.
    pub(crate) owners: BTreeMap<usize, (Weak<dyn Owner>, Duration)>,
    pub(crate) violations: Vec<String>,
    /// Calls and requests on their way without a waiting caller.
    pub(crate) in_flight: usize,
}

/// The process that a claim was granted to.
pub(crate) trait Owner: Display + Send + Sync {
    /// Returns whether nothing has kept it from extending a lease that it has had since then.
    fn is_well_since(&self, since: Duration) -> bool;
}

impl World {
    pub(crate) fn new(scenario: Scenario, muted: BTreeSet<Site>) -> Arc<Self> {
        let Scenario { kind, seed, .. } = scenario;
        let plan = Plan::draw(scenario);
        let origin = Instant::now();
        let store_clock = WorldClock::new(origin, plan.start_millis, 0);
        let queue = Queue::new(&plan);
        let provider = Provider::new(kind, &plan);
        let disks = plan.workers.iter().map(|_| Disk::default()).collect();
        Arc::new(Self {
            kind,
            seed,
            plan,
            scope: Scope::new("", "simulation").expect("the scope is well formed"),
            muted,
            origin,
            store: Mutex::new(new_store(&store_clock)),
            store_clock,
            is_calm: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            ended: tokio::sync::Notify::new(),
            queue: Mutex::new(queue),
            provider: Mutex::new(provider),
            disks,
            tally: Mutex::default(),
        })
    }

    /// Returns whether operations are versions of entities.
    pub(crate) fn is_gated(&self) -> bool {
        self.kind == Kind::Gated || (self.kind == Kind::Claims && self.seed % 2 == 1)
    }

    pub(crate) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A clock with this error.
    pub(crate) fn clock(&self, skew_millis: i64) -> WorldClock {
        WorldClock::new(self.origin, self.plan.start_millis, skew_millis)
    }

    pub(crate) fn store(&self) -> Arc<MemoryStore> {
        Arc::clone(&lock(&self.store))
    }

    /// Makes the store lose everything.
    pub(crate) fn forget_all(&self) {
        *lock(&self.store) = new_store(&self.store_clock);
    }

    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    /// Asks the workers to stop.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.ended.notify_waiters();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits until workers are asked to stop.
    pub(crate) async fn over(&self) {
        while !self.is_over() {
            self.ended.notified().await;
        }
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    pub(crate) fn provider(&self) -> MutexGuard<'_, Provider> {
        lock(&self.provider)
    }

    pub(crate) fn tally(&self) -> MutexGuard<'_, Tally> {
        lock(&self.tally)
    }

    /// Deals a fault, unless it is switched off or the faults are over.
    pub(crate) fn deal(&self, site: Site, kind: &'static str, what: Arguments<'_>) -> bool {
        if self.is_calm() || self.muted.contains(&site) {
            return false;
        }
        let now = self.now();
        let mut tally = self.tally();
        *tally.faults.entry(kind).or_default() += 1;
        tally.dealt.push((site, format!("{} {what}", At(now))));
        line(&mut tally.log, now, format_args!("! {what}"));
        true
    }

    /// Returns whether a fault of this place is switched off.
    pub(crate) fn is_muted(&self, site: Site) -> bool {
        self.muted.contains(&site)
    }

    pub(crate) fn log(&self, what: Arguments<'_>) {
        let now = self.now();
        line(&mut self.tally().log, now, what);
    }

    /// Notes that a hard case was seen.
    pub(crate) fn saw(&self, case: &'static str) {
        *self.tally().seen.entry(case).or_default() += 1;
    }

    pub(crate) fn violation(&self, what: String) {
        self.log(format_args!("VIOLATION {what}"));
        self.tally().violations.push(what);
    }

    /// Notes that something went wrong around these.
    pub(crate) fn touch<'a>(&self, operations: impl IntoIterator<Item = &'a usize>) {
        self.tally().touched.extend(operations);
    }

    /// Returns whether the store could be reached since then, and kept its memory and its time.
    pub(crate) fn was_well_since(&self, since: Duration, aftermath: Duration) -> bool {
        let now = self.now();
        let befell =
            |it: &crate::seeded::plan::Outage| it.from <= now && it.to + aftermath >= since;
        let plan = &self.plan;
        plan.turns.is_empty() && plan.amnesia_at.is_none() && !plan.outages.iter().any(befell)
    }

    /// The reason why the store cannot be reached now, if it cannot.
    pub(crate) fn outage(&self) -> Option<Error> {
        let now = self.now();
        let is_now = |outage: &&crate::seeded::plan::Outage| {
            outage.from <= now && now < outage.to && !self.is_muted(outage.site)
        };
        let outage = self.plan.outages.iter().find(is_now)?;
        let error = Error::new(ErrorKind::Unavailable, "the store is away");
        Some(if outage.is_sure {
            error.not_applied()
        } else {
            error
        })
    }

    /// The record of an operation, if the store has one.
    pub(crate) async fn record(&self, number: usize) -> Option<Record> {
        let record = self.store().get_one(self.operation(number)).await;
        record.ok().flatten()
    }

    pub(crate) fn operation(&self, number: usize) -> Operation {
        let key = Key::new(&format!("k{number}")).expect("the key is well formed");
        Operation::new(self.scope.clone(), key)
    }
}

fn new_store(clock: &WorldClock) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(clock.clone())))
}

fn line(log: &mut String, now: Duration, what: Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(log, "{} {what}", At(now));
}

struct At(Duration);

impl Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>5}.{:03}", self.0.as_secs(), self.0.subsec_millis())
    }
}

/// The world's time, read by a clock that is wrong by a constant, that jumps, or that stands still.
#[derive(Clone, Debug)]
pub(crate) struct WorldClock {
    origin: Instant,
    start_millis: u64,
    ahead: Arc<AtomicI64>,
    /// The age of the world when it stopped; [`RUNS`] if it did not.
    stopped_at: Arc<AtomicU64>,
}

impl WorldClock {
    fn new(origin: Instant, start_millis: u64, ahead: i64) -> Self {
        Self {
            origin,
            start_millis,
            ahead: Arc::new(AtomicI64::new(ahead)),
            stopped_at: Arc::new(AtomicU64::new(RUNS)),
        }
    }

    fn world_millis(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Sets the clock ahead of the world by this much from now on.
    pub(crate) fn jump(&self, ahead: i64) {
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) {
        self.stopped_at
            .store(self.world_millis(), Ordering::Relaxed);
    }

    pub(crate) fn go_on(&self) {
        self.stopped_at.store(RUNS, Ordering::Relaxed);
    }
}

impl Clock for WorldClock {
    fn now(&self) -> Timestamp {
        let millis = self
            .world_millis()
            .min(self.stopped_at.load(Ordering::Relaxed));
        let ahead = self.ahead.load(Ordering::Relaxed);
        Timestamp::from_millis((self.start_millis + millis).saturating_add_signed(ahead))
    }

    fn monotonic(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Later than any stop.
const RUNS: u64 = u64::MAX;
