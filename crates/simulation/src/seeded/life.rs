//! One life of a worker, from its start to its end or until it is killed, and the way in which it stands
//! still. Standing still is that of a process: nothing of it runs, and time goes on.

mod answers;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Sleep;

use crate::seeded::dice::{Dice, Site};
use crate::seeded::kind::LEASE;
use crate::seeded::lock::lock;
use crate::seeded::world::{Owner, World};

use self::answers::Answers;

/// One process.
pub(crate) struct Life {
    pub(crate) world: Arc<World>,
    pub(crate) worker: usize,
    /// The number of the life; the first is 0.
    pub(crate) number: u64,
    paused_until: Mutex<Duration>,
    is_struck: AtomicBool,
    struck: Notify,
    /// The time of the last disturbance that may have ended its leases.
    disturbed_at: Mutex<Option<Duration>>,
    /// The time until which a call to the store takes long, and for which claims granted meanwhile may
    /// have to wait.
    held_up_until: Mutex<Duration>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Operations whose effect this life applied, and of which it has not learned that they are recorded.
    open: Mutex<BTreeSet<usize>>,
    answers: Mutex<Answers>,
}

impl Life {
    pub(crate) fn new(world: &Arc<World>, worker: usize, number: u64) -> Arc<Self> {
        Arc::new(Self {
            world: Arc::clone(world),
            worker,
            number,
            paused_until: Mutex::default(),
            is_struck: AtomicBool::new(false),
            struck: Notify::new(),
            disturbed_at: Mutex::default(),
            held_up_until: Mutex::default(),
            counts: Mutex::default(),
            open: Mutex::default(),
            answers: Mutex::default(),
        })
    }

    /// Counts the calls of one kind, from 0.
    pub(crate) fn next(&self, what: &'static str) -> u64 {
        let mut counts = lock(&self.counts);
        let count = counts.entry(what).or_default();
        *count += 1;
        *count - 1
    }

    /// A place in this life.
    pub(crate) fn site(&self, path: &[u64]) -> Site {
        let mut whole = vec![10, self.worker as u64, self.number];
        whole.extend(path);
        Site::at(&whole)
    }

    pub(crate) fn dice(&self, site: Site) -> Dice {
        Dice::new(self.world.seed, site)
    }

    /// The time that a call without a fault takes there and back; often no time at all.
    pub(crate) fn latency(&self, what: &'static str) -> (Duration, Duration) {
        let place = self.site(&[11, what.len() as u64, self.next(what)]);
        let mut dice = self.dice(place);
        let mut moment = || match dice.roll(4) {
            0..=1 => Duration::ZERO,
            2 => Duration::from_millis(1 + dice.roll(5)),
            _ => Duration::from_millis(5 + dice.roll(60)),
        };
        (moment(), moment())
    }

    /// Notes a disturbance.
    pub(crate) fn disturb(&self) {
        *lock(&self.disturbed_at) = Some(self.world.now());
    }

    /// Notes that a call to the store takes this long.
    pub(crate) fn hold_up(&self, takes: Duration) {
        let until = self.world.now() + takes;
        let mut held_up_until = lock(&self.held_up_until);
        *held_up_until = until.max(*held_up_until);
    }

    /// Returns whether a call to the store takes long just now.
    pub(crate) fn is_held_up(&self) -> bool {
        self.world.now() < *lock(&self.held_up_until)
    }

    /// Stands still from now on.
    pub(crate) async fn pause(&self, pause: Duration) {
        self.stand_still(pause);
        // Its poller reaches the end of it first.
        tokio::task::yield_now().await;
        self.awake().await;
    }

    pub(crate) fn stand_still(&self, pause: Duration) {
        self.disturb();
        let operations = self.in_hand();
        if pause > LEASE && !operations.is_empty() {
            self.world.saw("pause beyond the lease");
        }
        self.world.touch(&operations);
        let until = self.world.now() + pause;
        let mut paused_until = lock(&self.paused_until);
        *paused_until = until.max(*paused_until);
    }

    fn paused_until(&self) -> Option<Duration> {
        let until = *lock(&self.paused_until);
        (until > self.world.now()).then_some(until)
    }

    /// Waits until the process runs.
    pub(crate) async fn awake(&self) {
        while let Some(until) = self.paused_until() {
            tokio::time::sleep(until.saturating_sub(self.world.now())).await;
        }
    }

    /// `kill -9`: the caller runs nothing after this.
    pub(crate) async fn crash<T>(&self) -> T {
        self.strike();
        std::future::pending().await
    }

    pub(crate) fn strike(&self) {
        if self.is_struck.swap(true, Ordering::Relaxed) {
            return;
        }
        let operations = self.in_hand();
        self.world.touch(&operations);
        if !lock(&self.open).is_empty() {
            self.world.saw("crash between effect and completion");
        }
        self.struck.notify_one();
    }

    /// Returns whether it has been killed: calls on their way go on without it.
    pub(crate) fn is_struck(&self) -> bool {
        self.is_struck.load(Ordering::Relaxed)
    }

    /// Waits for its end.
    pub(crate) async fn struck(&self) {
        self.struck.notified().await;
    }

    /// Notes that its effect arrived.
    pub(crate) fn applied(&self, operation: usize) {
        lock(&self.open).insert(operation);
    }

    /// Notes that it learned that the operation is recorded, or is no longer its own.
    pub(crate) fn heard_of(&self, operation: usize) {
        lock(&self.open).remove(&operation);
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}.{}", self.worker, self.number)
    }
}

impl Owner for Life {
    fn is_well_since(&self, since: Duration) -> bool {
        let disturbed_at = *lock(&self.disturbed_at);
        let was_long_ago = |at: Duration| at + AFTERMATH < since;
        !self.is_struck()
            && disturbed_at.is_none_or(was_long_ago)
            && self.world.was_well_since(since, AFTERMATH)
    }
}

/// A future of a process: not polled while the process stands still.
pub(crate) struct Alive<F> {
    inner: Pin<Box<F>>,
    life: Arc<Life>,
    still: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Alive<F> {
    pub(crate) fn new(life: &Arc<Life>, inner: F) -> Self {
        Self {
            inner: Box::pin(inner),
            life: Arc::clone(life),
            still: None,
        }
    }
}

impl<F: Future> Future for Alive<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        while let Some(until) = self.life.paused_until() {
            let wait = until.saturating_sub(self.life.world.now());
            let mut still = Box::pin(tokio::time::sleep(wait));
            let is_over = still.as_mut().poll(context).is_ready();
            self.still = Some(still);
            if !is_over {
                return Poll::Pending;
            }
        }
        self.still = None;
        self.inner.as_mut().poll(context)
    }
}

/// A future of a process that may be on a task of its own: never polled again once the process is killed.
pub(crate) struct Mortal<F> {
    inner: Alive<F>,
    life: Arc<Life>,
}

impl<F: Future> Mortal<F> {
    pub(crate) fn new(life: &Arc<Life>, inner: F) -> Self {
        Self {
            inner: Alive::new(life, inner),
            life: Arc::clone(life),
        }
    }
}

impl<F: Future> Future for Mortal<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.life.is_struck() {
            return Poll::Pending;
        }
        Pin::new(&mut self.inner).poll(context)
    }
}

/// The time for which a disturbance of a worker may still have an effect.
const AFTERMATH: Duration = Duration::from_secs(60);
