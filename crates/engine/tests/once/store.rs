//! A store that fails, hangs or forgets to answer, and the end of the process.

use std::sync::Arc;

use semel_core::{Advice, Code, StateKind};
use semel_engine::effect::OnDoubt;
use semel_engine::once::{Error, Failure, Happened, Op};
use tokio::time::{sleep, timeout};

use super::{Count, declared, process, process_sweeping, secs};
use crate::world::fault::{Fault, Method};
use crate::world::watch::Seen;
use crate::world::{LEASE, WINDOW, World};

/// An effect that counts its runs.
macro_rules! counted {
    ($count:expr) => {{
        let count = $count.clone();
        async move |_: Op| -> Result<u64, Failure> { Ok(count.begin() as u64) }
    }};
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_is_asked_for_again_and_the_effect_runs_once() {
    for method in [Method::Claim, Method::Settle] {
        for fault in [Fault::Cut, Fault::LoseAnswer, Fault::Full, Fault::Items] {
            let world = World::new();
            let (site, plan) = process(&world);
            plan.nth(method, 1, fault).nth(method, 2, fault);
            let count = Count::default();
            let receipt = declared(&site).once("a", counted!(count)).await;
            let receipt = receipt.expect("the store comes back");
            assert_eq!(
                (*receipt.value(), receipt.attempt()),
                (1, Some(1)),
                "{method:?} {fault:?}"
            );
            assert_eq!(world.state("a").await, Some(StateKind::Completed));
            assert!(
                world.watch.times(&Seen::StoreFailed) >= 1,
                "{method:?} {fault:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_asked_is_waited_for_and_nothing_is_run() {
    for fault in [Fault::Cut, Fault::LoseAnswer, Fault::Full] {
        let world = World::new();
        let (site, plan) = process(&world);
        plan.outage(Method::Claim, secs(40), fault);
        let count = Count::default();
        let call = declared(&site)
            .patience(secs(10))
            .once("a", counted!(count))
            .await;
        let error = call.expect_err("no answer");
        assert!(matches!(error, Error::Store { .. }), "{error:?}");
        assert_eq!((error.happened(), error.ran()), (Happened::Maybe, false));
        assert!(
            (secs(10)..secs(16)).contains(&world.clock.elapsed()),
            "{:?}",
            world.clock.elapsed()
        );
        // A claim that may have been granted is given back as soon as the store answers.
        sleep(secs(60)).await;
        assert_eq!(count.begun(), 0);
        let state = world.state("a").await;
        let expected = matches!(fault, Fault::LoseAnswer).then_some(StateKind::Released);
        assert!(
            state == expected || state == Some(StateKind::Released),
            "{fault:?}: {state:?}"
        );
        let receipt = declared(&site).once("a", counted!(count)).await;
        assert_eq!(
            receipt.ok().and_then(|receipt| receipt.attempt()),
            Some(1),
            "{fault:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_keeps_nobody_longer_than_asked() {
    let world = World::new();
    let (site, plan) = process(&world);
    plan.nth(Method::Claim, 1, Fault::DelayAfter(secs(120)));
    let count = Count::default();
    let error = declared(&site)
        .patience(secs(10))
        .once("a", counted!(count))
        .await;
    let error = error.expect_err("no answer");
    assert!(matches!(&error, Error::Store { source, .. } if source.code() == Code::Timeout));
    assert_eq!(world.clock.elapsed(), secs(10));
    sleep(secs(200)).await;
    assert_eq!(count.begun(), 0);
    assert_eq!(
        world.state("a").await,
        Some(StateKind::Released),
        "given back in the end"
    );
}

/// A caller that runs it unprotected while the store is away would run it beside the one that was seen.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_seen_busy_is_busy_while_the_store_is_away() {
    for fault in [Fault::Cut, Fault::Items, Fault::Poisoned] {
        let world = World::new();
        let (one, _) = process(&world);
        let (two, plan) = process(&world);
        plan.away(secs(2), secs(100), fault);
        let running = declared(&one).once("a", async |_| {
            sleep(secs(20)).await;
            Ok(1_u64)
        });
        let count = Count::default();
        let waiting = async {
            sleep(secs(1)).await;
            let two = declared(&two).patience(secs(5)).wait(secs(60));
            let seen = two.once("a", counted!(count)).await;
            (seen, two.once("b", counted!(count)).await)
        };
        let (ran, (seen, other)) = tokio::join!(running, waiting);
        assert!(ran.is_ok());
        assert!(
            matches!(seen, Err(Error::Busy { .. })),
            "{fault:?}: {seen:?}"
        );
        assert!(
            matches!(other, Err(Error::Store { .. })),
            "{fault:?}: {other:?}"
        );
        assert_eq!(count.begun(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_cannot_be_recorded_is_told_of_and_recorded_later() {
    for fault in [Fault::Cut, Fault::LoseAnswer, Fault::DelayBefore(secs(70))] {
        let world = World::new();
        let (site, plan) = process(&world);
        plan.outage(Method::Settle, secs(60), fault);
        let count = Count::default();
        let error = declared(&site)
            .once("a", counted!(count))
            .await
            .expect_err("no answer");
        let happened = Happened::Yes;
        assert!(matches!(error, Error::Unrecorded { .. }), "{error:?}");
        assert_eq!((error.happened(), error.ran()), (happened, true));
        assert_eq!(world.clock.elapsed(), secs(30));
        sleep(secs(120)).await;
        assert_eq!(
            world.state("a").await,
            Some(StateKind::Completed),
            "{fault:?}"
        );
        let receipt = declared(&site)
            .once("a", counted!(count))
            .await
            .expect("a replay");
        assert_eq!(*receipt.value(), 1, "the call went on trying");
        assert_eq!(count.begun(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn leases_are_kept_while_the_outcome_cannot_be_recorded() {
    let world = World::new();
    let (site, plan) = process(&world);
    let (other, _) = process(&world);
    plan.outage(Method::Settle, LEASE * 5, Fault::Cut);
    let count = Count::default();
    let one = declared(&site).unkeyed(OnDoubt::Repeat);
    let error = one.once("a", counted!(count)).await.expect_err("no answer");
    assert!(matches!(error, Error::Unrecorded { .. }));
    let two = declared(&other).unkeyed(OnDoubt::Repeat).wait(LEASE * 10);
    let replay = two.once("a", counted!(count)).await.expect("a replay");
    assert!(replay.is_replay());
    assert_eq!(count.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_for_good_is_not_asked_again() {
    let world = World::new();
    let (site, plan) = process(&world);
    plan.nth(Method::Claim, 1, Fault::Poisoned)
        .nth(Method::Settle, 1, Fault::Poisoned);
    let count = Count::default();
    let error = declared(&site)
        .once("a", counted!(count))
        .await
        .expect_err("poisoned");
    assert!(matches!(error, Error::Store { .. }));
    assert_eq!(
        (error.advice(), error.code()),
        (Advice::Alarm, "store-poisoned")
    );
    assert_eq!(count.begun(), 0);
    let error = declared(&site)
        .once("b", counted!(count))
        .await
        .expect_err("poisoned");
    assert!(matches!(error, Error::Unrecorded { .. }), "{error:?}");
    assert_eq!(
        (error.advice(), error.happened()),
        (Advice::Alarm, Happened::Yes)
    );
    assert_eq!(
        (plan.calls(Method::Claim), plan.calls(Method::Settle)),
        (2, 1)
    );
    // The process ends; the class decides when the lease has ended.
    sleep(LEASE * 2).await;
    let (other, _) = process(&world);
    let doubt = declared(&other).once("b", counted!(count)).await;
    assert!(matches!(doubt, Err(Error::InDoubt { .. })));
}

/// The answer to the claim takes longer than the lease, and meanwhile another process takes over and completes.
/// If it began under the old claim, the effect would run twice.
#[tokio::test(start_paused = true)]
async fn an_effect_never_begins_under_a_lease_that_may_have_ended() {
    let world = World::new();
    let (site, plan) = process(&world);
    let (other, _) = process(&world);
    plan.nth(Method::Claim, 1, Fault::DelayAfter(LEASE + secs(20)));
    let count = Count::default();
    let one = declared(&site)
        .unkeyed(OnDoubt::Repeat)
        .patience(LEASE * 10);
    let two = declared(&other).unkeyed(OnDoubt::Repeat);
    let taking = async {
        sleep(LEASE + secs(1)).await;
        two.once("a", counted!(count)).await
    };
    let (one, two) = tokio::join!(one.once("a", counted!(count)), taking);
    assert!(two.is_ok_and(|receipt| !receipt.is_replay()));
    assert!(
        one.is_ok_and(|receipt| receipt.is_replay()),
        "it is asked for again"
    );
    assert_eq!(count.begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_that_still_holds_is_renewed_before_the_effect_begins() {
    let world = World::new();
    let (site, plan) = process(&world);
    plan.nth(Method::Claim, 1, Fault::DelayAfter(secs(29)));
    let count = Count::default();
    let operation = declared(&site).patience(LEASE * 10);
    let receipt = operation
        .once("a", counted!(count))
        .await
        .expect("it holds");
    assert_eq!((*receipt.value(), receipt.attempt()), (1, Some(1)));
    assert_eq!(plan.calls(Method::Renew), 1);
}

/// The answer to the claim takes so long that its lease is renewed, and by then the provider may have forgotten
/// the key of an earlier attempt: if it began, the effect would be applied twice.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_renewed_makes_no_providers_window_longer() {
    let world = World::new();
    let (site, plan) = process(&world);
    let (other, _) = process(&world);
    plan.nth(Method::Claim, 1, Fault::DelayAfter(LEASE + secs(20)));
    let count = Count::default();
    let keyed = |site| declared(site).keyed(LEASE * 2).patience(LEASE * 10);
    let counting = count.clone();
    let operation = keyed(&other);
    let vanishing = operation.once_here("a", async move |_| {
        counting.begin();
        std::future::pending::<Result<u64, Failure>>().await
    });
    let began = timeout(LEASE / 2, vanishing).await;
    assert!(began.is_err() && count.begun() == 1);
    sleep(secs(1)).await;
    let late = keyed(&site).once("a", counted!(count)).await;
    assert!(matches!(late, Err(Error::InDoubt { .. })), "{late:?}");
    assert_eq!(count.begun(), 1);
    assert_eq!(plan.calls(Method::Renew), 1, "it was renewed");
}

/// If no earlier attempt may have applied it, the same leaves no doubt: the key is free again.
#[tokio::test(start_paused = true)]
async fn what_began_too_late_for_its_provider_is_given_back() {
    let world = World::new();
    let (site, plan) = process(&world);
    plan.nth(Method::Claim, 1, Fault::DelayAfter(LEASE + secs(20)));
    let count = Count::default();
    let operation = declared(&site).keyed(LEASE / 2).patience(LEASE * 10);
    let late = operation.once("a", counted!(count)).await;
    let failed = matches!(
        late,
        Err(Error::Failed {
            happened: Happened::No,
            ..
        })
    );
    assert!(failed, "{late:?}");
    assert_eq!(count.begun(), 0);
    let receipt = operation.once("a", counted!(count)).await;
    assert!(receipt.is_ok_and(|it| it.attempt() == Some(1)));
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_runs_and_lets_the_store_go() {
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
    let (receipt, ()) = tokio::join!(call, async {
        sleep(secs(1)).await;
        site.close().await;
        assert_eq!(count.ended(), 1, "it was waited for");
        assert_eq!(Arc::strong_count(&world.store), 1, "the world's own");
    });
    assert!(receipt.is_ok(), "the caller gets its value");
    let closed = declared(&site)
        .once("b", counted!(count))
        .await
        .expect_err("closed");
    assert!(matches!(closed, Error::Closed));
    assert_eq!((closed.ran(), closed.happened()), (false, Happened::Maybe));
    assert!(matches!(
        declared(&site).record("a").await,
        Err(Error::Closed)
    ));
    assert!(matches!(
        operation.once_here("a", async |_| Ok(0)).await,
        Err(Error::Closed)
    ));
    site.close().await;
}

#[tokio::test(start_paused = true)]
async fn closing_can_be_called_off_and_waits_for_nobody_who_only_waits() {
    let world = World::new();
    let (site, _) = process(&world);
    let (one, two) = (declared(&site), declared(&site).wait(secs(100)));
    let running = one.once("a", async |_| {
        sleep(secs(20)).await;
        Ok(1)
    });
    let waiting = async {
        sleep(secs(1)).await;
        let error = two.once("a", async |_| Ok(2)).await;
        (error, world.clock.elapsed())
    };
    let closing = async {
        sleep(secs(2)).await;
        assert!(
            timeout(secs(1), site.close()).await.is_err(),
            "it waits for the first"
        );
        let (again, other) = (site.clone(), site.clone());
        tokio::join!(again.close(), other.close());
    };
    let (one, (two, waited), ()) = tokio::join!(running, waiting, closing);
    assert!(one.is_ok());
    assert!(matches!(two, Err(Error::Closed)), "{two:?}");
    assert_eq!(waited, secs(2));
}

#[tokio::test(start_paused = true)]
async fn closing_gives_up_a_store_that_never_answers() {
    let world = World::new();
    let (site, plan) = process(&world);
    plan.outage(Method::Settle, secs(1_000_000), Fault::Cut);
    let count = Count::default();
    let error = declared(&site).once("a", counted!(count)).await;
    assert!(matches!(error, Err(Error::Unrecorded { .. })));
    let since = world.clock.elapsed();
    site.close().await;
    assert!(world.clock.elapsed() <= since + secs(60));
}

#[tokio::test(start_paused = true)]
async fn handles_that_are_dropped_leave_what_runs_running() {
    let world = World::new();
    let (site, _) = process(&world);
    let count = Count::default();
    let counting = count.clone();
    let operation = declared(&site);
    let call = operation.once("a", async move |_| {
        sleep(secs(10)).await;
        counting.end();
        Ok(())
    });
    assert!(timeout(secs(1), call).await.is_err());
    drop((site, operation));
    sleep(secs(20)).await;
    assert_eq!(count.ended(), 1);
    assert_eq!(world.state("a").await, Some(StateKind::Completed));
    assert_eq!(
        Arc::strong_count(&world.store),
        1,
        "and the store is let go"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_past_its_window_is_swept() {
    let world = World::new();
    let (site, _) = process_sweeping(&world, Some(secs(60)));
    let count = Count::default();
    assert!(declared(&site).once("a", counted!(count)).await.is_ok());
    sleep(WINDOW.duration() * 2).await;
    let swept = |seen: &Seen| matches!(seen, Seen::Swept { removed: 1, .. });
    assert_eq!(world.watch.count(swept), 1);
    assert!(declared(&site).once("a", counted!(count)).await.is_ok());
    assert_eq!(
        count.begun(),
        2,
        "the window is over, and no birth was given"
    );
    timeout(secs(1), site.close())
        .await
        .expect("the sweeper ends");
}
