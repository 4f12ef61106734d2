//! The cast: threads, a clock, and the calls that they make. To be made anew in each order.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::decide::{Directed, Directive, Order};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Clock, Entropy, Key, Outcome, Scope, Settled, Settlement,
    Start, StateKind, Step, Store, Timestamp, Window,
};
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
pub(super) use shuttle::thread::{JoinHandle, spawn};

/// A place where any other thread may go on.
#[derive(Clone, Default)]
pub(super) struct Place(Arc<Mutex<()>>);

impl Place {
    pub(super) fn stop(&self) {
        drop(self.0.lock());
    }
}

/// Lets others go first, for up to `most` steps. The order decides how many.
pub(super) fn dawdle(most: usize) {
    let place = Place::default();
    for _ in 0..thread_rng().gen_range(0..=most) {
        place.stop();
    }
}

/// Shared by its clones. Each look at it is a place to stop at.
#[derive(Clone, Default)]
pub(super) struct TestClock {
    millis: Arc<AtomicU64>,
    place: Place,
}

impl TestClock {
    pub(super) fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }

    fn millis(&self) -> u64 {
        self.place.stop();
        self.millis.load(Ordering::SeqCst)
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(EPOCH_MILLIS + self.millis())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.millis())
    }
}

/// No randomness at all: the order alone decides.
pub(super) struct NoChance;

impl Entropy for NoChance {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

pub(super) fn wait<T>(future: impl Future<Output = T>) -> T {
    shuttle::future::block_on(future)
}

pub(super) fn joined<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    let ended = threads.into_iter().map(JoinHandle::join);
    ended
        .map(|it| it.expect("a thread without a panic"))
        .collect()
}

/// A claim of key `key` by this claimant, marked as started: durable before it is answered.
pub(super) fn request(key: u64, claimant: u128) -> ClaimRequest {
    let scope = Scope::new("", "schedules").expect("a scope");
    ClaimRequest {
        start: Start::Marked(semel_core::Recovery::Rerun),
        lease: LEASE,
        ..ClaimRequest::new(scope, Key::from(key), ClaimId::from_u128(claimant))
    }
}

pub(super) fn completion(of: &ClaimRequest) -> Settlement {
    Settlement {
        operation: of.operation.clone(),
        claim_id: of.claim_id,
        step: Step::Complete {
            outcome: Outcome::empty(),
            window: Window::DEFAULT,
        },
    }
}

pub(super) fn claim(store: &impl Store, request: &ClaimRequest) -> semel_core::Result<Admission> {
    let answers = wait(store.claim([request.clone()].into()));
    answers.map(|mut it| it.remove(0))
}

pub(super) fn is_granted(admission: &semel_core::Result<Admission>) -> bool {
    matches!(admission, Ok(Admission::Granted(_)))
}

pub(super) fn is_replay(admission: &semel_core::Result<Admission>) -> bool {
    matches!(admission, Ok(Admission::Replay { .. }))
}

/// Returns whether the claim reports its completion and the store accepts it.
pub(super) fn completes(store: &impl Store, request: &ClaimRequest) -> semel_core::Result<bool> {
    let answers = wait(store.settle([completion(request)].into()));
    answers.map(|it| matches!(it[..], [Settled::Now(StateKind::Completed)]))
}

/// Returns whether an operator's order to forget was carried out.
pub(super) fn forgets(store: &impl Store, request: &ClaimRequest) -> bool {
    let directive = Directive {
        operation: request.operation.clone(),
        order: Order::Forget,
        note: None,
    };
    let directed = wait(store.operate([directive].into()));
    directed.is_ok_and(|it| matches!(it[..], [Directed::Now(None)]))
}

pub(super) const LEASE: Duration = Duration::from_secs(10);
const EPOCH_MILLIS: u64 = 1_800_000_000_000;
