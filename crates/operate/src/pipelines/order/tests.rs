use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use semel_core::Clock;
use semel_core::port::store::ListQuery;
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;

use super::super::ordered_pauses;
use super::*;
use crate::samples::{LATER, NOW};
use crate::store::AuditLine;

fn store() -> AnyStore {
    AnyStore::new(MemoryStore::new(Arc::new(SystemClock::new())))
}

fn note(reason: &str) -> Note {
    Note {
        by: "ada".into(),
        reason: reason.into(),
    }
}

async fn standing(store: &AnyStore) -> Option<OrderedPause> {
    let mut all = ordered_pauses(store, &["payments"]).await.expect("orders");
    all.remove(0)
}

async fn give(store: &AnyStore, order: PipelineOrder, id: u128) -> Result<PipelineChange> {
    let before = standing(store).await;
    let planned = order.plan("payments", before, NOW).expect("a change");
    let note = note("maintenance");
    let given = planned.give(store, &note, ClaimId::from_u128(id), NOW);
    given.await.map(|()| planned.change())
}

async fn trail(store: &AnyStore) -> Vec<(Box<str>, Option<String>, Box<str>, Box<str>)> {
    let query = ListQuery {
        limit: 100,
        ..ListQuery::default()
    };
    let page = store.list_audit(&query).await.expect("a trail");
    let lines = page.items.into_iter().map(AuditLine::of);
    lines
        .map(|it| (it.action, it.pipeline, it.after, it.reason))
        .collect()
}

#[tokio::test]
async fn an_order_stands_until_the_pipeline_is_resumed() {
    let store = store();
    assert_eq!(standing(&store).await, None);
    let change = give(&store, PipelineOrder::Pause, 1).await.expect("paused");
    assert_eq!((&*change.before, &*change.after), ("run", "pause"));
    let paused = standing(&store).await.expect("it is paused");
    let expected = OrderedPause {
        kind: PauseKind::Pause,
        since: NOW,
        by: "ada".into(),
        reason: "maintenance".into(),
    };
    assert_eq!(paused, expected);
    let others = ordered_pauses(&store, &["refunds", "payments"]).await;
    assert_eq!(others.expect("orders"), [None, Some(expected)]);
    let change = give(&store, PipelineOrder::Resume, 2)
        .await
        .expect("resumed");
    assert_eq!((&*change.before, &*change.after), ("pause", "run"));
    assert_eq!(standing(&store).await, None);
    // Nothing is left of it, and it can be given once more.
    let stats = store.stats().await.expect("stats");
    assert_eq!(stats.records, [0; 6]);
    give(&store, PipelineOrder::Drain, 3)
        .await
        .expect("drained");
    let drained = standing(&store).await.map(|it| it.kind);
    assert_eq!(drained, Some(PauseKind::Drain));
}

#[tokio::test]
async fn each_order_has_one_entry_of_the_trail_which_names_the_pipeline() {
    let store = store();
    give(&store, PipelineOrder::Drain, 1)
        .await
        .expect("drained");
    give(&store, PipelineOrder::Pause, 2).await.expect("paused");
    give(&store, PipelineOrder::Resume, 3)
        .await
        .expect("resumed");
    let payments = || Some("payments".to_owned());
    let line = |action: &str, after: &str| {
        let reason = "maintenance".into();
        (action.into(), payments(), after.into(), reason)
    };
    assert_eq!(
        trail(&store).await,
        [
            line("drain", "drained"),
            line("pause", "paused"),
            line("resume", "not paused"),
        ]
    );
}

#[tokio::test]
async fn a_pipeline_that_is_drained_and_then_paused_is_paused_throughout() {
    let store = store();
    give(&store, PipelineOrder::Drain, 1)
        .await
        .expect("drained");
    let change = give(&store, PipelineOrder::Pause, 2).await.expect("paused");
    assert_eq!((&*change.before, &*change.after), ("drain", "pause"));
    let kind = standing(&store).await.map(|it| it.kind);
    assert_eq!(kind, Some(PauseKind::Pause));
    give(&store, PipelineOrder::Resume, 3)
        .await
        .expect("resumed");
    assert_eq!(
        standing(&store).await,
        None,
        "the drain went with the pause"
    );
}

/// A clock that moves when a test moves it.
#[derive(Default)]
struct Moved(AtomicU64);

impl Clock for Moved {
    fn now(&self) -> Timestamp {
        NOW.plus(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

impl Moved {
    /// Lets twice the time pass within which an order is given.
    fn advance(&self) {
        self.0.fetch_add(LEASE.as_secs() * 2, Ordering::Relaxed);
    }
}

fn timed() -> (Arc<Moved>, AnyStore) {
    let clock: Arc<Moved> = Arc::default();
    let store = MemoryStore::new(Arc::clone(&clock) as _);
    (clock, AnyStore::new(store))
}

/// The trace of a giver who dies, or is slow: a claim of the order's record, and the completion of that.
async fn claimed(store: &AnyStore, kind: PauseKind) -> Settlement {
    let operation = kind.operation("payments").expect("an operation");
    let (scope, key) = (operation.scope.clone(), operation.key.clone());
    let request = ClaimRequest {
        lease: LEASE,
        ..ClaimRequest::new(scope, key, ClaimId::from_u128(1))
    };
    let Admission::Granted(claim) = store.claim_one(request).await.expect("an answer") else {
        panic!("nobody else claims it");
    };
    Settlement {
        operation,
        claim_id: claim.claim_id,
        step: Step::Complete {
            outcome: outcome(&note("of somebody else"), NOW),
            window: Window::new(LEASE),
        },
    }
}

async fn complete(store: &AnyStore, settlement: Settlement) {
    let settled = store.settle_one(settlement).await.expect("settled");
    assert!(matches!(settled, Settled::Now(_)), "{settled:?}");
}

async fn is_refused(store: &AnyStore, order: PipelineOrder) {
    let given = give(store, order, 2).await;
    assert_eq!(given.expect_err("busy").kind(), ErrorKind::Conflict);
}

async fn reason(store: &AnyStore) -> Option<Box<str>> {
    standing(store).await.map(|it| it.reason)
}

#[tokio::test]
async fn whoever_dies_while_giving_an_order_holds_up_the_next_one_for_a_lease() {
    for is_completed in [false, true] {
        let (clock, store) = timed();
        let settlement = claimed(&store, PauseKind::Pause).await;
        if is_completed {
            complete(&store, settlement).await;
        }
        assert_eq!(standing(&store).await, None, "it is no order yet");
        is_refused(&store, PipelineOrder::Pause).await;
        clock.advance();
        give(&store, PipelineOrder::Pause, 3).await.expect("paused");
        assert_eq!(reason(&store).await.as_deref(), Some("maintenance"));
    }
}

#[tokio::test]
async fn an_order_that_is_about_to_be_given_is_not_taken_away_by_another() {
    let (clock, store) = timed();
    let settlement = claimed(&store, PauseKind::Pause).await;
    let held = Directive {
        operation: settlement.operation.clone(),
        order: Order::Hold(true),
        note: Some(note("of somebody else")),
    };
    complete(&store, settlement).await;
    // Another one comes between the two steps of the first.
    is_refused(&store, PipelineOrder::Pause).await;
    let answer = store.operate_one(held).await.expect("held");
    assert!(matches!(answer, Directed::Now(_)), "{answer:?}");
    let expected = Some("of somebody else");
    assert_eq!(reason(&store).await.as_deref(), expected);
    for _ in 0..3 {
        clock.advance();
        assert_eq!(reason(&store).await.as_deref(), expected, "it lasts");
    }
    assert_eq!(trail(&store).await.len(), 1);
}

#[tokio::test]
async fn an_order_that_is_slow_to_be_given_is_not_held_after_its_time() {
    let (clock, store) = timed();
    let settlement = claimed(&store, PauseKind::Pause).await;
    let held = Directive {
        operation: settlement.operation.clone(),
        order: Order::Hold(true),
        note: None,
    };
    complete(&store, settlement).await;
    clock.advance();
    let answer = store.operate_one(held).await.expect("an answer");
    assert!(matches!(answer, Directed::Refused(_)), "{answer:?}");
    assert_eq!(standing(&store).await, None);
}

#[tokio::test]
async fn a_pipeline_is_resumed_whatever_is_left_of_another_order() {
    let (_, store) = timed();
    give(&store, PipelineOrder::Drain, 2)
        .await
        .expect("drained");
    let settlement = claimed(&store, PauseKind::Pause).await;
    complete(&store, settlement).await;
    give(&store, PipelineOrder::Resume, 3)
        .await
        .expect("resumed");
    assert_eq!(standing(&store).await, None);
    let stats = store.stats().await.expect("stats");
    assert_eq!(stats.records, [0; 6]);
}

#[test]
fn an_order_that_changes_nothing_says_so() {
    let standing = |kind| {
        Some(OrderedPause {
            kind,
            since: NOW,
            by: "ada".into(),
            reason: "".into(),
        })
    };
    for (order, before, why) in [
        (PipelineOrder::Resume, None, "it is not paused"),
        (
            PipelineOrder::Pause,
            standing(PauseKind::Pause),
            "it is paused since",
        ),
        (
            PipelineOrder::Drain,
            standing(PauseKind::Pause),
            "it is paused since",
        ),
        (
            PipelineOrder::Drain,
            standing(PauseKind::Drain),
            "it is drained since",
        ),
    ] {
        let planned = order.plan("payments", before, LATER);
        let told = planned.expect_err("nothing to do");
        assert!(told.starts_with(why), "{told}");
    }
    assert!(PauseKind::Pause.operation("").is_err(), "no pipeline");
}
