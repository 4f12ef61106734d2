//! Effects whose target is away: all callers leave it alone, and one tries it.

use std::time::Duration;

use semel_core::{Advice, StateKind};
use semel_engine::once::{EffectBreaker, Error, Failure, Happened, TargetAway};
use tokio::time::sleep;

use super::{Count, declared, process};
use crate::world::World;

const ENOUGH: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn a_target_that_is_away_is_left_alone_costs_no_attempt_and_is_tried_by_one_call() {
    let world = World::new();
    let (site, _) = process(&world);
    let breaker = EffectBreaker::new();
    let operation = declared(&site).breaker(&breaker).attempts(1);
    let calls = Count::default();
    let call = |key: &str, is_back: bool| {
        let calls = calls.clone();
        operation.once(key, move |_| async move {
            calls.begin();
            sleep(Duration::from_millis(10)).await;
            if is_back {
                return Ok(());
            }
            Err(Failure::away("connection refused"))
        })
    };

    let failed = call("a", false).await.expect_err("away");
    assert_eq!((failed.happened(), calls.begun()), (Happened::No, 1));
    assert!(breaker.is_open());
    let failed = call("b", false).await.expect_err("left alone");
    let away = failed.cause().and_then(|cause| cause.downcast_ref());
    let Some(TargetAway { retry_after }) = away else {
        panic!("it says that it was not called, and not {failed:?}");
    };
    assert!(!retry_after.is_zero());
    assert!(matches!(failed.advice(), Advice::Retry { .. }));
    assert_eq!((failed.happened(), calls.begun()), (Happened::No, 1));

    // One at a time tries it.
    sleep(ENOUGH).await;
    let both = tokio::join!(call("a", false), call("b", false));
    assert!(both.0.is_err() && both.1.is_err());
    assert_eq!(calls.begun(), 2);
    for key in ["a", "b"] {
        let record = world.record(key).await.expect("a record");
        assert_eq!(
            (record.state.kind(), record.attempts),
            (StateKind::Released, 0)
        );
    }
    sleep(ENOUGH).await;
    assert!(call("a", true).await.is_ok());
    assert!(!breaker.is_open());
    assert!(call("b", true).await.is_ok());
    // Outcomes on record are returned, whatever the target does.
    assert!(call("c", false).await.is_err() && breaker.is_open());
    let receipt = call("a", false).await.expect("on record");
    assert!(receipt.is_replay());
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_refused_whole_while_its_target_is_away() {
    let world = World::new();
    let (site, _) = process(&world);
    let breaker = EffectBreaker::new();
    let operation = declared(&site).breaker(&breaker);
    let calls = Count::default();
    let whole = |keys: [&'static str; 2], is_back: bool| {
        let calls = calls.clone();
        let items = keys.map(|key| (key, ()));
        operation.batch(items).whole(move |granted| {
            calls.begin();
            let end = |_| {
                if is_back {
                    Ok(())
                } else {
                    Err(Failure::away("refused"))
                }
            };
            let ends: Vec<_> = granted.iter().map(end).collect();
            async { ends }
        })
    };
    for keys in [["a", "b"], ["c", "d"]] {
        for failed in whole(keys, false).await {
            assert!(matches!(failed, Err(Error::Failed { .. })));
        }
    }
    assert_eq!(calls.begun(), 1);
    sleep(ENOUGH).await;
    assert!(whole(["a", "b"], true).await.iter().all(Result::is_ok));
    assert!(!breaker.is_open());
}
