//! Pipelines that fail open: the messages that run without a claim while the store is away, and those
//! that do not.

use std::time::Duration;

use semel_core::{ErrorKind, StateKind};
use semel_engine::effect::Verdict;
use semel_engine::pipeline::Fail;
use semel_engine::summary::{Fate, Summary};

use super::{broker_with, broker_with_many, many};
use crate::world::broker::{Broker, OnAcknowledge};
use crate::world::fault::{Fault, Method};
use crate::world::file::{Disk, MemoryFile};
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted, maybe_applied, not_applied};
use crate::world::watch::Seen;
use crate::world::worker::{Manner, Run, Worker};
use crate::world::{KEYED, LEASE, PARK, PROVIDER_WINDOW, REPEAT, World};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// The time by which a breaker has opened that met its first failure at once.
const OPENED: Duration = Duration::from_secs(6);

/// A worker at `broker` that fails open.
fn open(world: &World, broker: &Broker) -> Worker {
    broker.accept_unprotected();
    let mut worker = world.worker(broker);
    worker.outage.fail = Fail::Open;
    worker
}

fn fates(summary: &Summary) -> (u64, u64) {
    (summary.of(Fate::Applied), summary.of(Fate::Unprotected))
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_effects_run_unprotected_and_are_counted_apart() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 30);
        let worker = open(&world, &broker);
        worker.plan.away(Duration::ZERO, MINUTE, Fault::Full);
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async { worker.by(manner, effect, REPEAT).await };
        let (run, done) = tokio::join!(run, async {
            tokio::time::sleep(OPENED).await;
            broker.acknowledged()
        });

        let summary = run.summary();
        assert_eq!(done, 30, "nobody waits for the store");
        assert_eq!(fates(&summary), (0, 30));
        assert_eq!(summary.unprotected_calls, 30);
        assert_eq!(summary.deliveries(), 30);
        for key in many(30) {
            let arrivals = world.sink.arrivals(&key);
            assert_eq!(arrivals.len(), 1, "{key}");
            assert_eq!(arrivals[0].token, 0, "no claim, no token");
            assert_eq!(world.state(&key).await, None, "nothing is recorded");
            let attempt = 1;
            assert_eq!(world.watch.times(&Seen::Unprotected { key, attempt }), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_unprotected_before_the_breaker_is_open() {
    let world = World::new();
    let broker = broker_with_many(&world, 30);
    let worker = open(&world, &broker);
    worker.plan.away(Duration::ZERO, SECOND, Fault::Full);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, REPEAT).await.summary();
    assert_eq!(fates(&summary), (30, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_claim_may_have_been_granted_waits_for_its_claim() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 40);
        let mut worker = open(&world, &broker);
        (worker.pipeline.batch, worker.pipeline.concurrency) = (8, 8);
        worker.plan.away(Duration::ZERO, MINUTE, Fault::LoseAnswer);
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = async { worker.by(manner, effect, REPEAT).await };
        let (run, before) = tokio::join!(run, async {
            tokio::time::sleep(SECOND * 59).await;
            world.sink.all().len()
        });

        let summary = run.summary();
        // In bulk, the store is asked about another batch while it works on one.
        let claimed = if manner == Manner::Bulk { 16 } else { 8 };
        let fates = fates(&summary);
        assert_eq!(fates, (claimed, 40 - claimed), "what was claimed first");
        assert_eq!(before as u64, 40 - claimed, "waited");
        for key in many(40) {
            assert_eq!(world.sink.applied(&key), 1, "{key}: one or the other");
        }
        assert_eq!(
            world.in_state(StateKind::Completed).await.len() as u64,
            claimed
        );
        assert!(world.in_state(StateKind::Started).await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_may_have_claimed_costs_one_message_its_turn_and_no_more() {
    let world = World::new();
    let broker = broker_with_many(&world, 400);
    let mut worker = open(&world, &broker);
    (worker.pipeline.batch, worker.pipeline.concurrency) = (4, 4);
    // The first claims are surely not applied; only later ones may be.
    worker.plan.away(Duration::ZERO, OPENED, Fault::Full);
    worker.plan.away(OPENED, MINUTE, Fault::LoseAnswer);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(SECOND / 2, Duration::ZERO));
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(fates(&summary), (1, 399));
    assert_eq!(summary.unprotected_calls, 399);
}

#[tokio::test(start_paused = true)]
async fn what_was_claimed_before_waits_for_its_next_claim() {
    for verdict in [not_applied(), maybe_applied()] {
        for manner in Manner::ALL {
            let world = World::new();
            let broker = broker_with(&world, &["a"]);
            let mut worker = open(&world, &broker);
            worker.pipeline.backoff.first = OPENED;
            worker.plan.away(SECOND, MINUTE * 5, Fault::Full);
            let effect = Scripted::new(&world, &worker.crash, [Act::Say(verdict.clone())]);
            let summary = worker.by(manner, effect, REPEAT).await.summary();
            assert_eq!(fates(&summary), (1, 0), "{verdict:?}");
            assert_eq!(summary.unprotected_calls, 0, "{verdict:?}");
            let record = world.record("a").await.expect("a record");
            assert_eq!(record.attempts, 2, "{verdict:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_whose_claim_may_have_been_granted_waits_like_a_batch() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 8);
        let worker = open(&world, &broker);
        worker.plan.nth(Method::Claim, 1, Fault::SomeItems);
        // The worker cannot know whether half of the first batch is granted; then the store is away.
        worker
            .plan
            .away(Duration::from_millis(1), MINUTE, Fault::Full);
        let act = Act::Slow(SECOND, Duration::ZERO);
        let effect = Scripted::always(&world, &worker.crash, act);
        let summary = worker.by(manner, effect, REPEAT).await.summary();
        assert_eq!(fates(&summary), (8, 0));
        for key in many(8) {
            assert_eq!(world.sink.applied(&key), 1, "{key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_ended_under_its_claim_is_acknowledged_when_the_store_has_taken_it() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 30);
        let mut worker = open(&world, &broker);
        (worker.pipeline.batch, worker.pipeline.concurrency) = (4, 4);
        worker.plan.away(SECOND, MINUTE * 5, Fault::Full);
        let plan = worker.plan.clone();
        let act = Act::Slow(SECOND * 2, Duration::ZERO);
        let effect = Scripted::always(&world, &worker.crash, act);
        let run = async { worker.by(manner, effect, REPEAT).await };
        let (run, (settled, before)) = tokio::join!(run, async {
            tokio::time::sleep(MINUTE * 4).await;
            let mut settled = 0;
            for key in &many(4) {
                settled += usize::from(world.state(key).await == Some(StateKind::Completed));
            }
            (settled, broker.acknowledged())
        });

        let summary = run.summary();
        let protected = if manner == Manner::Stream { 1 } else { 4 };
        assert_eq!(settled, 0);
        assert!(before <= 30 - protected, "{before} acknowledged");
        assert!(summary.of(Fate::Applied) >= protected as u64);
        assert!(summary.of(Fate::Unprotected) > 0, "the others went on");
        let (batches, calls) = (plan.batches(Method::Settle), plan.calls(Method::Settle));
        assert!(batches + 10 < calls, "{batches} in {calls} calls");
        for key in many(30) {
            assert_eq!(world.sink.applied(&key), 1, "{key}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_while_an_effect_runs_is_not_asked_about_it() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = open(&world, &broker);
    worker.plan.away(Duration::ZERO, OPENED, Fault::Full);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(MINUTE, MINUTE));
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(fates(&summary), (0, 1));
    assert_eq!(world.sink.spans().len(), 1);
    assert_eq!(world.state("a").await, None);
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_fails_unprotected_is_not_acknowledged_and_tried_again() {
    for verdict in [not_applied(), maybe_applied()] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let worker = open(&world, &broker);
        worker.plan.away(Duration::ZERO, MINUTE * 10, Fault::Full);
        let acts = [Act::Say(verdict.clone()), Act::Say(verdict.clone())];
        let effect = Scripted::new(&world, &worker.crash, acts);
        let summary = worker.each(effect, REPEAT).await.summary();

        assert_eq!(fates(&summary), (0, 1), "{verdict:?}");
        assert_eq!(summary.unprotected_calls, 3, "{verdict:?}");
        assert_eq!(world.watch.times(&Seen::Released("a".into())), 2);
        assert!(world.clock.elapsed() < MINUTE, "{verdict:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_capped_without_a_store_too_and_then_it_is_waited_for() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = open(&world, &broker);
    worker.pipeline.limits = semel_core::AttemptLimits {
        failed: std::num::NonZeroU32::MIN.saturating_add(2),
        ..worker.pipeline.limits
    };
    worker.plan.away(Duration::ZERO, MINUTE * 10, Fault::Full);
    let acts = vec![Act::Say(not_applied()); 4];
    let effect = Scripted::new(&world, &worker.crash, acts);
    let (run, calls) = tokio::join!(worker.each(effect, REPEAT), async {
        tokio::time::sleep(MINUTE * 9).await;
        world.sink.spans().len()
    });

    let summary = run.summary();
    assert_eq!((calls, summary.unprotected_calls), (3, 3));
    assert_eq!(fates(&summary), (1, 0), "with the store, which counts anew");
    assert_eq!(world.record("a").await.map(|it| it.attempts), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_dead_message_waits_for_the_store_that_keeps_it() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let worker = open(&world, &broker);
    worker.plan.away(Duration::ZERO, MINUTE * 5, Fault::Full);
    let dead = Verdict::Dead {
        decisive: false,
        error: "404".into(),
    };
    let mut acts = vec![Act::Say(dead.clone()), Act::Do];
    acts.push(Act::Say(dead));
    let effect = Scripted::new(&world, &worker.crash, acts);
    let (run, before) = tokio::join!(worker.each(effect, REPEAT), async {
        tokio::time::sleep(MINUTE * 4).await;
        (broker.acknowledged(), world.sink.spans().len())
    });

    let summary = run.summary();
    assert_eq!(before, (1, 2), "one is done, one was called once and waits");
    assert_eq!(summary.of(Fate::Dead), 1);
    assert_eq!(summary.of(Fate::Unprotected), 1);
    assert_eq!(&*world.parked().await[0].reason, "dead");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_happened_before_its_provider_forgot_is_in_doubt() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let mut worker = open(&world, &broker);
    worker.pipeline.backoff.first = PROVIDER_WINDOW;
    worker.pipeline.backoff.most = PROVIDER_WINDOW;
    let end = PROVIDER_WINDOW + MINUTE;
    worker.plan.away(Duration::ZERO, end, Fault::Full);
    let effect = Scripted::new(&world, &worker.crash, [Act::DoAndSay(maybe_applied())]);
    let summary = worker.each(effect, KEYED).await.summary();

    assert_eq!(summary.of(Fate::InDoubt), 1);
    assert_eq!(world.sink.spans().len(), 1, "never called again");
    assert_eq!(world.state("a").await, Some(StateKind::InDoubt));
    assert_eq!(&*world.parked().await[0].reason, "in-doubt");
}

#[tokio::test(start_paused = true)]
async fn messages_without_a_key_and_old_ones_wait_and_hold_nobody_up() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::raw("no key"));
    let old = Message::of("old").born(semel_core::Timestamp::EPOCH);
    broker.publish(old);
    for key in many(20) {
        broker.publish(Message::of(&key));
    }
    let worker = open(&world, &broker);
    worker.plan.away(Duration::ZERO, MINUTE * 5, Fault::Full);
    let effect = Scripted::new(&world, &worker.crash, []);
    let (run, before) = tokio::join!(worker.each(effect, REPEAT), async {
        tokio::time::sleep(MINUTE * 4).await;
        broker.acknowledged()
    });

    let summary = run.summary();
    assert_eq!(before, 20);
    assert_eq!(fates(&summary), (0, 20));
    assert_eq!(summary.of(Fate::Quarantined), 1);
    assert_eq!(summary.of(Fate::TooOld), 1);
    assert_eq!(world.sink.applied("old"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_promise_that_rests_on_the_record_cannot_fail_open() {
    let world = World::new();
    let refused = |run: Run| {
        let error = run.error();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("needs a store"), "{error}");
    };
    let broker = broker_with(&world, &["a"]);
    let effect = |worker: &Worker| Scripted::new(&world, &worker.crash, []);

    let worker = open(&world, &broker);
    let parked = effect(&worker);
    refused(worker.each(parked, PARK).await);
    let worker = open(&world, &broker);
    let parked = effect(&worker);
    refused(worker.stream(parked, PARK).await);
    refused(open(&world, &broker).transaction().await);
    let worker = open(&world, &broker);
    let file = MemoryFile {
        name: "first",
        disk: Disk::default(),
        crash: worker.crash.clone(),
        acts: Vec::new().into(),
    };
    refused(worker.output(file).await);
    let mut worker = open(&world, &broker);
    let entity = "json:/entity".parse().expect("a selector");
    worker.pipeline.gate = Some((entity, "json:/version".parse().expect("a selector")));
    let gated = effect(&worker);
    refused(worker.each(gated, REPEAT).await);
    assert_eq!(world.sink.spans().len(), 0);
    assert_eq!(broker.acknowledged(), 0);
}

/// A crash at each step of an unprotected attempt: the message comes again, and is never lost.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_step_of_an_unprotected_attempt_loses_nothing() {
    let crashes: [(&str, Option<Act>, usize); 5] = [
        ("before the effect", Some(Act::DieBefore), 1),
        ("in flight", Some(Act::DieInFlight(SECOND)), 2),
        ("applied, not known", Some(Act::DieApplied), 2),
        ("applied and known", Some(Act::DieKnowing), 2),
        ("before the acknowledgement", None, 2),
    ];
    for (step, act, effects) in crashes {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut worker = open(&world, &broker);
        worker.plan.away(Duration::ZERO, MINUTE, Fault::Full);
        if act.is_none() {
            worker.feed.on_acknowledge = Some(OnAcknowledge::Crash);
        }
        let effect = Scripted::new(&world, &worker.crash, act);
        let run = worker.each(effect, REPEAT).await;
        assert!(matches!(run, Run::Crashed), "{step}");
        assert_eq!(broker.unacknowledged(), 1, "{step}");

        tokio::time::sleep(MINUTE * 2).await;
        let worker = open(&world, &broker);
        let effect = Scripted::new(&world, &worker.crash, []);
        let summary = worker.each(effect, REPEAT).await.summary();
        assert_eq!(fates(&summary), (1, 0), "{step}");
        assert_eq!(world.sink.applied("a"), effects, "{step}");
        assert_eq!(world.state("a").await, Some(StateKind::Completed), "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_the_store_is_away_gives_back_what_it_did_not_finish() {
    let world = World::new();
    let broker = broker_with_many(&world, 6);
    let mut worker = open(&world, &broker);
    worker.pipeline.concurrency = 3;
    worker.patience = SECOND * 10;
    worker.plan.away(Duration::ZERO, MINUTE * 60, Fault::Full);
    let stop = worker.stop.clone();
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(MINUTE, SECOND));
    let (run, ()) = tokio::join!(worker.each(effect, REPEAT), stop.after(SECOND * 30));

    let summary = run.summary();
    assert_eq!(summary.of(Fate::Released), 6);
    assert_eq!((broker.acknowledged(), broker.requeued()), (0, 6));
    let ended = world.clock.elapsed();
    assert!(ended <= SECOND * 42, "{ended:?}");
}

/// One worker, no crash, an effect that always says what it did: however often and in whatever way the
/// store goes away and comes back, each effect happens once, and each message meets its fate.
#[tokio::test(start_paused = true)]
async fn through_outages_of_every_kind_a_message_is_protected_or_not_and_never_both() {
    const FAULTS: [Fault; 8] = [
        Fault::SomeItems,
        Fault::Cut,
        Fault::LoseAnswer,
        Fault::Full,
        Fault::ReadOnly,
        Fault::Items,
        Fault::Hang,
        Fault::HangAfter,
    ];
    let mut unprotected = 0;
    for seed in 0..60_u32 {
        let manner = Manner::ALL[seed as usize % Manner::ALL.len()];
        let class = if seed % 2 == 0 { REPEAT } else { KEYED };
        let world = World::new();
        let broker = broker_with_many(&world, 300);
        let mut worker = open(&world, &broker);
        worker.outage.answer_within = SECOND * 5;
        (worker.pipeline.batch, worker.pipeline.concurrency) = (16, 8);
        worker.feed.at_most = 8;
        worker.feed.pause = SECOND;
        let mut from = SECOND * (seed % 5);
        for round in 0..6 {
            let fault = FAULTS[(seed as usize * 5 + round * 3) % FAULTS.len()];
            let end = from + SECOND * (3 + seed * 7 % 23);
            worker.plan.away(from, end, fault);
            from = end + SECOND * (1 + seed * 3 % 11);
        }
        let act = Act::Slow(SECOND * (seed % 4), Duration::ZERO);
        let effect = Scripted::always(&world, &worker.crash, act);
        let run = worker.by(manner, effect, class).await;
        let summary = run.summary();
        let (applied, without) = fates(&summary);
        assert_eq!(applied + without, 300, "seed {seed}: {summary:?}");
        for key in many(300) {
            assert_eq!(world.sink.arrivals(&key).len(), 1, "seed {seed}: {key}");
        }
        let started = world.in_state(StateKind::Started).await;
        assert!(started.is_empty(), "seed {seed}: {started:?} left behind");
        let completed = world.in_state(StateKind::Completed).await;
        assert_eq!(completed.len() as u64, applied, "seed {seed}");
        unprotected += without;
    }
    assert!(unprotected > 1_000, "{unprotected} unprotected in all");
}

/// The first attempt runs under a claim and outlasts its lease in an outage; its end is the claim's.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_outlasts_the_outage_and_its_lease_is_settled_as_its_own() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = open(&world, &broker);
    worker.plan.away(SECOND, LEASE * 3, Fault::Cut);
    let act = Act::Slow(LEASE * 2, Duration::ZERO);
    let effect = Scripted::always(&world, &worker.crash, act);
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(fates(&summary), (1, 0));
    assert_eq!(world.sink.applied("a"), 1);
    assert_eq!(world.record("a").await.map(|it| it.attempts), Some(1));
}
