//! Handlers that commit their answers with their own work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use semel_core::{
    Error, ErrorKind, Renewal, Renewed, Result, Settled, Settlement, StateKind, Step, Store,
    StoreExt, forward_store,
};
use semel_engine::once::{Once, Op};
use semel_gateway::{IdempotencyLayer, RequestInbox, Route, Transactions};
use semel_store_memory::MemoryStore;
use tokio::sync::Notify;

use crate::site::{Handled, Seen, Site, answer, created, memory};

/// A database in which the store is, and the work of the handlers.
#[derive(Clone)]
pub(crate) struct Bank {
    store: Arc<MemoryStore>,
    /// Units of work that are committed.
    work: Arc<AtomicUsize>,
    /// Settlements that the layer asked for.
    settles: Arc<AtomicUsize>,
    /// Told when a renewal was answered.
    renewed: Arc<Notify>,
    /// True while the store answers no settlement of the layer.
    is_away: Arc<AtomicBool>,
}

/// A transaction with one unit of work.
pub(crate) enum Tx {
    Commits,
    /// It is refused, as one is that another got in the way of.
    IsRefused,
    /// The connection breaks before the commit arrives.
    BreaksBefore,
    /// The connection breaks before the answer arrives.
    BreaksAfter,
}

impl Transactions<Tx> for Bank {
    async fn commit(&self, transaction: Tx, completion: &Settlement) -> Result<Settled> {
        let away = || Error::new(ErrorKind::Unavailable, "the connection broke");
        match transaction {
            Tx::IsRefused => {
                return Err(Error::new(ErrorKind::Throttled, "a deadlock").not_applied());
            }
            Tx::BreaksBefore => return Err(away()),
            Tx::Commits | Tx::BreaksAfter => {}
        }
        let settled = self.store.settle_one(completion.clone()).await?;
        if matches!(settled, Settled::Now(StateKind::Completed)) {
            self.work.fetch_add(1, Ordering::SeqCst);
        }
        match transaction {
            Tx::BreaksAfter => Err(away()),
            _ => Ok(settled),
        }
    }
}

/// The store as the layer has it.
impl Store for Bank {
    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        self.settles.fetch_add(batch.len(), Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "nobody answers"));
        }
        self.store.settle(batch).await
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let renewed = self.store.renew(batch).await;
        self.renewed.notify_waiters();
        renewed
    }

    forward_store!(self => self.store; but settle, renew);
}

impl Bank {
    pub(crate) fn new() -> Self {
        Self {
            store: memory(),
            work: Arc::default(),
            settles: Arc::default(),
            renewed: Arc::default(),
            is_away: Arc::default(),
        }
    }

    fn site<F: Future<Output = Handled> + Send + 'static>(
        &self,
        change: impl FnOnce(&mut Route),
        handler: impl Fn(usize, Request<Body>) -> F + Clone + Send + Sync + 'static,
    ) -> Site<Self> {
        let once = Once::new(self.clone());
        let mut route = Route::default();
        change(&mut route);
        let layer = IdempotencyLayer::with_inbox(&once, route, self.clone());
        Site::under(once, layer.expect("settings that hold"), handler)
    }

    /// A handler whose first transaction ends in this way, and every other one well.
    fn first(&self, first: fn() -> Tx) -> Site<Self> {
        self.site(
            |_| {},
            move |call, request: Request<Body>| async move {
                let tx = if call == 1 { first() } else { Tx::Commits };
                Ok(commit(inbox(&request), tx, created(call)).await)
            },
        )
    }

    fn work(&self) -> usize {
        self.work.load(Ordering::SeqCst)
    }
}

pub(crate) fn inbox(request: &Request<Body>) -> RequestInbox<Bank> {
    let inbox = request.extensions().get::<RequestInbox<Bank>>();
    inbox.expect("an inbox").clone()
}

/// Commits, and answers 500 with the code of the error if that failed.
pub(crate) async fn commit(
    inbox: RequestInbox<Bank>,
    tx: Tx,
    response: axum::http::Response<Body>,
) -> axum::http::Response<Body> {
    let committed = inbox.commit(tx, response).await;
    committed.unwrap_or_else(|error| answer(500, error.code().as_str()))
}

fn text(seen: &Seen) -> (u16, &[u8]) {
    (seen.status, &seen.body[..])
}

#[tokio::test]
async fn a_committed_answer_is_recorded_once_and_replayed() {
    let bank = Bank::new();
    let site = bank.first(|| Tx::Commits);
    site.post("pay-1").await.is_created(1, false);
    site.post("pay-1").await.is_created(1, true);
    assert_eq!((bank.work(), site.calls()), (1, 1));
    assert_eq!(bank.settles.load(Ordering::SeqCst), 0, "by the layer");
    assert_eq!(site.layer.counts().unprotected, 0);
}

#[tokio::test]
async fn no_attempt_leaves_a_mark() {
    let bank = Bank::new();
    let site = bank.site(
        |_| {},
        async |call, request: Request<Body>| {
            let op = request.extensions().get::<Op>().expect("an attempt");
            assert!(op.first_started_at().is_none());
            Ok(commit(inbox(&request), Tx::Commits, created(call)).await)
        },
    );
    site.post("pay-1").await.is_created(1, false);
}

#[tokio::test]
async fn a_transaction_that_is_not_committed_frees_the_key() {
    for first in [
        (|| Tx::IsRefused) as fn() -> Tx,
        (|| Tx::BreaksBefore) as fn() -> Tx,
    ] {
        let bank = Bank::new();
        let site = bank.first(first);
        let seen = site.post("pay-1").await;
        assert_eq!(seen.status, 500, "{seen:?}");
        assert_eq!(bank.work(), 0);
        site.post("pay-1").await.is_created(2, false);
        site.post("pay-1").await.is_created(2, true);
        assert_eq!(bank.work(), 1);
    }
}

#[tokio::test]
async fn a_refusal_after_a_failed_commit_is_not_remembered() {
    let bank = Bank::new();
    let site = bank.site(
        |_| {},
        async |call, request: Request<Body>| {
            if call > 1 {
                return Ok(commit(inbox(&request), Tx::Commits, created(call)).await);
            }
            let lost = inbox(&request).commit(Tx::IsRefused, created(call)).await;
            assert!(lost.is_err());
            Ok(answer(409, "somebody was first"))
        },
    );
    let seen = site.post("pay-1").await;
    assert_eq!(text(&seen), (409, &b"somebody was first"[..]));
    site.post("pay-1").await.is_created(2, false);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_out() {
    let bank = Bank::new();
    let site = bank.first(|| Tx::BreaksAfter);
    // The handler says 500; the record knows better.
    site.post("pay-1").await.is_created(1, true);
    site.post("pay-1").await.is_created(1, true);
    assert_eq!((bank.work(), site.calls()), (1, 1));
}

#[tokio::test]
async fn a_second_transaction_is_refused_once_the_first_may_have_been_applied() {
    let bank = Bank::new();
    let site = bank.site(
        |_| {},
        async |call, request: Request<Body>| {
            let inbox = inbox(&request);
            // A refusal is certain, and lets another one try.
            let refused = inbox.commit(Tx::IsRefused, created(call)).await;
            assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Throttled);
            let lost = inbox.commit(Tx::BreaksAfter, created(call)).await;
            assert_eq!(lost.expect_err("lost").kind(), ErrorKind::Unavailable);
            Ok(commit(inbox, Tx::Commits, created(call + 1)).await)
        },
    );
    site.post("pay-1").await.is_created(1, true);
    assert_eq!((bank.work(), site.calls()), (1, 1));
}

#[tokio::test]
async fn nobody_is_told_not_applied_while_nobody_can_look() {
    let bank = Bank::new();
    let other = bank.clone();
    let site = bank.site(
        |_| {},
        move |call, request: Request<Body>| {
            let is_away = Arc::clone(&other.is_away);
            async move {
                let response = commit(inbox(&request), Tx::BreaksAfter, created(call)).await;
                is_away.store(true, Ordering::SeqCst);
                Ok(response)
            }
        },
    );
    let seen = site.post("pay-1").await;
    seen.problem(500, "outcome-unrecorded");
    assert!(
        text(&seen).1.windows(13).any(|it| it == b"maybe_applied"),
        "{seen:?}"
    );
    bank.is_away.store(false, Ordering::SeqCst);
    site.post("pay-1").await.is_created(1, true);
    assert_eq!((bank.work(), site.calls()), (1, 1));
}

#[tokio::test]
async fn a_success_after_a_failed_commit_is_given_to_nobody() {
    let bank = Bank::new();
    let site = bank.site(
        |_| {},
        async |call, request: Request<Body>| {
            if call == 1 {
                let refused = inbox(&request).commit(Tx::IsRefused, created(call)).await;
                assert!(refused.is_err());
                return Ok(created(call));
            }
            Ok(commit(inbox(&request), Tx::Commits, created(call)).await)
        },
    );
    site.post("pay-1").await.problem(500, "internal");
    site.post("pay-1").await.is_created(2, false);
}

#[tokio::test]
async fn no_other_answer_denies_what_is_committed() {
    let bank = Bank::new();
    let site = bank.site(
        |_| {},
        async |call, request: Request<Body>| {
            assert_eq!(
                commit(inbox(&request), Tx::Commits, created(call))
                    .await
                    .status(),
                201
            );
            Ok(answer(402, "declined"))
        },
    );
    site.post("pay-1").await.is_created(1, true);
    site.post("pay-1").await.is_created(1, true);
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn an_answer_without_the_inbox_is_stored_and_says_so_if_it_is_a_success() {
    for (status, is_told) in [(201, true), (422, false)] {
        let bank = Bank::new();
        let site = bank.site(
            |_| {},
            move |_, _| async move { Ok(answer(status, "alone")) },
        );
        let seen = site.post("pay-1").await;
        let told = seen.headers.get("semel-unprotected");
        let told = told.map(|it| it.to_str().expect("a text"));
        assert_eq!(told, is_told.then_some("outside-transaction"), "{seen:?}");
        assert_eq!(site.layer.counts().unprotected, u64::from(is_told));
        let again = site.post("pay-1").await;
        assert_eq!(text(&again), (status, &b"alone"[..]));
        assert!(again.is_replay() && !again.headers.contains_key("semel-unprotected"));
    }
}

#[tokio::test]
async fn what_is_no_outcome_is_not_committed_and_nothing_is_committed_twice() {
    let bank = Bank::new();
    let site = bank.site(
        |_| {},
        async |_, request: Request<Body>| {
            let inbox = inbox(&request);
            for status in [401, 408, 429, 500, 503] {
                let refused = inbox.commit(Tx::Commits, answer(status, "")).await;
                let refused = refused.expect_err("no outcome");
                assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{status}");
            }
            let first = inbox.commit(Tx::Commits, answer(200, "first")).await;
            let second = inbox.commit(Tx::Commits, answer(200, "second")).await;
            let second = second.expect_err("the second");
            assert_eq!(second.kind(), ErrorKind::InvalidInput);
            Ok(first.expect("the first"))
        },
    );
    let seen = site.post("pay-1").await;
    assert_eq!(text(&seen), (200, &b"first"[..]));
    assert_eq!(bank.work(), 1);
}

#[tokio::test]
async fn an_attempt_without_its_claim_commits_nothing() {
    let bank = Bank::new();
    let other = bank.clone();
    let site = bank.site(
        |_| {},
        move |call, request: Request<Body>| {
            let store = Arc::clone(&other.store);
            async move {
                if call == 1 {
                    let completion = inbox(&request)
                        .op()
                        .completion(semel_core::Outcome::empty(), semel_core::Window::DEFAULT);
                    // As if its lease had run out and the next one had given up.
                    let step = Step::Release {
                        error: "".into(),
                        certainty: semel_core::Certainty::NotApplied,
                        after: Duration::ZERO,
                        counted: true,
                        limits: semel_core::AttemptLimits::default(),
                        window: semel_core::Window::DEFAULT,
                    };
                    let released = store.settle_one(Settlement { step, ..completion }).await;
                    assert!(matches!(released, Ok(Settled::Now(StateKind::Released))));
                }
                Ok(commit(inbox(&request), Tx::Commits, created(call)).await)
            }
        },
    );
    let seen = site.post("pay-1").await;
    assert_eq!(text(&seen), (500, &b"claim-lost"[..]));
    assert_eq!(bank.work(), 0);
    site.post("pay-1").await.is_created(2, false);
}

#[tokio::test]
async fn a_renewal_after_the_commit_stops_nothing() {
    let bank = Bank::new();
    let other = bank.clone();
    let site = bank.site(
        |route| route.lease = Duration::from_millis(150),
        move |call, request: Request<Body>| {
            let renewed = Arc::clone(&other.renewed);
            async move {
                let response = commit(inbox(&request), Tx::Commits, created(call)).await;
                // The first may have been asked for before; the second finds the record completed, and both are told.
                for _ in 0..3 {
                    renewed.notified().await;
                }
                Ok(response)
            }
        },
    );
    site.post("pay-1").await.is_created(1, false);
}

#[tokio::test]
async fn a_handler_that_dies_before_its_commit_leaves_nothing() {
    let bank = Bank::new();
    let site = bank.site(
        |_| {},
        async |call, request: Request<Body>| {
            assert!(call > 1, "the first one dies");
            Ok(commit(inbox(&request), Tx::Commits, created(call)).await)
        },
    );
    let seen = site.post("pay-1").await;
    seen.problem(502, "upstream-broken");
    site.post("pay-1").await.is_created(2, false);
    assert_eq!(bank.work(), 1);
}
