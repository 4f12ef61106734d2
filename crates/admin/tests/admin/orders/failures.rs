//! Stores that fail or hang in the middle of an order, and callers that hang up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_admin::Lent;
use semel_conformance::TestClock;
use semel_core::decide::{Directed, Directive};
use semel_core::port::store::Swept;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{
    AnyStore, ClaimId, ClaimRequest, Error, ErrorKind, Note, Operation, Outcome, ParkedId, Record,
    Recovery, Result, Settlement, Start, StateKind, Step, Store, Window, forward_store,
};
use semel_http::Caller;
use semel_store_memory::MemoryStore;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{Doubtful, each, key, numbered, operation, operator, scope};
use crate::bounds::Stuck;

const RESOLVE: &str = "in-doubt/resolve";

/// A store that carries out so many batches of orders, and fails from then on.
#[derive(Clone)]
struct Failing {
    inner: AnyStore,
    left: Arc<AtomicUsize>,
    kind: ErrorKind,
}

impl Store for Failing {
    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
        if left.is_err() {
            return Err(Error::new(self.kind, "the store went away"));
        }
        self.inner.operate(batch).await
    }

    forward_store!(self => self.inner; but operate);
}

/// A store whose orders wait for permits, and which tells how many have come.
#[derive(Clone)]
struct Gated {
    inner: Arc<MemoryStore>,
    come: Arc<Semaphore>,
    permits: Arc<Semaphore>,
}

impl Store for Gated {
    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        self.come.add_permits(1);
        let permit = self.permits.acquire().await.expect("a permit");
        permit.forget();
        self.inner.operate(batch).await
    }

    forward_store!(self => self.inner; but operate);
}

/// Puts such a store with 600 doubts in the place of the store of these; returns it, and the keys of the doubts.
async fn gated(doubtful: &mut Doubtful) -> (Gated, Vec<String>) {
    let inner = doubtful.site.memory();
    doubtful.store = AnyStore::new(Arc::clone(&inner));
    let keys = numbered(0, 600);
    doubtful.doubt("acme", &keys).await;
    let gated = Gated {
        inner,
        come: Arc::new(Semaphore::new(0)),
        permits: Arc::new(Semaphore::new(0)),
    };
    doubtful.site.lend(AnyStore::new(gated.clone()));
    (gated, keys)
}

/// A store that lets no message go.
#[derive(Clone)]
struct Clinging(AnyStore);

impl Store for Clinging {
    async fn drop_parked(&self, _: Arc<[ParkedId]>, _: Option<&Note>) -> Result<Vec<bool>> {
        Err(Error::new(ErrorKind::Throttled, "not now"))
    }

    forward_store!(self => self.0; but drop_parked);
}

/// A store in which the key `pay-0` is finished before the third look-up.
#[derive(Clone)]
struct Racing {
    inner: AnyStore,
    count: Arc<AtomicUsize>,
}

impl Store for Racing {
    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        if self.count.fetch_add(1, Ordering::Relaxed) == 2 {
            let claim_id = ClaimId::from_u128(7);
            let claim = ClaimRequest {
                start: Start::Marked(Recovery::Park),
                ..ClaimRequest::new(scope("acme"), key("pay-0"), claim_id)
            };
            assert_eq!(self.inner.claim([claim].into()).await?.len(), 1);
            let settlement = Settlement {
                operation: operation("acme", "pay-0"),
                claim_id,
                step: Step::Complete {
                    outcome: Outcome::empty(),
                    window: Window::DEFAULT,
                },
            };
            assert_eq!(self.inner.settle([settlement].into()).await?.len(), 1);
        }
        self.inner.get(batch).await
    }

    forward_store!(self => self.inner; but get);
}

/// A store whose sweeps have no end, and fail after so many steps.
#[derive(Clone)]
struct Dusty {
    inner: AnyStore,
    left: Arc<AtomicUsize>,
    /// Moves on by ten seconds with each step, if there is one.
    clock: Option<Arc<TestClock>>,
}

impl Store for Dusty {
    async fn sweep(&self, limit: usize) -> Result<Swept> {
        let left = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1));
        if left.is_err() {
            return Err(Error::new(ErrorKind::Throttled, "not now"));
        }
        let swept = self.inner.sweep(limit).await?;
        if let Some(clock) = &self.clock {
            clock.advance(Duration::from_secs(10));
        }
        Ok(Swept {
            more: true,
            ..swept
        })
    }

    forward_store!(self => self.inner; but sweep);
}

/// Lends the service a store whose trail is that of `memory`.
fn lend_dusty(doubtful: &Doubtful, dusty: Dusty, memory: Arc<MemoryStore>) {
    doubtful.site.store.send_replace(Some(Lent {
        store: AnyStore::new(dusty),
        trail: Some(AnyTransferStore::new(memory)),
        runner: None,
    }));
}

#[tokio::test]
async fn a_message_that_stays_does_not_hide_what_was_resolved() {
    let keys = numbered(0, 600);
    let doubtful = Doubtful::with(600).await;
    let ada = operator("ada");
    doubtful
        .site
        .lend(AnyStore::new(Clinging(doubtful.store.clone())));
    let order = json!({ "keys": keys, "verdict": "applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    let results = each(&done, "result");
    assert!(results[..500].iter().all(|it| *it == "done"), "{done}");
    assert!(results[500..].iter().all(|it| *it == "not_tried"), "{done}");
    assert!(each(&done, "why")[0].contains("message"), "{done}");
    assert_eq!(
        (&done["done"], &done["complete"]),
        (&500.into(), &false.into())
    );
    assert_eq!(doubtful.audit().await.len(), 500);
    // The same again continues, by keys as well as by ids.
    doubtful.site.lend(doubtful.store.clone());
    let ids = keys.iter().map(|it| operation("acme", it).id().to_string());
    let by_id = json!({ "ids": ids.collect::<Vec<_>>(), "verdict": "applied" });
    let by_id = doubtful.plan(RESOLVE, &by_id, &ada).await;
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    for plan in [&by_id, &plan] {
        assert_eq!(each(plan, "message"), ["dropped"; 600]);
        let before = each(plan, "before");
        assert_eq!(before.iter().filter(|it| **it == "completed").count(), 500);
    }
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    assert_eq!(done["complete"], true, "{done}");
    assert_eq!(doubtful.audit().await.len(), 600);
    let left = doubtful.site.good("/v1/dead-letters").await;
    assert_eq!(left["items"], json!([]));
}

#[tokio::test]
async fn a_key_that_is_finished_in_the_same_moment_is_not_forgotten() {
    let doubtful = Doubtful::with(1).await;
    let ada = operator("ada");
    let resolve = json!({ "keys": ["pay-0"], "verdict": "not_applied" });
    let plan = doubtful.plan(RESOLVE, &resolve, &ada).await;
    doubtful.done(RESOLVE, &plan, &ada).await;
    doubtful.site.lend(AnyStore::new(Racing {
        inner: doubtful.store.clone(),
        count: Arc::default(),
    }));
    let order = json!({ "keys": ["pay-0"] });
    let plan = doubtful.plan("keys/forget", &order, &ada).await;
    assert_eq!(each(&plan, "before"), ["released"]);
    let done = doubtful.done("keys/forget", &plan, &ada).await;
    assert_eq!(each(&done, "result"), ["refused"], "{done}");
    let states = doubtful.states("acme", &numbered(0, 1)).await;
    assert_eq!(states, [Some(StateKind::Completed)]);
}

#[tokio::test]
async fn a_sweep_that_fails_says_what_it_has_done() {
    for (steps, status) in [(1, 200), (0, 429)] {
        let doubtful = Doubtful::with(0).await;
        let memory = doubtful.site.memory();
        let store = AnyStore::new(Arc::clone(&memory));
        let claim = ClaimRequest {
            start: Start::Marked(Recovery::Park),
            lease: Duration::from_secs(1),
            ..ClaimRequest::new(scope("acme"), key("vanished"), ClaimId::from_u128(7))
        };
        let claimed = store.claim([claim].into()).await;
        assert_eq!(claimed.expect("a claim").len(), 1);
        doubtful.site.clock.advance(Duration::from_secs(60));
        let dusty = Dusty {
            inner: store.clone(),
            left: Arc::new(AtomicUsize::new(steps)),
            clock: None,
        };
        lend_dusty(&doubtful, dusty, memory);
        let admin = Caller::loopback();
        let plan = doubtful.plan("store/sweep", &json!({}), &admin).await;
        let (answered, done) = doubtful.carry_out("store/sweep", &plan, &admin).await;
        assert_eq!(answered, status, "{done}");
        let query = semel_core::port::store::ListQuery {
            limit: 10,
            ..Default::default()
        };
        let audit = store.list_audit(&query).await.expect("the trail").items;
        if steps == 0 {
            assert_eq!(done["certainty"], "not_applied");
            assert!(audit.is_empty(), "{audit:?}");
            continue;
        }
        assert_eq!(done["changes"][0]["doubted"], 1, "{done}");
        assert_eq!(each(&done, "result"), ["unknown"]);
        assert_eq!(audit.len(), 1, "{audit:?}");
        assert_eq!(&*audit[0].after, "0 removed, 1 in doubt; then it failed");
    }
}

/// A pause of a pipeline is not to wait until a large store is clean.
#[tokio::test]
async fn a_sweep_that_takes_long_ends_and_says_that_there_is_more() {
    let doubtful = Doubtful::with(0).await;
    let memory = doubtful.site.memory();
    let dusty = Dusty {
        inner: AnyStore::new(Arc::clone(&memory)),
        left: Arc::new(AtomicUsize::new(1_000)),
        clock: Some(Arc::clone(&doubtful.site.clock)),
    };
    let left = Arc::clone(&dusty.left);
    lend_dusty(&doubtful, dusty, memory);
    let admin = Caller::loopback();
    let plan = doubtful.plan("store/sweep", &json!({}), &admin).await;
    let done = doubtful.done("store/sweep", &plan, &admin).await;
    assert_eq!(each(&done, "result"), ["done"], "{done}");
    assert_eq!(
        each(&done, "why"),
        ["other orders wait; sweep again for the rest"]
    );
    assert_eq!(left.load(Ordering::Relaxed), 1_000 - 3);
}

#[tokio::test]
async fn what_fails_before_an_order_begins_was_not_applied() {
    let doubtful = Doubtful::with(1).await;
    let ada = operator("ada");
    let order = json!({ "keys": ["pay-0"], "verdict": "applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    doubtful.site.store.send_replace(None);
    let (status, problem) = doubtful.carry_out(RESOLVE, &plan, &ada).await;
    assert_eq!(
        (status, &problem["code"]),
        (503, &"store-unavailable".into())
    );
    assert_eq!(problem["certainty"], "not_applied", "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_digits_is_no_reason_to_go_through_the_store() {
    let doubtful = Doubtful::with(0).await;
    let stuck = AnyStore::new(Stuck(doubtful.site.memory()));
    doubtful.site.lend(stuck);
    let order = json!({ "keys": ["abcd1234"], "pipeline": "pay", "tenant": "acme" });
    let plan = doubtful.plan("keys/hold", &order, &operator("ada")).await;
    assert_eq!(plan["left"][0]["key"], "abcd1234");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_ends_takes_no_orders_and_ends_the_batch_in_hand() {
    let mut doubtful = Doubtful::with(0).await;
    let (gated, keys) = gated(&mut doubtful).await;
    let ada = operator("ada");
    let order = json!({ "keys": keys, "verdict": "applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    let orders = &doubtful.site.orders;
    let stop = async {
        gated.come.acquire().await.expect("a permit").forget();
        orders.stop();
        gated.permits.add_permits(9);
        orders.ended(Duration::from_secs(30)).await;
    };
    let (done, ()) = tokio::join!(doubtful.carry_out(RESOLVE, &plan, &ada), stop);
    let (status, done) = done;
    assert_eq!((status, &done["done"]), (200, &500.into()), "{done}");
    assert_eq!(each(&done, "result")[500], "not_tried");
    assert_eq!(doubtful.audit().await.len(), 500);
    let rest = doubtful.plan(RESOLVE, &order, &ada).await;
    let (status, refused) = doubtful.carry_out(RESOLVE, &rest, &ada).await;
    assert_eq!(
        (status, &refused["code"]),
        (503, &"store-unavailable".into())
    );
    assert_eq!(refused["certainty"], "not_applied");
}

#[tokio::test]
async fn what_a_failure_leaves_is_told_change_by_change() {
    for (kind, word) in [
        (ErrorKind::Unavailable, "unknown"),
        (ErrorKind::Unsupported, "failed"),
    ] {
        let doubtful = Doubtful::with(1_600).await;
        doubtful.site.lend(AnyStore::new(Failing {
            inner: doubtful.store.clone(),
            left: Arc::new(AtomicUsize::new(2)),
            kind,
        }));
        let ada = operator("ada");
        let order = json!({ "keys": numbered(0, 1_600), "verdict": "applied" });
        let plan = doubtful.plan(RESOLVE, &order, &ada).await;
        let done = doubtful.done(RESOLVE, &plan, &ada).await;
        let results = each(&done, "result");
        let count = |word: &str| results.iter().filter(|it| **it == word).count();
        assert_eq!(
            (count("done"), count(word), count("not_tried")),
            (1_000, 500, 100)
        );
        assert_eq!(
            (&done["done"], &done["complete"]),
            (&1_000.into(), &false.into())
        );
        assert!(each(&done, "why")[1_000].contains("went away"));
        let states = doubtful.states("acme", &numbered(0, 1_600)).await;
        let resolved = states
            .iter()
            .filter(|it| **it == Some(StateKind::Completed));
        assert_eq!(resolved.count(), 1_000, "what it says");
        assert_eq!(doubtful.audit().await.len(), 1_000);
    }
}

#[tokio::test]
async fn an_order_that_fails_at_once_is_a_problem() {
    let doubtful = Doubtful::with(3).await;
    doubtful.site.lend(AnyStore::new(Failing {
        inner: doubtful.store.clone(),
        left: Arc::default(),
        kind: ErrorKind::Unavailable,
    }));
    let ada = operator("ada");
    let order = json!({ "all": true, "verdict": "applied" });
    let plan = doubtful.plan(RESOLVE, &order, &ada).await;
    let (status, problem) = doubtful.carry_out(RESOLVE, &plan, &ada).await;
    assert_eq!(
        (status, &problem["code"]),
        (503, &"store-unavailable".into())
    );
    assert_eq!(problem["certainty"], "maybe_applied", "{problem}");
    // It was not, as the plan says once it is sent again: it still holds.
    doubtful.site.lend(doubtful.store.clone());
    let done = doubtful.done(RESOLVE, &plan, &ada).await;
    assert_eq!(done["done"], 3);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_hangs_up_does_not_end_its_order_and_the_next_one_waits() {
    let mut doubtful = Doubtful::with(600).await;
    let (gated, keys) = gated(&mut doubtful).await;
    let (ada, bob) = (operator("ada"), operator("bob"));
    let order = json!({ "keys": keys, "verdict": "applied" });
    let of_ada = doubtful.plan(RESOLVE, &order, &ada).await;
    let of_bob = doubtful.plan(RESOLVE, &order, &bob).await;
    {
        let first = doubtful.carry_out(RESOLVE, &of_ada, &ada);
        tokio::select! {
            _ = first => panic!("the store lets nobody through"),
            begun = gated.come.acquire() => begun.expect("a permit").forget(),
        }
    }
    let (status, busy) = doubtful.carry_out(RESOLVE, &of_bob, &bob).await;
    assert_eq!((status, &busy["code"]), (503, &"throttled".into()));
    assert_eq!(busy["certainty"], "not_applied");
    gated.permits.add_permits(2);
    // Its second batch goes on although nobody waits for it.
    gated.come.acquire().await.expect("a permit").forget();
    let (status, fresh) = doubtful.carry_out(RESOLVE, &of_bob, &bob).await;
    assert_eq!((status, each(&fresh, "key").len()), (409, 0), "{fresh}");
    let standing = doubtful.states("acme", &keys).await;
    assert!(standing.iter().all(|it| *it == Some(StateKind::Completed)));
    let audit = doubtful.audit().await;
    assert_eq!(audit.len(), 600);
    assert!(audit.iter().all(|it| &*it.note.by == "ada"));
}
