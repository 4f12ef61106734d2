//! A store, a source or a target that goes away, for a while or for good.

use std::time::Duration;

use semel_core::{Code, ErrorKind, StateKind};
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many, many};
use crate::world::broker::{Broker, OnFetch};
use crate::world::fault::{Fault, Method};
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted, not_applied};
use crate::world::watch::Seen;
use crate::world::worker::{Manner, Worker};
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
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.feed.on_fetch = Some(OnFetch::Panic);
        let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND, SECOND));
        let run = worker.by(manner, effect, PARK).await;
        assert_eq!(run.error().kind(), ErrorKind::Internal);
    }
}

/// Workers in the same process, behind one breaker.
fn sharing(world: &World, brokers: &[Broker]) -> Vec<Worker> {
    let mut workers: Vec<_> = brokers.iter().map(|broker| world.worker(broker)).collect();
    let breaker = workers[0].outage.breaker.clone();
    for worker in &mut workers {
        worker.outage.breaker = breaker.clone();
    }
    workers
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_left_alone_but_for_one_probe_at_a_time() {
    let world = World::new();
    let brokers = [0, 10, 20].map(|first| {
        let broker = world.broker();
        for key in &many(30)[first..first + 10] {
            broker.publish(Message::of(key));
        }
        broker
    });
    let mut workers = sharing(&world, &brokers);
    let plans: Vec<_> = workers.iter().map(|worker| worker.plan.clone()).collect();
    for plan in &plans {
        plan.away(Duration::ZERO, MINUTE * 10, Fault::Cut);
    }
    let calls = || plans.iter().map(|plan| plan.all_calls()).sum::<usize>();
    let runs = async {
        let mut each = || {
            let worker = workers.remove(0);
            let effect = Scripted::new(&world, &worker.crash, []);
            worker.each(effect, PARK)
        };
        let (one, two, three) = (each(), each(), each());
        let runs = tokio::join!(one, two, three);
        (runs, world.clock.elapsed())
    };
    let ((runs, ended), (early, late)) = tokio::join!(runs, async {
        tokio::time::sleep(MINUTE).await;
        let early = calls();
        tokio::time::sleep(SECOND * 539).await;
        (early, calls())
    });

    for run in [runs.0, runs.1, runs.2] {
        assert_eq!(run.summary().of(Fate::Applied), 10);
    }
    assert!(early < 50, "{early} calls in the first minute");
    assert!(
        late - early <= 9 * 12,
        "one probe in five seconds, for all three: {}",
        late - early
    );
    assert!(ended <= MINUTE * 10 + SECOND * 7, "back at once: {ended:?}");
    let opened = Seen::BreakerOpened(Code::StoreUnavailable);
    assert_eq!(world.watch.times(&opened), 1, "told once");
    let closed =
        |seen: &Seen| matches!(seen, Seen::BreakerClosed(lasted) if *lasted >= MINUTE * 10);
    assert_eq!(world.watch.count(closed), 1, "told once");
    assert!(world.watch.times(&Seen::StoreFailed) <= late);
}

#[tokio::test(start_paused = true)]
async fn a_blip_opens_nothing() {
    let world = World::new();
    let broker = broker_with_many(&world, 30);
    let worker = world.worker(&broker);
    worker.plan.away(Duration::ZERO, SECOND, Fault::Cut);
    let effect = Scripted::new(&world, &worker.crash, []);
    worker.each(effect, PARK).await.summary();

    let is_opened = |seen: &Seen| matches!(seen, Seen::BreakerOpened(_));
    assert_eq!(world.watch.count(is_opened), 0);
    assert!(world.clock.elapsed() < SECOND * 2);
}

#[tokio::test(start_paused = true)]
async fn why_the_store_is_away_is_told_by_its_code() {
    for (fault, code) in [
        (Fault::Cut, Code::StoreUnavailable),
        (Fault::Full, Code::StoreFull),
        (Fault::ReadOnly, Code::StoreReadOnly),
        (Fault::Hang, Code::Timeout),
        (Fault::Items, Code::StoreUnavailable),
    ] {
        let world = World::new();
        let broker = broker_with_many(&world, 5);
        let mut worker = world.worker(&broker);
        worker.outage.answer_within = SECOND * 5;
        worker.plan.outage(Method::Claim, MINUTE, fault);
        let effect = Scripted::new(&world, &worker.crash, []);
        let summary = worker.each(effect, PARK).await.summary();

        assert_eq!(summary.of(Fate::Applied), 5, "{fault:?}");
        let told = world.watch.times(&Seen::BreakerOpened(code));
        assert_eq!(told, 1, "{fault:?}");
        assert!(world.clock.elapsed() < MINUTE + SECOND * 15, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_is_given_up_and_asked_again() {
    for method in [Method::Claim, Method::Settle, Method::Park] {
        for fault in [Fault::Hang, Fault::HangAfter] {
            let world = World::new();
            let broker = broker_with(&world, &["a"]);
            broker.publish(Message::raw("no key"));
            let mut worker = world.worker(&broker);
            worker.outage.answer_within = SECOND * 10;
            worker.plan.nth(method, 1, fault);
            let plan = worker.plan.clone();
            let effect = Scripted::new(&world, &worker.crash, []);
            let summary = worker.each(effect, PARK).await.summary();

            let why = format!("{fault:?} at {method:?}");
            assert_eq!(summary.of(Fate::Applied), 1, "{why}");
            assert_eq!(summary.of(Fate::Quarantined), 1, "{why}");
            assert_eq!(world.sink.applied("a"), 1, "{why}");
            let record = world.record("a").await.expect("a record");
            assert_eq!(record.attempts, 1, "{why}");
            assert!(plan.calls(method) >= 2, "{why}");
            assert_eq!(plan.batches(method), plan.calls(method) - 1, "{why}");
            assert!(world.clock.elapsed() < SECOND * 15, "{why}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_for_load_is_obeyed_and_not_away() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    let throttled = Fault::Throttled(SECOND * 7);
    worker.plan.outage(Method::Claim, MINUTE, throttled);
    let plan = worker.plan.clone();
    let effect = Scripted::new(&world, &worker.crash, []);
    worker.each(effect, PARK).await.summary();

    let is_opened = |seen: &Seen| matches!(seen, Seen::BreakerOpened(_));
    assert_eq!(world.watch.count(is_opened), 0);
    assert!((7..=10).contains(&plan.calls(Method::Claim)));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_refused_for_load_is_held_back_as_long_as_the_store_wishes() {
    let world = World::new();
    let broker = broker_with_many(&world, 5);
    let worker = world.worker(&broker);
    let throttled = Fault::ThrottledItems(SECOND * 50);
    worker.plan.nth(Method::Claim, 1, throttled);
    let effect = Scripted::new(&world, &worker.crash, []);
    worker.each(effect, PARK).await.summary();

    assert!(world.clock.elapsed() >= SECOND * 50);
    assert_eq!(world.watch.times(&Seen::StoreFailed), 5, "told once each");
}

#[tokio::test(start_paused = true)]
async fn through_an_outage_the_source_is_held_back_and_kept_informed() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 1_000);
        let mut worker = world.worker(&broker);
        (worker.pipeline.batch, worker.pipeline.concurrency) = (10, 4);
        worker.plan.outage(Method::Claim, MINUTE * 5, Fault::Cut);
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async { worker.by(manner, effect, PARK).await };
        let (run, (most, extended)) = tokio::join!(run, async {
            tokio::time::sleep(MINUTE * 4).await;
            (broker.in_hand(), broker.extended().len())
        });

        assert_eq!(run.summary().of(Fate::Applied), 1_000);
        assert!(most <= 10 * 4 + 10 + 20, "{most} in hand");
        let thirds = 4 * 6;
        assert!(
            (thirds - 2..=thirds + 1).contains(&extended),
            "every third of the lease, {extended} times in four minutes"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_in_an_outage_ends_with_its_patience() {
    let world = World::new();
    let broker = broker_with_many(&world, 5);
    let mut worker = world.worker(&broker);
    worker.patience = SECOND * 20;
    worker.plan.outage(Method::Claim, MINUTE * 60, Fault::Full);
    let stop = worker.stop.clone();
    let effect = Scripted::new(&world, &worker.crash, []);
    let (run, ()) = tokio::join!(worker.each(effect, PARK), stop.after(MINUTE));

    assert_eq!(run.error().code(), Code::StoreFull);
    assert_eq!(broker.acknowledged(), 0);
    let ended = world.clock.elapsed();
    assert!(ended <= MINUTE + SECOND * 35, "{ended:?}");
}
