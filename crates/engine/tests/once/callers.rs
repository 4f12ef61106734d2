//! Callers that come together, come again or go away.

use std::panic::AssertUnwindSafe;
use std::pin::pin;

use semel_core::{Duplicate, StateKind};
use semel_engine::effect::OnDoubt;
use semel_engine::once::{Answered, Error, Failure, Happened};
use tokio::time::{sleep, timeout};

use super::{Count, declared, process, secs};
use crate::world::World;
use crate::world::fault::{Fault, Method};
use crate::world::watch::Seen;

#[tokio::test(start_paused = true)]
async fn a_call_after_success_is_given_the_outcome_of_then() {
    let world = World::new();
    let (site, _) = process(&world);
    let first = declared(&site).once("a", async |_| Ok("receipt".to_owned()));
    let first = first.await.expect("the effect ran");
    assert_eq!(first.attempt(), Some(1));
    assert!(first.is_kept() && !first.is_replay());
    let effect = async |_| -> Result<String, Failure> { panic!("the effect is run once") };
    let second = declared(&site).once("a", effect).await.expect("a replay");
    assert_eq!(second.value(), "receipt");
    let duplicate = Duplicate::Unknown;
    assert_eq!(second.answered(), Answered::Replayed { duplicate });
    assert_eq!(second.operation_id(), first.operation_id());
    assert_eq!(second.operation_id(), world.operation("a").id());
}

#[tokio::test(start_paused = true)]
async fn two_calls_at_once_run_one_effect_and_share_its_outcome() {
    let world = World::new();
    // In one process, and in two that share the store.
    let (site, _) = process(&world);
    let (other, _) = process(&world);
    for (key, second) in [("a", &site), ("b", &other)] {
        let count = Count::default();
        let effect = || {
            let count = count.clone();
            async move |_| {
                sleep(secs(2)).await;
                Ok(count.begin() as u64)
            }
        };
        let (one, operation) = (declared(&site), declared(second));
        let (one, two) = tokio::join!(one.once(key, effect()), operation.once(key, effect()));
        let (one, two) = (one.expect("a value"), two.expect("a value"));
        assert_eq!((one.value(), two.value()), (&1, &1), "{key}");
        assert!(one.is_replay() != two.is_replay(), "{key}");
        assert_eq!(count.begun(), 1, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_same_process_wakes_when_the_first_is_settled() {
    let world = World::new();
    let (site, plan) = process(&world);
    let (one, two) = (declared(&site), declared(&site));
    let running = one.once("a", async |_| {
        sleep(secs(3)).await;
        Ok(())
    });
    let waiting = async {
        sleep(secs(1)).await;
        let receipt = two.once("a", async |_| Ok(())).await;
        (receipt, world.clock.elapsed())
    };
    let (one, (two, waited)) = tokio::join!(running, waiting);
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(waited, secs(3));
    assert!(plan.calls(Method::Claim) < 20, "it looks seldom");
}

#[tokio::test(start_paused = true)]
async fn a_busy_key_is_waited_for_as_long_as_asked_and_not_run() {
    let world = World::new();
    let (site, _) = process(&world);
    let (other, _) = process(&world);
    let count = Count::default();
    let long = declared(&site).timeout(None);
    let counting = count.clone();
    let running = long.once("a", async move |_| {
        counting.begin();
        sleep(secs(60)).await;
        Ok(())
    });
    let waiting = async {
        sleep(secs(1)).await;
        for wait in [secs(0), secs(7)] {
            let began_at = world.clock.elapsed();
            let count = count.clone();
            let operation = declared(&other).wait(wait);
            let busy = operation.once("a", async move |_| {
                count.begin();
                Ok(())
            });
            let busy = busy.await.expect_err("somebody is at it");
            assert!(matches!(busy, Error::Busy { retry_after, .. } if retry_after > secs(10)));
            assert_eq!((busy.happened(), busy.ran()), (Happened::Maybe, false));
            assert_eq!(world.clock.elapsed(), began_at + wait);
        }
    };
    let (one, ()) = tokio::join!(running, waiting);
    assert!(one.is_ok());
    assert_eq!(count.begun(), 1);
    assert_eq!(world.watch.times(&Seen::Busy("a".into())), 2, "once a call");
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_has_begun_runs_on_when_its_caller_goes_away() {
    let world = World::new();
    let (site, _) = process(&world);
    let count = Count::default();
    let counting = count.clone();
    let operation = declared(&site);
    let call = operation.once("a", async move |_| {
        counting.begin();
        sleep(secs(10)).await;
        counting.end();
        Ok(7)
    });
    assert!(timeout(secs(1), call).await.is_err(), "the caller has gone");
    assert_eq!((count.begun(), count.ended()), (1, 0));
    sleep(secs(20)).await;
    assert_eq!(count.ended(), 1);
    assert_eq!(world.state("a").await, Some(StateKind::Completed));
    let replay = declared(&site).once("a", async |_| Ok(0)).await;
    assert_eq!(replay.map(|receipt| *receipt.value()).ok(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_has_not_begun_is_not_begun_for_a_caller_who_went_away() {
    let world = World::new();
    let (site, plan) = process(&world);
    plan.nth(Method::Claim, 1, Fault::DelayAfter(secs(5)));
    let count = Count::default();
    let counting = count.clone();
    let operation = declared(&site);
    let call = operation.once("a", async move |_| {
        counting.begin();
        Ok(())
    });
    assert!(timeout(secs(1), call).await.is_err(), "the caller has gone");
    sleep(secs(20)).await;
    assert_eq!(count.begun(), 0);
    let record = world.record("a").await.expect("it was claimed");
    assert_eq!(record.state.kind(), StateKind::Released, "and given back");
    let receipt = declared(&site)
        .once("a", async |_| Ok(()))
        .await
        .expect("free");
    assert_eq!(receipt.attempt(), Some(1), "which costs no attempt");
}

#[tokio::test(start_paused = true)]
async fn a_caller_who_goes_away_while_waiting_leaves_nothing_behind() {
    let world = World::new();
    let (site, _) = process(&world);
    let count = Count::default();
    let counting = count.clone();
    let (one, two) = (declared(&site), declared(&site).wait(secs(20)));
    let running = one.once("a", async |_| -> Result<(), _> {
        sleep(secs(3)).await;
        Err(Failure::not_applied("refused").retry_after(secs(1)))
    });
    let leaving = async {
        let waiting = two.once("a", async move |_| {
            counting.begin();
            Ok(())
        });
        assert!(timeout(secs(1), waiting).await.is_err());
    };
    let (one, ()) = tokio::join!(running, leaving);
    assert!(matches!(one, Err(Error::Failed { .. })));
    sleep(secs(20)).await;
    assert_eq!(count.begun(), 0);
    assert_eq!(world.state("a").await, Some(StateKind::Released));
}

#[tokio::test(start_paused = true)]
async fn an_effect_in_the_callers_task_may_borrow() {
    let world = World::new();
    let (site, _) = process(&world);
    let mut ledger = vec![1];
    let text = String::from("borrowed");
    let operation = declared(&site);
    let receipt = operation.once_here("a", async |op| {
        ledger.push(op.attempt());
        Ok(text.len() as u64)
    });
    let receipt = receipt.await.expect("it ran");
    assert_eq!(*receipt.value(), 8);
    assert_eq!(ledger, [1, 1]);
    let effect = async |_| -> Result<u64, Failure> { panic!("the effect is run once") };
    let replay = operation.once_here("a", effect).await.expect("a replay");
    assert!(replay.is_replay());
}

#[tokio::test(start_paused = true)]
async fn an_effect_in_the_callers_task_goes_with_it_and_its_class_decides() {
    let world = World::new();
    let (site, _) = process(&world);
    let classes = [
        (declared(&site), "park", StateKind::InDoubt),
        (
            declared(&site).unkeyed(OnDoubt::Repeat),
            "repeat",
            StateKind::Released,
        ),
        (
            declared(&site).keyed(secs(600)),
            "keyed",
            StateKind::Released,
        ),
    ];
    for (operation, key, state) in classes {
        let call = operation.once_here(key, async |_| {
            sleep(secs(10)).await;
            Ok(())
        });
        assert!(timeout(secs(1), call).await.is_err());
        sleep(secs(1)).await;
        assert_eq!(world.state(key).await, Some(state), "{key}");
        let record = world.record(key).await.expect("a record");
        assert!(record.doubt.is_some(), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_callers_task_goes_on_and_leaves_a_doubt() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site);
    let call = operation.once_here("a", async |_| -> Result<(), Failure> {
        panic!("on purpose")
    });
    let mut call = Box::pin(call);
    let caught = std::future::poll_fn(|context| {
        let poll = || call.as_mut().poll(context);
        match std::panic::catch_unwind(AssertUnwindSafe(poll)) {
            Ok(poll) => poll.map(|_| false),
            Err(_) => std::task::Poll::Ready(true),
        }
    });
    assert!(caught.await, "the caller hears the panic");
    // Unwinding would drop it, too.
    drop(call);
    sleep(secs(1)).await;
    assert_eq!(world.state("a").await, Some(StateKind::InDoubt));
}

#[tokio::test(start_paused = true)]
async fn an_effect_in_the_callers_task_is_stopped_when_its_time_is_up() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site).timeout(secs(5));
    let call = operation.once_here("a", async |_| -> Result<(), Failure> {
        std::future::pending().await
    });
    let error = call.await.expect_err("it is out of time");
    assert!(error.is_timeout());
    assert_eq!(world.clock.elapsed(), secs(5));
    assert_eq!(world.state("a").await, Some(StateKind::InDoubt));
}

#[test]
#[should_panic(expected = "there is no reactor running")]
fn a_call_outside_a_runtime_says_so() {
    let world = World::new();
    let (site, _) = process(&world);
    let operation = declared(&site);
    let mut call = pin!(operation.once("a", async |_| Ok(())));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = call.as_mut().poll(&mut context);
}
