//! Stores that fail or hang in the middle of an order, and callers that hang up.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semel_core::decide::{Directed, Directive};
use semel_core::{AnyStore, Error, ErrorKind, Result, StateKind, Store, forward_store};
use semel_store_memory::MemoryStore;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{Doubtful, each, numbered, operator};

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
