//! Doubts: found by a sweep, resolved by a probe, never by a guess.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::decide::{Directive, Order, Verdict};
use semel_core::{Outcome, StateKind, Store};
use semel_engine::effect::Probe;
use semel_engine::summary::Fate;
use semel_engine::sweep::{sweep_once, sweep_until};

use super::{broker_with, broker_with_many};
use crate::world::broker::Broker;
use crate::world::crash::Crash;
use crate::world::fault::{Fault, Method, Plan};
use crate::world::faulty::Faulty;
use crate::world::scripted::{Act, Scripted};
use crate::world::stop::Stop;
use crate::world::watch::Seen;
use crate::world::worker::Run;
use crate::world::{KEYED, LEASE, PARK, PROVIDER_WINDOW, WINDOW, World};

const QUIET: Duration = Duration::from_secs(600);

/// Has a worker die in its call, and the lease run out.
async fn vanish(world: &World, broker: &Broker, act: Act) {
    let worker = world.worker(broker);
    let effect = Scripted::new(world, &worker.crash, [act]);
    worker.each(effect, PARK).await;
    tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_finds_the_effect_completes_the_operation() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    vanish(&world, &broker, Act::DieApplied).await;
    let worker = world.worker(&broker);
    let found = Probe::Applied(Bytes::from_static(b"charge 7"));
    let effect = Scripted::probed(&world, &worker.crash, [], found, QUIET);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Replayed), 1, "{summary:?}");
    assert_eq!(world.sink.applied("a"), 1);
    let outcome = world.record("a").await.and_then(|record| record.outcome);
    assert_eq!(
        outcome,
        Some(Outcome::raw(Bytes::from_static(b"charge 7"), 1_024))
    );
    assert!(
        world.parked().await.is_empty(),
        "nothing is left for a person"
    );
}

/// A claim that waited behind the probe and whose lease nothing extended would be a doubt of its own.
#[tokio::test(start_paused = true)]
async fn a_probe_that_takes_long_leaves_nothing_else_in_doubt() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    vanish(&world, &broker, Act::DieApplied).await;
    broker.publish(crate::world::message::Message::of("b"));
    let worker = world.worker(&broker);
    worker
        .plan
        .nth(Method::Operate, 1, Fault::DelayBefore(LEASE * 2));
    let found = Probe::Applied(Bytes::new());
    let effect = Scripted::probed(&world, &worker.crash, [], found, QUIET);
    let (run, ()) = tokio::join!(worker.each(effect, PARK), async {
        tokio::time::sleep(LEASE + Duration::from_secs(5)).await;
        sweep_once(&world.store)
            .await
            .expect("the memory store sweeps");
    });

    let summary = run.summary();
    assert_eq!(summary.of(Fate::InDoubt), 0, "{summary:?}");
    assert_eq!(world.sink.applied("b"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_finds_nothing_is_believed_only_after_quiescence() {
    for (wait, fate, applied) in [
        (Duration::ZERO, Fate::InDoubt, 0),
        (QUIET + LEASE, Fate::Applied, 1),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        vanish(&world, &broker, Act::DieBefore).await;
        sweep_once(&world.store)
            .await
            .expect("the memory store sweeps");
        tokio::time::sleep(wait).await;
        let worker = world.worker(&broker);
        let effect = Scripted::probed(&world, &worker.crash, [], Probe::NotApplied, QUIET);
        let summary = worker.each(effect, PARK).await.summary();

        assert_eq!(summary.of(fate), 1, "after {wait:?}: {summary:?}");
        assert_eq!(world.sink.applied("a"), applied, "after {wait:?}");
    }
}

/// The probe looks while the first worker's call is still under way; by the time that the store takes the
/// verdict, the doubt is quiet and the call has landed. Found by the simulation.
#[tokio::test(start_paused = true)]
async fn what_a_probe_found_before_it_was_quiet_is_not_believed_later() {
    for fault in [Fault::Cut, Fault::LoseAnswer, Fault::DelayBefore(QUIET * 2)] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        vanish(&world, &broker, Act::DieInFlight(QUIET / 2)).await;
        sweep_once(&world.store)
            .await
            .expect("the memory store sweeps");
        let worker = world.worker(&broker);
        match fault {
            Fault::DelayBefore(_) => worker.plan.nth(Method::Operate, 1, fault),
            fault => worker.plan.outage(Method::Operate, QUIET * 3, fault),
        };
        let effect = Scripted::probed(&world, &worker.crash, [], Probe::NotApplied, QUIET);
        let summary = worker.each(effect, PARK).await.summary();

        assert_eq!(summary.of(Fate::InDoubt), 1, "{fault:?}: {summary:?}");
        assert_eq!(world.sink.applied("a"), 1, "{fault:?}");
    }
}

/// The delivery that led to the probe is not acknowledged: it comes again, whatever happened to the
/// verdict.
#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_at_its_verdict_leaves_the_key_to_the_next() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        vanish(&world, &broker, Act::DieBefore).await;
        sweep_once(&world.store)
            .await
            .expect("the memory store sweeps");
        tokio::time::sleep(QUIET * 2).await;
        let dies = world.worker(&broker);
        dies.plan.nth(Method::Operate, 1, fault);
        let effect = Scripted::probed(&world, &dies.crash, [], Probe::NotApplied, QUIET);
        let run = dies.each(effect, PARK).await;
        assert!(matches!(run, Run::Crashed), "{fault:?}");
        assert_eq!(broker.unacknowledged(), 1, "{fault:?}");

        let next = world.worker(&broker);
        let effect = Scripted::probed(&world, &next.crash, [], Probe::NotApplied, QUIET);
        let summary = next.each(effect, PARK).await.summary();
        assert_eq!(summary.of(Fate::Applied), 1, "{fault:?}: {summary:?}");
        assert_eq!(world.sink.applied("a"), 1, "{fault:?}");
        assert!(world.parked().await.is_empty(), "{fault:?}");
    }
}

/// By then the delivery was set aside: only the kept message is left of it, and it stays.
#[tokio::test(start_paused = true)]
async fn a_verdict_that_arrives_after_its_message_was_set_aside_leaves_it_listed() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    vanish(&world, &broker, Act::DieBefore).await;
    sweep_once(&world.store)
        .await
        .expect("the memory store sweeps");
    tokio::time::sleep(QUIET * 2).await;
    let blind = world.worker(&broker);
    let effect = Scripted::new(&world, &blind.crash, []);
    let summary = blind.each(effect, PARK).await.summary();
    assert_eq!(summary.of(Fate::InDoubt), 1, "{summary:?}");

    let verdict = Verdict::NotApplied {
        quiet: QUIET,
        asked: None,
    };
    let directive = Directive {
        operation: world.operation("a"),
        order: Order::Resolve(verdict),
        note: None,
    };
    let directed = world.store.operate([directive].into()).await;
    assert!(directed.is_ok(), "{directed:?}");
    assert_eq!(world.state("a").await, Some(StateKind::Released));
    assert_eq!(
        world.parked().await.len(),
        1,
        "listed, and fit for a replay"
    );

    let next = world.worker(&copy);
    let effect = Scripted::new(&world, &next.crash, []);
    let summary = next.each(effect, PARK).await.summary();
    assert_eq!(summary.of(Fate::Applied), 1, "any duplicate runs it");
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_verdict_cannot_be_kept_leaves_the_doubt_listed() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    vanish(&world, &broker, Act::DieApplied).await;
    let worker = world.worker(&broker);
    worker.plan.nth(Method::Operate, 1, Fault::Items);
    let found = Probe::Applied(Bytes::new());
    let effect = Scripted::probed(&world, &worker.crash, [], found, QUIET);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::InDoubt), 1);
    assert_eq!(world.in_state(StateKind::InDoubt).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn past_the_providers_window_nothing_is_called_any_more() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, [Act::DieApplied]);
    worker.each(effect, KEYED).await;
    tokio::time::sleep(PROVIDER_WINDOW + LEASE).await;
    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, KEYED).await.summary();

    assert_eq!(summary.of(Fate::InDoubt), 1);
    assert_eq!(world.sink.spans().len(), 1);
    assert_eq!(&*world.parked().await[0].reason, "in-doubt");
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_ends_in_doubt() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    for run in 1.. {
        assert!(run < 10, "the loop has no end");
        let mut worker = world.worker(&broker);
        worker.pipeline.limits.vanished = std::num::NonZeroU32::new(3).expect("three");
        let effect = Scripted::always(&world, &worker.crash, Act::DieBefore);
        worker.each(effect, crate::world::REPEAT).await;
        if broker.unacknowledged() == 0 {
            break;
        }
    }
    assert_eq!(world.sink.spans().len(), 3, "three workers died of it");
    assert_eq!(world.state("a").await, Some(StateKind::InDoubt));
    assert_eq!(world.parked().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_brings_a_vanished_park_to_light_without_another_delivery() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    vanish(&world, &broker, Act::DieApplied).await;
    assert_eq!(
        world.in_state(StateKind::InDoubt).await,
        Vec::<String>::new()
    );
    let swept = sweep_once(&world.store)
        .await
        .expect("the memory store sweeps");

    assert_eq!(swept, (0, 1));
    assert_eq!(world.in_state(StateKind::InDoubt).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn sweeping_beside_the_work_removes_what_is_past_its_window_until_it_is_stopped() {
    let world = World::new();
    let broker = broker_with_many(&world, 2_500);
    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    worker.each(effect, PARK).await.summary();
    let stop = Stop::new();
    let plan = Arc::new(Plan::new(Crash::new(), world.clock));
    plan.nth(Method::Sweep, 1, Fault::Cut);
    let store = Faulty::new(Arc::clone(&world.store), &plan);
    let every = Duration::from_secs(60);
    let sweeping = sweep_until(
        store,
        every,
        stop.shutdown(Duration::ZERO),
        world.watch.clone(),
    );
    tokio::join!(sweeping, async {
        tokio::time::sleep(WINDOW.duration() / 2).await;
        assert_eq!(
            world.in_state(StateKind::Completed).await.len(),
            2_500,
            "kept in the window"
        );
        tokio::time::sleep(WINDOW.duration()).await;
        stop.request();
    });

    assert_eq!(world.in_state(StateKind::Completed).await.len(), 0);
    assert_eq!(
        world.watch.times(&Seen::Swept {
            removed: 2_500,
            doubted: 0
        }),
        1
    );
    let calls = plan.calls(Method::Sweep);
    tokio::time::sleep(WINDOW.duration()).await;
    assert_eq!(plan.calls(Method::Sweep), calls, "it has stopped");
}
