//! A store, a source or a target that goes away, for a while or for good.

use std::time::Duration;

use semel_core::{ErrorKind, StateKind};
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many, many};
use crate::world::broker::OnFetch;
use crate::world::faulty::{Fault, Method};
use crate::world::scripted::{Act, Scripted, not_applied};
use crate::world::watch::Seen;
use crate::world::{KEYED, PARK, World};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn through_an_outage_no_effect_runs_twice_and_nothing_is_acknowledged() {
    for fault in [Fault::Cut, Fault::LoseAnswer, Fault::Full, Fault::Items] {
        for method in [Method::Claim, Method::Settle] {
            let world = World::new();
            let broker = broker_with_many(&world, 30);
            let worker = world.worker(&broker);
            worker.plan.outage(method, MINUTE, fault);
            let plan = worker.plan.clone();
            let effect = Scripted::new(&world, &worker.crash, []);
            let (run, ()) = tokio::join!(worker.each(effect, PARK), async {
                tokio::time::sleep(SECOND * 59).await;
                assert_eq!(broker.acknowledged(), 0, "{fault:?} at {method:?}");
            });

            assert_eq!(
                run.summary().of(Fate::Applied),
                30,
                "{fault:?} at {method:?}"
            );
            for key in many(30) {
                assert_eq!(
                    world.sink.applied(&key),
                    1,
                    "{fault:?} at {method:?}: {key}"
                );
            }
            assert_eq!(world.in_state(StateKind::Completed).await.len(), 30);
            let is_failure = |seen: &Seen| *seen == Seen::StoreFailed;
            assert!(
                world.watch.count(is_failure) > 5,
                "{fault:?} at {method:?} is told"
            );
            assert!(
                plan.calls(method) < 2_000,
                "{fault:?} at {method:?}: with patience"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_before_an_outage_begins_only_when_its_claim_is_confirmed() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    worker.plan.outage(Method::Claim, MINUTE, Fault::LoseAnswer);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Applied), 1);
    assert!(world.sink.spans()[0].began >= MINUTE);
    assert_eq!(
        world.record("a").await.map(|record| record.attempts),
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_released_attempt_whose_answer_was_lost_is_counted_once() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    worker.plan.nth(Method::Settle, 1, Fault::LoseAnswer);
    let effect = Scripted::new(&world, &worker.crash, [Act::Say(not_applied())]);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Applied), 1);
    assert_eq!(
        world.record("a").await.map(|record| record.attempts),
        Some(2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_store_ends_the_run_and_nothing_more_is_acknowledged() {
    for (method, runs) in [(Method::Claim, 0), (Method::Settle, 1), (Method::Renew, 1)] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let worker = world.worker(&broker);
        worker.plan.nth(method, 1, Fault::Poisoned);
        let act = match method {
            Method::Renew => Act::Slow(MINUTE, MINUTE),
            _ => Act::Do,
        };
        let effect = Scripted::always(&world, &worker.crash, act);
        let error = worker.each(effect, KEYED).await.error();

        assert_eq!(error.kind(), ErrorKind::Poisoned, "{method:?}");
        assert_eq!(world.sink.spans().len(), runs, "{method:?}");
        assert_eq!(broker.unacknowledged(), 1, "{method:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_source_fails_what_runs_is_finished_first() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let mut worker = world.worker(&broker);
    worker.feed.on_fetch = Some(OnFetch::FailLater);
    worker.feed.pause = SECOND / 2;
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND, SECOND));
    let error = worker.each(effect, PARK).await.error();

    assert_eq!(error.to_string(), "the broker is gone");
    for key in ["a", "b"] {
        assert_eq!(
            world.state(key).await,
            Some(StateKind::Completed),
            "{key} is not in doubt"
        );
    }
    assert_eq!(broker.unacknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_panics_has_not_ended() {
    for is_stream in [false, true] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.feed.on_fetch = Some(OnFetch::Panic);
        let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND, SECOND));
        let run = if is_stream {
            worker.stream(effect, PARK).await
        } else {
            worker.each(effect, PARK).await
        };
        assert_eq!(run.error().kind(), ErrorKind::Internal);
    }
}
