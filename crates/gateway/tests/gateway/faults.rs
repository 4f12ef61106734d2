//! A store that is away, slow or damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use semel_core::{
    Admission, ClaimRequest, Error, ErrorKind, Operation, Outcome, Record, Result, Settled,
    Settlement, Step, Store, StoreExt, forward_store,
};
use semel_gateway::{OnOutage, Route};
use semel_store_memory::MemoryStore;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::site::{Seen, Site, answer, created, memory};

/// A store whose claims and settlements fail when a test says so.
#[derive(Clone)]
struct Faulty {
    inner: Arc<MemoryStore>,
    is_away: Arc<AtomicBool>,
    is_damaged: Arc<AtomicBool>,
    /// The claims that were asked for.
    claims: Arc<AtomicUsize>,
    most_outcome_bytes: Arc<AtomicUsize>,
    /// One permit for each settlement.
    settles: Arc<Semaphore>,
    /// The look-ups from here on that are not answered.
    unanswered: Arc<AtomicUsize>,
}

impl Faulty {
    fn new() -> Self {
        Self {
            inner: memory(),
            is_away: Arc::default(),
            is_damaged: Arc::default(),
            claims: Arc::default(),
            most_outcome_bytes: Arc::new(AtomicUsize::new(usize::MAX)),
            settles: Arc::new(Semaphore::new(1_000)),
            unanswered: Arc::default(),
        }
    }

    /// Waits until claims were asked for so often.
    async fn asked(&self, claims: usize) {
        while self.claims.load(Ordering::SeqCst) < claims {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn site(&self, change: impl FnOnce(&mut Route)) -> Arc<Site<Self>> {
        let change = |route: &mut Route| {
            route.patience = Duration::from_millis(100);
            change(route);
        };
        let site = Site::over(self.clone(), change, async |call, _| Ok(created(call)));
        Arc::new(site)
    }
}

impl Store for Faulty {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "refused").not_applied());
        }
        if self.is_damaged.load(Ordering::SeqCst) {
            let damaged = || Admission::Failed(Error::new(ErrorKind::Corrupt, "its sum is wrong"));
            return Ok(batch.iter().map(|_| damaged()).collect());
        }
        self.inner.claim(batch).await
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let permit = self.settles.acquire().await.expect("it is open");
        permit.forget();
        let most = self.most_outcome_bytes.load(Ordering::SeqCst);
        let is_long = |it: &Settlement| match &it.step {
            Step::Complete { outcome, .. } => {
                matches!(outcome, Outcome::Kept { bytes, .. } if bytes.len() > most)
            }
            _ => false,
        };
        if batch.iter().any(is_long) {
            return Err(Error::new(ErrorKind::InvalidInput, "it is too long"));
        }
        self.inner.settle(batch).await
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let fewer = |count: usize| count.checked_sub(1);
        if self
            .unanswered
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer)
            .is_ok()
        {
            std::future::pending::<()>().await;
        }
        self.inner.get(batch).await
    }

    forward_store!(self => self.inner; but claim, settle, get);
}

/// The meaning of a refusal depends on the attempts before it.
#[tokio::test(start_paused = true)]
async fn a_look_up_without_an_answer_is_made_again() {
    let store = Faulty::new();
    let refusing = async |_, _| Ok(answer(404, "no such customer"));
    let site = Site::over(store.clone(), |_| {}, refusing);
    store.unanswered.store(1, Ordering::SeqCst);
    assert_eq!(site.post("pay-1").await.status, 404);
    assert_eq!(store.unanswered.load(Ordering::SeqCst), 0);
    let again = site.post("pay-1").await;
    assert_eq!((again.status, site.calls()), (404, 1), "it is the outcome");
    assert_eq!(again.headers["idempotency-replayed"], "true");
    // Without any answer, an attempt before may have been applied, and the refusal speaks for itself alone.
    store.unanswered.store(usize::MAX, Ordering::SeqCst);
    for calls in [2, 3] {
        assert_eq!(site.post("pay-2").await.status, 404);
        assert_eq!(site.calls(), calls);
    }
}

#[tokio::test]
async fn nothing_runs_while_the_store_is_away() {
    let store = Faulty::new();
    let site = store.site(|_| {});
    store.is_away.store(true, Ordering::SeqCst);
    let seen = site.post("pay-1").await;
    let members = seen.problem(503, "store-unavailable");
    assert_eq!(members["certainty"], "not_applied");
    assert!(seen.headers.contains_key("retry-after"));
    assert_eq!(site.calls(), 0);
    store.is_away.store(false, Ordering::SeqCst);
    site.post("pay-1").await.is_created(1, false);
}

#[tokio::test]
async fn a_route_that_fails_open_lets_pass_and_says_so() {
    let store = Faulty::new();
    let site = store.site(|it| it.fail = OnOutage::Open);
    store.is_away.store(true, Ordering::SeqCst);
    for call in [1, 2] {
        let seen = site.post("pay-1").await;
        seen.is_created(call, false);
        assert_eq!(seen.headers["semel-unprotected"], "store-unavailable");
    }
    assert_eq!(site.layer.counts().unprotected, 2);
    store.is_away.store(false, Ordering::SeqCst);
    let seen = site.post("pay-1").await;
    seen.is_created(3, false);
    assert!(!seen.headers.contains_key("semel-unprotected"));
}

#[tokio::test]
async fn a_damaged_record_is_never_taken_for_absent() {
    let store = Faulty::new();
    store.is_damaged.store(true, Ordering::SeqCst);
    for fail in [OnOutage::Closed, OnOutage::Open] {
        let site = store.site(|it| it.fail = fail);
        site.post("pay-1").await.problem(500, "record-corrupt");
        assert_eq!(site.calls(), 0);
    }
}

/// The first byte leaves after the answer is stored: M22.
#[tokio::test]
async fn no_answer_leaves_before_it_is_stored() {
    let store = Faulty::new();
    let site = store.site(|it| it.patience = Duration::from_secs(30));
    store.settles.forget_permits(1_000);
    let first = {
        let site = Arc::clone(&site);
        tokio::spawn(async move { site.post("pay-1").await })
    };
    site.called(1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!first.is_finished(), "it is not stored yet");
    store.settles.add_permits(1);
    first.await.expect("it ends").is_created(1, false);
    site.post("pay-1").await.is_created(1, true);
}

#[tokio::test]
async fn an_answer_that_cannot_be_stored_is_held_back_unless_the_route_fails_open() {
    let store = Faulty::new();
    store.settles.forget_permits(1_000);
    let site = store.site(|_| {});
    let seen = site.post("pay-1").await;
    let members = seen.problem(500, "outcome-unrecorded");
    assert_eq!(members["certainty"], "maybe_applied");
    assert!(seen.headers.contains_key("retry-after"));
    // The engine goes on trying to tell the store.
    store.settles.add_permits(1_000);
    site.post("pay-1").await.is_created(1, true);
    assert_eq!(site.calls(), 1);

    store.settles.forget_permits(1_000);
    let open = store.site(|it| it.fail = OnOutage::Open);
    let seen = open.post("pay-2").await;
    seen.is_created(1, false);
    assert_eq!(seen.headers["semel-unprotected"], "store-unavailable");
}

#[tokio::test]
async fn a_closed_handle_takes_no_requests() {
    for fail in [OnOutage::Closed, OnOutage::Open] {
        let store = Faulty::new();
        let site = store.site(|it| it.fail = fail);
        site.once.close().await;
        site.post("pay-1").await.problem(503, "store-unavailable");
        assert_eq!((site.calls(), site.layer.counts().unprotected), (0, 0));
    }
}

/// It may keep less than the route allows.
#[tokio::test]
async fn an_answer_that_the_store_refuses_is_told_of_with_its_status() {
    let store = Faulty::new();
    store.most_outcome_bytes.store(100, Ordering::SeqCst);
    let long = async |_, _| Ok(answer(201, "x".repeat(200)));
    let site = Site::over(store, |_| {}, long);
    let first = site.post("pay-1").await;
    assert_eq!((first.status, first.body.len()), (201, 200));
    let members = site.post("pay-1").await.problem(410, "answer-too-large");
    assert_eq!(
        (&members["original_status"], site.calls()),
        (&201.into(), 1)
    );
}

/// Sends a request whose key another process holds, and returns once it waits.
async fn waits_for_another(store: &Faulty, site: &Arc<Site<Faulty>>) -> JoinHandle<Seen> {
    let elsewhere = site.once.operation("http").claim_request("pay-1");
    let claimed = store.inner.claim_one(elsewhere.expect("a key")).await;
    assert!(matches!(claimed, Ok(Admission::Granted(_))), "{claimed:?}");
    let site = Arc::clone(site);
    let waiting = tokio::spawn(async move { site.post("pay-1").await });
    store.asked(2).await;
    waiting
}

/// The first request runs elsewhere, and may still run while the store is away.
#[tokio::test]
async fn a_key_that_was_seen_busy_never_runs_unprotected() {
    let store = Faulty::new();
    let site = store.site(|it| it.fail = OnOutage::Open);
    let waiting = waits_for_another(&store, &site).await;
    store.is_away.store(true, Ordering::SeqCst);
    let seen = waiting.await.expect("it ends");
    seen.problem(409, "in-progress");
    assert!(seen.headers.contains_key("retry-after"));
    assert_eq!(site.calls(), 0);
}

/// One that waits while its process is being stopped does not begin.
#[tokio::test]
async fn a_key_that_was_seen_busy_does_not_run_while_the_handle_closes() {
    let store = Faulty::new();
    let site = store.site(|it| it.fail = OnOutage::Open);
    let waiting = waits_for_another(&store, &site).await;
    site.once.close().await;
    let seen = waiting.await.expect("it ends");
    seen.problem(503, "store-unavailable");
    assert_eq!(site.calls(), 0);
}
