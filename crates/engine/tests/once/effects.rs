//! Ends of effects, and the consequence of each end in each class.

use std::sync::Arc;

use semel_core::decide::{Directive, Order};
use semel_core::{Advice, StateKind, Store};
use semel_engine::effect::OnDoubt;
use semel_engine::once::{Error, Failure, Happened, Op, Panicked, Receipt};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{Count, declared, process, secs};
use crate::world::fault::{Fault, Method};
use crate::world::watch::Seen;
use crate::world::{LEASE, World};

async fn refused(_: Op) -> Result<(), Failure> {
    Err(Failure::not_applied("card declined"))
}

async fn broken(_: Op) -> Result<(), Failure> {
    Err(std::io::Error::other("broken pipe"))?
}

async fn panics(_: Op) -> Result<(), Failure> {
    panic!("on purpose")
}

async fn hangs(_: Op) -> Result<(), Failure> {
    std::future::pending().await
}

async fn works(_: Op) -> Result<(), Failure> {
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_was_not_applied_may_be_tried_again_in_every_class() {
    let world = World::new();
    let (site, _) = process(&world);
    let classes = [
        (declared(&site), "park"),
        (declared(&site).unkeyed(OnDoubt::Repeat), "repeat"),
        (declared(&site).keyed(secs(600)), "keyed"),
    ];
    for (operation, key) in classes {
        let failed = operation.once(key, refused).await.expect_err("refused");
        assert_eq!(
            (failed.happened(), failed.ran()),
            (Happened::No, true),
            "{key}"
        );
        assert!(matches!(failed.advice(), Advice::Retry { after } if !after.is_zero()));
        assert_eq!(
            failed.cause().map(ToString::to_string).as_deref(),
            Some("card declined")
        );
        // The call waits for the end of the backoff.
        let receipt = operation
            .once(key, works)
            .await
            .expect("the second attempt");
        assert_eq!(receipt.attempt(), Some(2), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_effects_own_wish_when_to_retry_is_kept() {
    let world = World::new();
    let (site, _) = process(&world);
    let effect =
        async |_| -> Result<(), _> { Err(Failure::not_applied("busy").retry_after(secs(90))) };
    let failed = declared(&site).once("a", effect).await.expect_err("busy");
    assert!(matches!(failed, Error::Failed { retry_after, .. } if retry_after == secs(90)));
    let soon = declared(&site).wait(secs(0)).once("a", works).await;
    assert!(matches!(soon, Err(Error::Busy { .. })));
    sleep(secs(91)).await;
    assert!(declared(&site).once("a", works).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn attempts_that_are_spent_make_it_dead_with_the_last_reason_on_record() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site).attempts(2);
    assert!(matches!(
        operation.once("a", refused).await,
        Err(Error::Failed { .. })
    ));
    let dead = operation
        .once("a", refused)
        .await
        .expect_err("no attempt is left");
    assert!(matches!(dead, Error::Dead { ran: true, .. }));
    assert_eq!(dead.happened(), Happened::No);
    let still = operation.once("a", works).await.expect_err("dead is dead");
    assert!(matches!(still, Error::Dead { ran: false, .. }));
    assert_eq!(
        still.cause().map(ToString::to_string).as_deref(),
        Some("card declined")
    );
}

#[tokio::test(start_paused = true)]
async fn what_failed_for_good_is_not_tried_again() {
    let world = World::new();
    let (site, _) = process(&world);
    let effect = async |_| -> Result<(), _> { Err(Failure::dead("no such customer")) };
    let dead = declared(&site)
        .once("a", effect)
        .await
        .expect_err("for good");
    assert_eq!((dead.happened(), dead.ran()), (Happened::No, true));
    let retrying = declared(&site).once_retrying("a", works).await;
    assert!(matches!(retrying, Err(Error::Dead { ran: false, .. })));
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_ends_with_its_time_has_ended() {
    let world = World::new();
    let (site, plan) = process(&world);
    // Its end, that of its time, and the answer to a renewal are seen together.
    let limit = LEASE / 2;
    plan.nth(Method::Renew, 1, Fault::DelayAfter(LEASE / 6));
    let effect = async move |_| {
        sleep(limit).await;
        Ok(())
    };
    let operation = declared(&site).timeout(limit);
    let receipt = operation.once("a", effect).await.expect("it has ended");
    assert_eq!(receipt.attempt(), Some(1));
    assert_eq!(plan.calls(Method::Renew), 1);
}

/// Panics, time-outs and plain errors: nobody knows, so the class decides.
#[tokio::test(start_paused = true)]
async fn what_may_have_happened_is_decided_by_the_class() {
    let world = World::new();
    let (site, _) = process(&world);
    macro_rules! ends {
        ($($name:literal $effect:ident)+) => {
            [$(($name, {
                let (park, repeat, keyed) = (
                    declared(&site),
                    declared(&site).unkeyed(OnDoubt::Repeat),
                    declared(&site).keyed(secs(600)),
                );
                let key = |class: &str| format!("{}-{class}", $name);
                let parked = park.once(key("park"), $effect).await.expect_err($name);
                assert!(matches!(parked, Error::InDoubt { ran: true, .. }), "{parked:?}");
                assert_eq!(parked.happened(), Happened::Maybe, $name);
                assert_eq!(parked.advice(), Advice::LookUpFirst, $name);
                let again = park.once(key("park"), works).await.expect_err("in doubt");
                assert!(matches!(again, Error::InDoubt { ran: false, .. }), "{again:?}");
                for (operation, class) in [(repeat, "repeat"), (keyed, "keyed")] {
                    let failed = operation.once(key(class), $effect).await.expect_err($name);
                    assert!(matches!(failed, Error::Failed { .. }), "{failed:?}");
                    assert_eq!(failed.happened(), Happened::Maybe, "{class}");
                    let second = operation.once(key(class), async |op| {
                        Ok(op.is_possible_repeat())
                    });
                    let second = second.await.expect("it may run again");
                    assert_eq!(*second.value(), class == "repeat", "{class}");
                }
                (parked.is_panic(), parked.is_timeout())
            })),+]
        };
    }
    let ends = ends!("panics" panics "hangs" hangs "broken" broken);
    let expected = [
        ("panics", (true, false)),
        ("hangs", (false, true)),
        ("broken", (false, false)),
    ];
    assert_eq!(ends, expected);
}

#[tokio::test(start_paused = true)]
async fn a_panic_before_the_first_await_is_caught_too() {
    let world = World::new();
    let (site, _) = process(&world);
    let effect = |_: Op| -> std::future::Ready<Result<(), Failure>> { panic!("on purpose") };
    let error = declared(&site)
        .once("a", effect)
        .await
        .expect_err("it panicked");
    assert!(error.is_panic());
    assert!(
        error
            .cause()
            .and_then(|cause| cause.downcast_ref::<Panicked>())
            .is_some()
    );
    let record = world.record("a").await.expect("a record");
    assert_eq!(record.last_error.as_deref(), Some("the effect panicked"));
}

#[tokio::test(start_paused = true)]
async fn a_doubt_of_an_earlier_attempt_is_not_forgotten_by_a_sure_failure() {
    let world = World::new();
    let (site, _) = process(&world);
    for operation in [
        declared(&site).keyed(secs(600)),
        declared(&site).unkeyed(OnDoubt::Repeat),
    ] {
        let key = format!("{:?}", operation.settings().class);
        assert!(operation.once(&key, broken).await.is_err());
        let failed = operation.once(&key, refused).await.expect_err("refused");
        assert!(
            matches!(failed, Error::Failed { attempt: 2, .. }),
            "{failed:?}"
        );
        assert_eq!(failed.happened(), Happened::Maybe, "the first may have");
    }
}

#[tokio::test(start_paused = true)]
async fn retrying_goes_on_until_there_is_a_value() {
    let world = World::new();
    let (site, _) = process(&world);
    let count = Count::default();
    let counting = count.clone();
    let operation = declared(&site).wait(secs(0));
    let receipt = operation.once_retrying("a", move |op: Op| {
        let count = counting.clone();
        async move {
            if count.begin() < 3 {
                return Err(Failure::not_applied("not yet"));
            }
            Ok(u64::from(op.attempt()))
        }
    });
    assert_eq!(receipt.await.map(|receipt| *receipt.value()).ok(), Some(3));
    assert_eq!(count.begun(), 3);
}

#[tokio::test(start_paused = true)]
async fn retrying_ends_when_the_attempts_are_spent() {
    let world = World::new();
    let (site, _) = process(&world);
    let dead = declared(&site)
        .attempts(3)
        .once_retrying("a", refused)
        .await;
    assert!(
        matches!(dead, Err(Error::Dead { ran: true, .. })),
        "{dead:?}"
    );
    let doubt = declared(&site).once_retrying("b", broken).await;
    assert!(
        matches!(doubt, Err(Error::InDoubt { ran: true, .. })),
        "{doubt:?}"
    );
    assert_eq!(
        world.record("a").await.map(|record| record.attempts),
        Some(3)
    );
}

#[tokio::test(start_paused = true)]
async fn every_attempt_passes_the_same_key_and_a_higher_token() {
    let world = World::new();
    let (site, _) = process(&world);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seeing = Arc::clone(&seen);
    let receipt = declared(&site).once_retrying("a", move |op: Op| {
        let seen = Arc::clone(&seeing);
        async move {
            let mut seen = seen.lock().expect("nobody panics");
            seen.push((op.idempotency_key().to_owned(), op.fencing_token()));
            if seen.len() < 3 {
                return Err(Failure::not_applied("not yet"));
            }
            Ok(())
        }
    });
    let receipt = receipt.await.expect("the third attempt");
    let seen = seen.lock().expect("nobody panics");
    assert!(
        seen.iter()
            .all(|(key, _)| *key == receipt.operation_id().to_string())
    );
    assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1));
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_for_as_long_as_the_effect_runs() {
    let world = World::new();
    let (site, _) = process(&world);
    let (other, _) = process(&world);
    let count = Count::default();
    let effect = |count: &Count| {
        let count = count.clone();
        async move |_: Op| {
            count.begin();
            sleep(LEASE * 10).await;
            Ok(())
        }
    };
    let (one, two) = (declared(&site).timeout(None), declared(&other));
    let two = two.unkeyed(OnDoubt::Repeat).wait(LEASE * 20);
    let waiting = async {
        sleep(secs(1)).await;
        two.once("a", effect(&count)).await
    };
    let (one, two) = tokio::join!(one.once("a", effect(&count)), waiting);
    assert!(one.is_ok_and(|receipt| !receipt.is_replay()));
    assert!(two.is_ok_and(|receipt| receipt.is_replay()));
    assert_eq!(count.begun(), 1);
    assert!(world.watch.count(|seen| matches!(seen, Seen::Renewed(1))) >= 29);
}

/// An operator ends the lease, another process takes over, and the first one learns of it.
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_lost_stops_its_effect_and_discards_its_result() {
    let world = World::new();
    let (site, _) = process(&world);
    let (other, _) = process(&world);
    let stopped = Arc::new(Notify::new());
    let count = Count::default();
    let counting = count.clone();
    let stopping = Arc::clone(&stopped);
    let one = declared(&site).unkeyed(OnDoubt::Repeat).timeout(None);
    let first = one.once("a", async move |op| {
        tokio::spawn(async move {
            op.cancelled().await;
            assert!(op.is_cancelled());
            stopping.notify_one();
        });
        counting.begin();
        sleep(LEASE * 10).await;
        counting.end();
        Ok("first".to_owned())
    });
    let two = declared(&other).unkeyed(OnDoubt::Repeat);
    let taking = async {
        sleep(secs(1)).await;
        let directive = Directive {
            operation: world.operation("a"),
            order: Order::Release,
            note: None,
        };
        world
            .store
            .operate([directive].into())
            .await
            .expect("the store answers");
        two.once("a", async |op| {
            assert!(op.is_takeover() && op.is_possible_repeat());
            Ok("second".to_owned())
        })
        .await
    };
    let (first, second) = tokio::join!(first, taking);
    assert_eq!(
        second.map(Receipt::into_value).ok().as_deref(),
        Some("second")
    );
    let lost = first.expect_err("its claim is lost");
    assert!(matches!(lost, Error::ClaimLost { .. }), "{lost:?}");
    assert_eq!((lost.happened(), lost.ran()), (Happened::Maybe, true));
    stopped.notified().await;
    assert_eq!(
        (count.begun(), count.ended()),
        (1, 0),
        "the first was stopped half way"
    );
    let replay = one.once("a", async |_| Ok(String::new())).await;
    assert_eq!(
        replay.map(Receipt::into_value).ok().as_deref(),
        Some("second")
    );
}

/// The effect ends before the loss is noticed: its settlement is fenced.
#[tokio::test(start_paused = true)]
async fn a_result_that_comes_too_late_is_never_a_success() {
    let world = World::new();
    let (site, _) = process(&world);
    let (other, _) = process(&world);
    let one = declared(&site).unkeyed(OnDoubt::Repeat);
    let first = one.once("a", async |_| {
        sleep(secs(5)).await;
        Ok("first".to_owned())
    });
    let two = declared(&other).unkeyed(OnDoubt::Repeat);
    let taking = async {
        sleep(secs(1)).await;
        let directive = Directive {
            operation: world.operation("a"),
            order: Order::Release,
            note: None,
        };
        world
            .store
            .operate([directive].into())
            .await
            .expect("the store answers");
        two.once("a", async |_| Ok("second".to_owned())).await
    };
    let (first, second) = tokio::join!(first, taking);
    assert!(second.is_ok());
    let lost = first.expect_err("its claim is lost");
    let found = Some(StateKind::Completed);
    assert!(
        matches!(lost, Error::ClaimLost { found: state, .. } if state == found),
        "{lost:?}"
    );
    assert_eq!(world.watch.times(&Seen::Fenced("a".into(), found)), 1);
    // It is found out once the caller has its answer.
    sleep(secs(1)).await;
    assert_eq!(world.watch.times(&Seen::OutcomeDiffers("a".into())), 1);
}

#[tokio::test(start_paused = true)]
async fn the_attempt_tells_what_it_started_that_it_is_over() {
    let world = World::new();
    let (site, _) = process(&world);
    let over = Arc::new(Notify::new());
    let telling = Arc::clone(&over);
    let operation = declared(&site);
    let receipt = operation.once("a", async move |op| {
        assert!(!op.is_cancelled());
        tokio::spawn(async move {
            op.cancelled().await;
            telling.notify_one();
        });
        Ok(())
    });
    assert!(receipt.await.is_ok());
    over.notified().await;
}

#[tokio::test(start_paused = true)]
async fn every_decision_is_observed() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site).attempts(2);
    let _ = operation.once("a", refused).await;
    let _ = operation.once("a", works).await;
    let _ = operation.once("a", works).await;
    let _ = operation.once("b", broken).await;
    let _ = operation.once("b", works).await;
    let _ = operation.attempts(1).once("c", refused).await;
    let granted = |key: &str, attempt| Seen::Granted {
        key: key.into(),
        attempt,
        takeover: false,
    };
    let seen = world.watch.all();
    assert_eq!(
        seen,
        [
            granted("a", 1),
            Seen::Released("a".into()),
            Seen::Busy("a".into()),
            granted("a", 2),
            Seen::Completed("a".into()),
            Seen::Replayed("a".into(), semel_core::Duplicate::Unknown),
            granted("b", 1),
            Seen::InDoubt("b".into()),
            Seen::Parked("b".into(), StateKind::InDoubt),
            granted("c", 1),
            Seen::Dead("c".into()),
        ]
    );
}
