//! Draining: running messages finish or are given back, waiting ones are left to other workers.

use std::time::Duration;

use semel_core::{ErrorKind, StateKind};
use semel_engine::effect::{BatchEffect, Call, Class, Verdict};
use semel_engine::summary::Fate;
use tokio::time::timeout;

use super::{broker_with, broker_with_many, many};
use crate::world::fault::{Fault, Method};
use crate::world::scripted::{Act, Scripted, not_applied};
use crate::world::worker::Manner;
use crate::world::{KEYED, LEASE, PARK, REPEAT, World};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn what_runs_finishes_and_the_rest_is_left_to_the_next_worker() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let mut worker = world.worker(&broker);
    worker.pipeline.concurrency = 4;
    let stop = worker.stop.clone();
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND, Duration::ZERO));
    let stopping = stop.after(SECOND * 3 / 2);
    let (run, ()) = tokio::join!(worker.each(effect, PARK), stopping);

    let summary = run.summary();
    assert_eq!(summary.of(Fate::Applied), 8, "two rounds of four");
    assert!(summary.of(Fate::Released) > 0);
    assert_eq!(summary.deliveries(), 8 + summary.of(Fate::Released));
    assert!(
        summary.elapsed <= SECOND * 2 + SECOND / 10,
        "{:?}",
        summary.elapsed
    );
    assert_eq!(
        world.sink.spans().len(),
        8,
        "nothing begins after the request"
    );
    assert_eq!(broker.unacknowledged(), 92);
    assert!(broker.requeued() > 0, "and given back at once");

    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let rest = worker.each(effect, PARK).await.summary();
    assert_eq!(rest.of(Fate::Applied), 92);
    for key in many(100) {
        assert_eq!(world.sink.applied(&key), 1, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn out_of_patience_the_class_decides() {
    let in_doubt = (Fate::InDoubt, StateKind::InDoubt, 0);
    let released = (Fate::Released, StateKind::Released, 1);
    for (class, (fate, state, left)) in [
        (PARK, in_doubt),
        (KEYED, released),
        (REPEAT, released),
        (Class::Transactional, released),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.patience = SECOND * 5;
        let stop = worker.stop.clone();
        let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND * 60, SECOND));
        let (run, ()) = tokio::join!(worker.each(effect, class), stop.after(SECOND));

        let summary = run.summary();
        assert_eq!(summary.of(fate), 1, "{class:?}: {summary:?}");
        assert!(
            summary.elapsed < SECOND * 7,
            "{class:?}: {:?}",
            summary.elapsed
        );
        assert_eq!(world.state("a").await, Some(state), "{class:?}");
        assert_eq!(broker.unacknowledged(), left, "{class:?}");
        assert_eq!(
            world.sink.applied("a"),
            0,
            "{class:?}: the call was dropped"
        );
        assert_eq!(world.parked().await.len(), 1 - left, "{class:?}");
        if left == 1 {
            let attempts = world.record("a").await.map(|record| record.attempts);
            assert_eq!(
                attempts,
                Some(0),
                "{class:?}: giving back is no failed attempt"
            );
            let worker = world.worker(&broker);
            let effect = Scripted::new(&world, &worker.crash, []);
            let summary = worker.each(effect, class).await.summary();
            assert_eq!(summary.of(Fate::Applied), 1, "{class:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_recalled_finishes_what_runs_and_gives_back_the_rest() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 20);
        let mut worker = world.worker(&broker);
        (worker.pipeline.concurrency, worker.pipeline.batch) = (2, 2);
        worker.patience = SECOND * 5;
        let recall = worker.recall.clone();
        let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND * 60, SECOND));
        let (run, ()) = tokio::join!(worker.by(manner, effect, PARK), recall.after(SECOND));

        let summary = run.summary();
        let applied = summary.of(Fate::Applied);
        assert!(summary.elapsed >= SECOND * 60, "{manner:?}: {summary:?}");
        assert!(applied > 0, "{manner:?}: {summary:?}");
        assert_eq!(summary.of(Fate::InDoubt), 0, "{manner:?}: {summary:?}");
        let released = summary.of(Fate::Released);
        assert_eq!(summary.deliveries(), applied + released, "{manner:?}");
        assert_eq!(world.sink.spans().len() as u64, applied, "{manner:?}");
        assert_eq!(broker.unacknowledged() as u64, 20 - applied, "{manner:?}");

        let worker = world.worker(&broker);
        let effect = Scripted::new(&world, &worker.crash, []);
        worker.by(manner, effect, PARK).await.summary();
        for key in many(20) {
            assert_eq!(world.sink.applied(&key), 1, "{manner:?}: {key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_a_run_that_is_recalled_its_limit() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.patience = SECOND * 5;
        let (stop, recall) = (worker.stop.clone(), worker.recall.clone());
        let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND * 600, SECOND));
        let asked = async {
            recall.after(SECOND).await;
            stop.after(SECOND * 30).await;
        };
        let (run, ()) = tokio::join!(worker.by(manner, effect, PARK), asked);

        let summary = run.summary();
        assert_eq!(summary.of(Fate::InDoubt), 1, "{manner:?}: {summary:?}");
        let elapsed = summary.elapsed;
        assert!(
            elapsed >= SECOND * 36 && elapsed < SECOND * 38,
            "{manner:?}: {elapsed:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_recalled_does_not_wait_for_a_retry() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    let recall = worker.recall.clone();
    let refused = Verdict::NotApplied {
        error: "refused".into(),
        retry_after: Some(SECOND * 3_600),
    };
    let effect = Scripted::always(&world, &worker.crash, Act::Say(refused));
    let (run, ()) = tokio::join!(worker.each(effect, PARK), recall.after(SECOND));

    let summary = run.summary();
    assert_eq!(summary.of(Fate::Released), 1, "{summary:?}");
    assert!(summary.elapsed < SECOND * 2, "{summary:?}");
    assert_eq!(broker.unacknowledged(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_takes_nothing_any_more_does_not_hold_up_the_end() {
    let park = (PARK, Fate::InDoubt, StateKind::InDoubt);
    let repeat = (REPEAT, Fate::Released, StateKind::Released);
    for (manner, (class, fate, state)) in [
        (Manner::Stream, park),
        (Manner::Stream, repeat),
        (Manner::Bulk, park),
        (Manner::Bulk, repeat),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.patience = SECOND * 5;
        let stop = worker.stop.clone();
        let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND * 3_600, SECOND));
        let (run, ()) = tokio::join!(worker.by(manner, effect, class), stop.after(SECOND));

        let summary = run.summary();
        assert_eq!(summary.of(fate), 1, "{class:?}: {summary:?}");
        assert!(
            summary.elapsed < SECOND * 7,
            "{class:?}: {:?}",
            summary.elapsed
        );
        let record = world.record("a").await.expect("a record");
        assert_eq!(record.state.kind(), state, "{class:?}");
        assert_eq!(record.attempts, 0, "{class:?}: no failed attempt");
    }
}

#[tokio::test(start_paused = true)]
async fn unlimited_patience_waits_for_what_runs() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = world.worker(&broker);
    worker.patience = Duration::MAX;
    let stop = worker.stop.clone();
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND * 600, SECOND));
    let (run, ()) = tokio::join!(worker.each(effect, PARK), stop.after(SECOND));
    assert_eq!(run.summary().of(Fate::Applied), 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_stops_at_once() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.feed.stays_open = true;
        let stop = worker.stop.clone();
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async { worker.by(manner, effect, REPEAT).await };
        let (run, ()) = tokio::join!(run, stop.after(SECOND * 60));
        let summary = run.summary();
        assert_eq!(summary.of(Fate::Applied), 1);
        assert!(
            summary.elapsed <= SECOND * 60 + SECOND / 10,
            "{:?}",
            summary.elapsed
        );
    }
}

/// A request comes from another thread, between any two steps of the run.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_run_whichever_step_it_meets() {
    for manner in Manner::ALL {
        for recalled in [false, true] {
            let mut played = 0;
            while meets(manner, recalled, played + 1).await {
                played += 1;
            }
            assert!(played > 5, "{manner:?}: {played}");
        }
    }
}

/// Plays a run whose messages are done, and which is asked to stop, or recalled, at a look at its clock. Tells whether
/// there were so many.
async fn meets(manner: Manner, recalled: bool, at_look: u64) -> bool {
    let why = format!("{manner:?}, recalled: {recalled}, {at_look}");
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = world.worker(&broker);
    worker.feed.stays_open = true;
    let (stop, recall) = (worker.stop.clone(), worker.recall.clone());
    let request = if recalled { recall } else { stop.clone() };
    let clock = worker.meets(request, at_look);
    let effect = Scripted::new(&world, &worker.crash, []);
    let run = async {
        let run = timeout(SECOND * 3_600, worker.by(manner, effect, REPEAT)).await;
        run.expect(&why).summary();
        world.clock.elapsed()
    };
    let (ended_at, ()) = tokio::join!(run, stop.after(SECOND * 60));
    let Some(asked_at) = clock.asked_at().filter(|at| *at < SECOND * 60) else {
        return false;
    };
    let took = ended_at.saturating_sub(asked_at);
    assert!(took <= SECOND / 100, "{why}: {took:?}");
    true
}

/// The time of a stop is counted from the step that it meets.
#[tokio::test(start_paused = true)]
async fn what_runs_has_its_patience_whichever_step_a_stop_meets() {
    for manner in Manner::ALL {
        let mut at_look = 1;
        while has_patience(manner, at_look).await {
            at_look += 1;
        }
        assert!(at_look > 5, "{manner:?}: {at_look}");
    }
}

/// Plays a run whose effect has no end, and which is asked to stop at a look at its clock. Tells whether there were so many
/// in the first minute.
async fn has_patience(manner: Manner, at_look: u64) -> bool {
    let why = format!("{manner:?}, {at_look}");
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = world.worker(&broker);
    worker.feed.stays_open = true;
    worker.patience = SECOND * 3;
    let stop = worker.stop.clone();
    let clock = worker.meets(stop.clone(), at_look);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND * 3_600, SECOND));
    let run = async {
        let run = timeout(SECOND * 7_200, worker.by(manner, effect, REPEAT)).await;
        run.expect(&why);
        world.clock.elapsed()
    };
    let (ended_at, ()) = tokio::join!(run, stop.after(SECOND * 60));
    let Some(asked_at) = clock.asked_at().filter(|at| *at < SECOND * 60) else {
        return false;
    };
    let took = ended_at.saturating_sub(asked_at);
    assert!(took <= SECOND * 3 + SECOND / 100, "{why}: {took:?}");
    true
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_is_due_later_does_not_hold_up_the_end() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    let stop = worker.stop.clone();
    let later = Verdict::NotApplied {
        error: "503".into(),
        retry_after: Some(SECOND * 3_600),
    };
    let effect = Scripted::always(&world, &worker.crash, Act::Say(later));
    let (run, ()) = tokio::join!(worker.each(effect, PARK), stop.after(SECOND * 2));
    let summary = run.summary();
    assert_eq!(summary.of(Fate::Released), 1);
    assert!(summary.elapsed < SECOND * 3, "{:?}", summary.elapsed);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_came_too_late_to_begin_is_given_back_at_the_end() {
    for is_stream in [false, true] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let worker = world.worker(&broker);
        let late = LEASE * 5 / 6;
        worker.plan.nth(Method::Claim, 1, Fault::DelayAfter(late));
        let stop = worker.stop.clone();
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async {
            if is_stream {
                worker.stream(effect, PARK).await
            } else {
                worker.each(effect, PARK).await
            }
        };
        let (run, ()) = tokio::join!(run, stop.after(late / 2));

        assert_eq!(run.summary().of(Fate::Released), 1, "stream: {is_stream}");
        assert_eq!(world.sink.spans().len(), 0, "stream: {is_stream}");
        let record = world.record("a").await.expect("a record");
        assert_eq!(record.state.kind(), StateKind::Released, "no doubt of it");
        assert_eq!(record.attempts, 0, "and no attempt: {is_stream}");
        assert_eq!(broker.unacknowledged(), 1);

        let next = world.worker(&broker);
        let effect = Scripted::new(&world, &next.crash, []);
        let summary = next.each(effect, PARK).await.summary();
        assert_eq!((summary.of(Fate::Applied), summary.takeovers), (1, 0));
    }
}

/// Finds out at the end that its effect could not begin.
struct Hesitant;

impl BatchEffect for Hesitant {
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        tokio::time::sleep(SECOND * 60).await;
        vec![not_applied(); batch.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_stream_could_not_begin_by_the_end_costs_no_attempt() {
    for (is_stopped, attempts) in [(true, 0), (false, 1)] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = world.worker(&broker);
        worker.patience = SECOND * 60;
        worker.pipeline.backoff.first = SECOND * 60;
        let wait = if is_stopped { SECOND * 59 } else { SECOND * 61 };
        let stop = worker.stop.clone();
        let (run, ()) = tokio::join!(worker.batches(Hesitant, PARK), stop.after(wait));

        assert_eq!(run.summary().of(Fate::Released), 1);
        let record = world.record("a").await.expect("a record");
        assert_eq!(record.state.kind(), StateKind::Released);
        assert_eq!(record.attempts, attempts, "stopped: {is_stopped}");
        let told = broker.extended().len();
        assert!(
            told >= 4,
            "through a long batch the source hears of it, not {told} times"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_ends_the_drain_with_its_error_and_loses_nothing() {
    let world = World::new();
    let broker = broker_with_many(&world, 3);
    let mut worker = world.worker(&broker);
    worker.patience = SECOND * 10;
    worker
        .plan
        .outage(Method::Settle, SECOND * 100_000, Fault::Cut);
    let stop = worker.stop.clone();
    let effect = Scripted::new(&world, &worker.crash, []);
    let (run, ()) = tokio::join!(worker.each(effect, KEYED), stop.after(SECOND));

    assert_eq!(run.error().kind(), ErrorKind::Unavailable);
    assert!(
        world.clock.elapsed() < SECOND * 25,
        "{:?}",
        world.clock.elapsed()
    );
    assert_eq!(broker.unacknowledged(), 3);
    assert_eq!(world.sink.spans().len(), 3, "no effect ran twice");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_worker_stops_between_batches() {
    let world = World::new();
    let broker = broker_with_many(&world, 64);
    let mut worker = world.worker(&broker);
    worker
        .plan
        .nth(Method::Apply, 2, Fault::DelayBefore(SECOND));
    worker.feed.stays_open = true;
    let stop = worker.stop.clone();
    let (run, ()) = tokio::join!(worker.transaction(), stop.after(SECOND / 2));
    let summary = run.summary();
    assert_eq!(
        summary.of(Fate::Applied),
        32,
        "the batch under way is finished"
    );
    assert_eq!(broker.unacknowledged(), 32);
}
