//! The same promises on every store that is built in, with real time and real files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel::{
    Failure, Happened, Note, OnDoubt, OnceError, Op, Semel, StateKind, Typed, decide::Directed,
};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::server::Place;

/// A store of its own.
struct Site {
    url: String,
    _folder: Option<TempDir>,
    _place: Option<Place>,
}

impl Site {
    fn new(kind: &str) -> Self {
        if let Some(place) = Place::on(kind) {
            return Self {
                url: place.url(),
                _folder: None,
                _place: Some(place),
            };
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data");
        let url = match kind {
            "memory" => "memory:".to_owned(),
            kind => format!("{kind}:{}", path.display()),
        };
        Self {
            url,
            _folder: Some(folder),
            _place: None,
        }
    }

    async fn open(&self) -> Semel {
        Semel::open(&self.url).await.expect("the store opens")
    }
}

/// Expands each function into a test per store.
macro_rules! on_every_store {
    ($($store:ident)+: $tests:tt) => {
        $(on_every_store! { @ $store $tests })+
    };
    (@ $store:ident { $($test:ident)+ }) => {
        mod $store {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(crate::stores::Site::new(stringify!($store))).await;
            })+
        }
    };
}

on_every_store! {
    memory embedded sqlite mysql postgres redis: {
        a_call_after_success_is_a_replay
        two_calls_at_once_run_one_effect
        a_dropped_call_runs_on_to_its_outcome
        a_panic_is_in_doubt_until_it_is_resolved
        a_hanging_effect_is_given_up_in_time
        what_was_not_applied_is_tried_again_until_it_is_dead
        a_possible_repeat_is_listed
        another_type_on_record_is_an_error
        another_request_is_a_conflict
        a_batch_is_in_order_with_its_duplicates
        a_lease_is_renewed_and_waiters_get_the_outcome
        outcomes_come_back_whole
        tenants_do_not_meet
        many_calls_at_once_run_each_effect_once
    }
}

async fn works(_: Op) -> Result<u64, Failure> {
    Ok(7)
}

async fn must_not_run(_: Op) -> Result<u64, Failure> {
    panic!("this effect must not run")
}

async fn a_call_after_success_is_a_replay(site: Site) {
    let semel = site.open().await;
    let first = semel.once("charge", "a", works).await.expect("it ran");
    let second = semel
        .once("charge", "a", must_not_run)
        .await
        .expect("a replay");
    assert_eq!((first.value(), second.value()), (&7, &7));
    assert!(!first.is_replay() && second.is_replay());
    assert_eq!(first.operation_id(), second.operation_id());
}

async fn two_calls_at_once_run_one_effect(site: Site) {
    let semel = site.open().await;
    let runs = Arc::new(AtomicU64::new(0));
    let call = || {
        let runs = Arc::clone(&runs);
        semel.once("charge", "a", async move |_| {
            sleep(Duration::from_millis(30)).await;
            Ok(runs.fetch_add(1, Ordering::SeqCst))
        })
    };
    let (one, two) = tokio::join!(call(), call());
    let (one, two) = (one.expect("a value"), two.expect("a value"));
    assert_eq!((one.value(), two.value()), (&0, &0));
    assert!(one.is_replay() != two.is_replay());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

async fn a_dropped_call_runs_on_to_its_outcome(site: Site) {
    let semel = site.open().await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go, may_go) = tokio::sync::oneshot::channel::<()>();
    let call = semel.once("charge", "a", async move |_| {
        let _ = begun.send(());
        may_go.await?;
        Ok(7_u64)
    });
    let call = tokio::spawn(call);
    has_begun.await.expect("it begins");
    call.abort();
    assert!(call.await.is_err(), "the caller is gone");
    go.send(()).expect("the effect still runs");
    let replay = semel
        .once("charge", "a", must_not_run)
        .await
        .expect("a replay");
    assert_eq!(*replay.value(), 7);
}

async fn a_panic_is_in_doubt_until_it_is_resolved(site: Site) {
    let semel = site.open().await;
    let charge = semel.operation("charge");
    let doubt = charge
        .once("a", must_not_run)
        .await
        .expect_err("it panicked");
    assert!(doubt.is_panic() && matches!(doubt, OnceError::InDoubt { ran: true, .. }));
    let again = charge
        .once("a", must_not_run)
        .await
        .expect_err("nobody repeats it");
    assert!(matches!(again, OnceError::InDoubt { ran: false, .. }));
    assert_eq!(again.happened(), Happened::Maybe);
    let note = || Note {
        by: "test".into(),
        reason: "looked it up".into(),
    };
    let early = charge.resolve_not_applied("a", note()).await;
    assert!(
        matches!(early, Ok(Directed::Refused(_))),
        "an old call may still land"
    );
    let resolved = charge.resolve_applied("a", &9_u64, note()).await;
    assert!(matches!(
        resolved,
        Ok(Directed::Now(Some(StateKind::Completed)))
    ));
    let replay = charge.once("a", must_not_run).await.expect("a replay");
    assert_eq!(*replay.value(), 9);
    assert!(charge.once("b", must_not_run).await.is_err());
    let given_up = charge.abandon("b", note()).await;
    assert!(matches!(given_up, Ok(Directed::Now(Some(StateKind::Dead)))));
}

async fn a_hanging_effect_is_given_up_in_time(site: Site) {
    let semel = site.open().await;
    let charge = semel.operation("charge").timeout(Duration::from_millis(20));
    let hangs = async |_| -> Result<u64, Failure> { std::future::pending().await };
    let error = charge.once("a", hangs).await.expect_err("it hangs");
    assert!(error.is_timeout() && matches!(error, OnceError::InDoubt { .. }));
}

async fn what_was_not_applied_is_tried_again_until_it_is_dead(site: Site) {
    let semel = site.open().await;
    let millis = Duration::from_millis(1);
    let charge = semel
        .operation("charge")
        .attempts(3)
        .backoff(millis, millis);
    let refused = async |_| -> Result<u64, _> { Err(Failure::not_applied("no")) };
    let failed = charge.once("a", refused).await.expect_err("refused");
    assert_eq!((failed.happened(), failed.ran()), (Happened::No, true));
    let dead = charge
        .once_retrying("a", refused)
        .await
        .expect_err("no attempt is left");
    assert!(matches!(dead, OnceError::Dead { ran: true, .. }));
    let record = charge
        .record("a")
        .await
        .expect("the store answers")
        .expect("a record");
    assert_eq!((record.state.kind(), record.attempts), (StateKind::Dead, 3));
    assert_eq!(record.past.len(), 3);
}

async fn a_possible_repeat_is_listed(site: Site) {
    let semel = site.open().await;
    let millis = Duration::from_millis(1);
    let index = semel
        .operation("index")
        .unkeyed(OnDoubt::Repeat)
        .backoff(millis, millis);
    let broken = async |_| -> Result<u64, _> { Err(std::io::Error::other("reset"))? };
    let failed = index.once("a", broken).await.expect_err("broken");
    assert_eq!(failed.happened(), Happened::Maybe);
    let receipt = index.once("a", works).await.expect("it may run again");
    assert!(matches!(
        receipt.answered(),
        semel::Answered::Ran {
            attempt: 2,
            possible_repeat: true,
            ..
        }
    ));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Charge {
    cents: Option<u64>,
}

impl Typed for Charge {
    const TYPE: &'static str = "charge";
    const VERSION: u32 = 1;
}

async fn another_type_on_record_is_an_error(site: Site) {
    let semel = site.open().await;
    let charged = async |_| Ok(Charge { cents: None });
    assert!(semel.once("charge", "a", charged).await.is_ok());
    let other = semel
        .once("charge", "a", must_not_run)
        .await
        .expect_err("another type");
    assert!(matches!(other, OnceError::Unreadable { .. }));
    assert_eq!((other.happened(), other.ran()), (Happened::Yes, false));
}

async fn another_request_is_a_conflict(site: Site) {
    let semel = site.open().await;
    let charge = semel.operation("charge");
    assert!(charge.clone().request(&1).once("a", works).await.is_ok());
    let conflict = charge.clone().request(&2).once("a", must_not_run).await;
    assert!(matches!(conflict, Err(OnceError::Conflict { .. })));
}

async fn a_batch_is_in_order_with_its_duplicates(site: Site) {
    let semel = site.open().await;
    let items = (0..300_u64).map(|number| (number % 200, number));
    let results = semel
        .once_batch("charge", items, async |_, number| Ok(number))
        .await;
    for (number, result) in (0..300_u64).zip(results) {
        let receipt = result.expect("a value");
        assert_eq!(
            (*receipt.value(), receipt.is_replay()),
            (number % 200, number >= 200)
        );
    }
}

async fn a_lease_is_renewed_and_waiters_get_the_outcome(site: Site) {
    let semel = site.open().await;
    let lease = Duration::from_millis(150);
    let charge = semel
        .operation("charge")
        .unkeyed(OnDoubt::Repeat)
        .lease(lease);
    let runs = Arc::new(AtomicU64::new(0));
    let call = || {
        let runs = Arc::clone(&runs);
        charge.once("a", async move |_| {
            sleep(lease * 4).await;
            Ok(runs.fetch_add(1, Ordering::SeqCst))
        })
    };
    let (one, two) = tokio::join!(call(), call());
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

async fn outcomes_come_back_whole(site: Site) {
    let semel = site.open().await;
    let text = "ü".repeat(100_000);
    let kept = text.clone();
    let first = semel
        .once("render", "a", async move |_| Ok(kept))
        .await
        .expect("it ran");
    assert!(first.is_kept());
    let second = semel.once("render", "a", async |_| Ok(String::new())).await;
    assert_eq!(second.expect("a replay").into_value(), text);
    let small = semel.operation("render").outcome_limit_bytes(10);
    let long = text.clone();
    let first = small
        .once("b", async move |_| Ok(long))
        .await
        .expect("it ran");
    assert_eq!((first.is_kept(), first.value()), (false, &text));
    let second = small.once("b", async |_| Ok(String::new())).await;
    assert!(matches!(second, Err(OnceError::Unreadable { .. })));
}

async fn tenants_do_not_meet(site: Site) {
    let semel = site.open().await;
    for tenant in ["", "acme", "globex"] {
        let charge = semel.operation("charge").tenant(tenant);
        let receipt = charge.once("a", works).await.expect("it ran");
        assert!(!receipt.is_replay(), "{tenant}");
    }
}

async fn many_calls_at_once_run_each_effect_once(site: Site) {
    let semel = site.open().await;
    let runs = Arc::new(AtomicU64::new(0));
    let mut calls = tokio::task::JoinSet::new();
    for call in 0..400_u64 {
        let runs = Arc::clone(&runs);
        calls.spawn(semel.once("charge", call % 50, async move |_| {
            runs.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok(call % 50)
        }));
    }
    while let Some(joined) = calls.join_next().await {
        assert!(joined.expect("no panic").is_ok());
    }
    assert_eq!(runs.load(Ordering::SeqCst), 50);
}

/// Tests of what outlives a handle.
mod durable {
    use super::*;

    on_every_store! {
        embedded sqlite mysql postgres redis: {
            a_store_that_was_closed_can_be_opened_again_and_remembers
            a_handle_that_was_dropped_leaves_the_store_whole
        }
    }

    async fn a_store_that_was_closed_can_be_opened_again_and_remembers(site: Site) {
        let semel = site.open().await;
        let other = semel.clone();
        assert!(semel.once("charge", "a", works).await.is_ok());
        semel.close().await;
        let closed = other.once("charge", "b", must_not_run).await;
        assert!(matches!(closed, Err(OnceError::Closed)));
        // The other handle is still there.
        let again = site.open().await;
        let replay = again
            .once("charge", "a", must_not_run)
            .await
            .expect("a replay");
        assert_eq!(*replay.value(), 7);
    }

    async fn a_handle_that_was_dropped_leaves_the_store_whole(site: Site) {
        let semel = site.open().await;
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let call = semel.once("charge", "a", async move |_| {
            let _ = begun.send(());
            sleep(Duration::from_millis(100)).await;
            Ok(7_u64)
        });
        tokio::select! {
            answer = call => panic!("{answer:?}"),
            begun = has_begun => begun.expect("it begins"),
        }
        drop(semel);
        // The effect still runs, and holds the store until it is settled.
        let again = loop {
            match Semel::open(&site.url).await {
                Ok(semel) => break semel,
                Err(error) => {
                    assert_eq!(error.code(), semel::Code::StoreInUse);
                    sleep(Duration::from_millis(5)).await;
                }
            }
        };
        let replay = again
            .once("charge", "a", must_not_run)
            .await
            .expect("a replay");
        assert_eq!(*replay.value(), 7);
    }
}
