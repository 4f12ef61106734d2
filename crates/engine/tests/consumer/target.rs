//! A target that is away or fails, and a handler that is broken: the pipeline pauses, and no message pays for
//! it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use semel_core::{Certainty, Code, StateKind};
use semel_engine::effect::{BatchEffect, BulkEffect, Call, Class, Effect, Verdict};
use semel_engine::event::Pause;
use semel_engine::summary::{Fate, Summary};

use super::{broker_with_many, many};
use crate::world::broker::Broker;
use crate::world::file::{Append, Disk, MemoryFile};
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted};
use crate::world::sink::EffectSink;
use crate::world::tables::Statement;
use crate::world::time::PausedClock;
use crate::world::watch::Seen;
use crate::world::worker::{Manner, Run, Worker};
use crate::world::{KEYED, PARK, REPEAT, World};

const PAUSE_AFTER: usize = 20;

/// An effect that gives this verdict until its time has come, and then happens.
struct Until {
    back_at: Duration,
    says: Verdict,
    /// The call reaches the target meanwhile.
    arrives: bool,
    clock: PausedClock,
    sink: Arc<EffectSink>,
    running: AtomicUsize,
    /// The most calls at once after the first failure.
    most: AtomicUsize,
    failures: AtomicUsize,
    first_done: Mutex<Option<Duration>>,
}

impl Until {
    fn new(world: &World, back_at: Duration, says: Verdict) -> Arc<Self> {
        Arc::new(Self {
            back_at,
            says,
            arrives: false,
            clock: world.clock,
            sink: Arc::clone(&world.sink),
            running: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            failures: AtomicUsize::new(0),
            first_done: Mutex::new(None),
        })
    }

    async fn verdict(&self, call: &Call, step: Duration) -> Verdict {
        let _open = self.sink.begin(call);
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        if self.clock.elapsed() >= Duration::from_secs(1) {
            self.most.fetch_max(running, Ordering::SeqCst);
        }
        tokio::time::sleep(step).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        if self.clock.elapsed() < self.back_at {
            self.failures.fetch_add(1, Ordering::SeqCst);
            if self.arrives {
                self.sink.arrive(call);
            }
            return self.says.clone();
        }
        self.sink.arrive(call);
        let mut first_done = self.first_done.lock().expect("nobody panics");
        first_done.get_or_insert(self.clock.elapsed());
        Verdict::Done(Bytes::new())
    }
}

impl Effect for Until {
    async fn call(&self, call: Call) -> Verdict {
        self.verdict(&call, Duration::from_millis(5)).await
    }
}

/// The same effect for batches.
struct Whole(Arc<Until>);

impl BulkEffect for Whole {
    async fn call(&self, batch: &[Call]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for call in batch {
            verdicts.push(self.0.verdict(call, Duration::ZERO).await);
        }
        verdicts
    }
}

impl BatchEffect for Whole {
    async fn call(&mut self, batch: &[Call]) -> Vec<Verdict> {
        BulkEffect::call(self, batch).await
    }
}

fn away() -> Verdict {
    Verdict::Away {
        error: "cannot reach http://there/: connection refused".into(),
    }
}

fn unauthorised() -> Verdict {
    Verdict::Dead {
        error: "HTTP 401 from http://there/: the token has expired".into(),
        decisive: false,
    }
}

fn worker(world: &World, broker: &Broker) -> Worker {
    let mut worker = world.worker(broker);
    worker.pipeline.pause_after = PAUSE_AFTER;
    worker.pipeline.concurrency = 32;
    worker.pipeline.batch = 64;
    worker
}

async fn by(worker: Worker, manner: Manner, effect: &Arc<Until>, class: Class) -> Run {
    match manner {
        Manner::Each => worker.effect(Arc::clone(effect), class).await,
        Manner::Stream => worker.batches(Whole(Arc::clone(effect)), class).await,
        Manner::Bulk => worker.bulk(Whole(Arc::clone(effect)), class).await,
    }
}

/// Returns the length of the pause, and asserts that it was emitted once, and its end once.
#[track_caller]
fn lasted(world: &World, cause: Pause) -> Duration {
    assert_eq!(world.watch.times(&Seen::Paused(cause)), 1, "told once");
    let mut ends = world.watch.all().into_iter().filter_map(|seen| match seen {
        Seen::Resumed(its, lasted) => Some((its, lasted)),
        _ => None,
    });
    let (its, lasted) = ends.next().expect("its end is told");
    assert_eq!((its, ends.next()), (cause, None), "and once");
    lasted
}

/// The target is away for five minutes.
#[tokio::test(start_paused = true)]
async fn a_target_that_is_away_costs_no_attempt_and_makes_no_dead_letter() {
    let back_at = Duration::from_secs(300);
    for manner in Manner::ALL {
        for class in [KEYED, PARK, REPEAT] {
            let world = World::new();
            let broker = broker_with_many(&world, 200);
            let effect = Until::new(&world, back_at, away());
            let run = by(worker(&world, &broker), manner, &effect, class).await;

            let summary = run.summary();
            assert_eq!(summary.of(Fate::Applied), 200, "{manner:?} {class:?}");
            for key in many(200) {
                assert_eq!(world.sink.applied(&key), 1, "{manner:?} {class:?} {key}");
                let record = world.record(&key).await.expect("a record");
                assert_eq!(record.attempts, 1, "{manner:?} {class:?} {key}");
            }
            assert_eq!(broker.unacknowledged(), 0);
            let lasted = lasted(&world, Pause::TargetAway);
            let first = *effect.first_done.lock().expect("nobody panics");
            let idle = first.expect("it worked").saturating_sub(back_at);
            assert!(idle <= Duration::from_millis(850), "idle for {idle:?}");
            assert!(
                lasted.abs_diff(back_at + idle) < Duration::from_secs(1),
                "{lasted:?}"
            );
            // At most one at a time, and some three hundred of them.
            let failures = effect.failures.load(Ordering::SeqCst);
            assert!(
                (250..900).contains(&failures),
                "{manner:?}: {failures} tries"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_message_at_a_time_tries_a_target_that_is_away() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let effect = Until::new(&world, Duration::from_secs(60), away());
    let run = tokio::time::timeout(
        Duration::from_secs(50),
        worker(&world, &broker).effect(Arc::clone(&effect), KEYED),
    );
    assert!(run.await.is_err(), "it waits");
    assert_eq!(effect.most.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_sets_aside_as_many_as_it_takes_to_notice() {
    let back_at = Duration::from_secs(100);
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 300);
        let effect = Until::new(&world, back_at, unauthorised());
        let run = by(worker(&world, &broker), manner, &effect, PARK).await;

        let summary = run.summary();
        let fates = (summary.of(Fate::Dead), summary.of(Fate::Applied));
        assert_eq!(fates, (20, 280), "{manner:?}");
        assert_eq!(world.in_state(StateKind::Dead).await.len(), 20);
        assert!(lasted(&world, Pause::TargetFailing) >= back_at / 2);
        // After 1, 2, 4, 8, 16, 24, 24 and 24 seconds, and up to a quarter more each.
        let failures = effect.failures.load(Ordering::SeqCst);
        assert!((24..=29).contains(&failures), "{manner:?}: {failures}");
        assert_eq!(broker.unacknowledged(), 0);
    }
}

/// The target works for a while, with as many in flight as allowed, and then all of them fail.
#[tokio::test(start_paused = true)]
async fn what_is_in_flight_when_the_pause_begins_is_given_back() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let worker = worker(&world, &broker);
    let acts = std::iter::once(Act::Do).chain(std::iter::repeat_n(Act::Say(unauthorised()), 60));
    let effect = Scripted::new(&world, &worker.crash, acts);
    let summary = worker.each(effect, PARK).await.summary();
    let fates = (summary.of(Fate::Dead), summary.of(Fate::Applied));
    assert_eq!(fates, (20, 80));
    for key in world.in_state(StateKind::Completed).await {
        let record = world.record(&key).await.expect("a record");
        assert_eq!(
            record.attempts, 1,
            "{key}: no attempt was counted for the pause"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn doubts_count_as_well_and_what_may_have_happened_is_in_doubt() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let says = Verdict::MaybeApplied {
        error: "no answer from http://there/ within 30s".into(),
    };
    let mut effect = Until::new(&world, Duration::from_secs(60), says);
    Arc::get_mut(&mut effect)
        .expect("nobody else has it")
        .arrives = true;
    let summary = worker(&world, &broker).effect(effect, PARK).await.summary();
    let probes = summary.of(Fate::InDoubt) - 20;
    assert!((5..=8).contains(&probes), "the probes, too: {probes}");
    assert_eq!(summary.of(Fate::Applied), 80 - probes);
    for key in many(100) {
        assert_eq!(world.sink.applied(&key), 1, "{key}");
    }
    lasted(&world, Pause::TargetFailing);
}

/// A target that works, but does not know the objects of the first messages.
struct Gone {
    until: String,
    sink: Arc<EffectSink>,
}

impl Gone {
    async fn verdict(&self, call: &Call) -> Verdict {
        let _open = self.sink.begin(call);
        tokio::time::sleep(Duration::from_millis(5)).await;
        if call.claim.operation.key.as_str() < self.until.as_str() {
            let error = "HTTP 404 from http://there/: no such order".into();
            let decisive = false;
            return Verdict::Dead { error, decisive };
        }
        self.sink.arrive(call);
        Verdict::Done(Bytes::new())
    }
}

impl Effect for Gone {
    async fn call(&self, call: Call) -> Verdict {
        self.verdict(&call).await
    }
}

impl BulkEffect for Gone {
    async fn call(&self, batch: &[Call]) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for call in batch {
            verdicts.push(self.verdict(call).await);
        }
        verdicts
    }
}

/// Twice as many as are in hand fail by their own fault: the ones behind them show that the target works.
#[tokio::test(start_paused = true)]
async fn messages_that_fail_for_their_own_sake_do_not_hold_up_those_behind_them() {
    for manner in [Manner::Each, Manner::Bulk] {
        let world = World::new();
        let broker = broker_with_many(&world, 600);
        let effect = Gone {
            until: "k150".to_owned(),
            sink: Arc::clone(&world.sink),
        };
        let mut worker = worker(&world, &broker);
        worker.pipeline.batch = 32;
        let run = async {
            match manner {
                Manner::Each => worker.effect(Arc::new(effect), PARK).await,
                Manner::Bulk | Manner::Stream => worker.bulk(effect, PARK).await,
            }
        };
        let run = tokio::time::timeout(Duration::from_secs(86_400), run).await;
        let summary = run.expect("it goes on").summary();
        let fates = (summary.of(Fate::Dead), summary.of(Fate::Applied));
        assert_eq!(fates, (150, 450), "{manner:?}");
        // Each pause sets aside as many as it takes to notice, and no more.
        let paused = world.watch.times(&Seen::Paused(Pause::TargetFailing));
        assert!((5..=8).contains(&paused), "{manner:?}: {paused}");
        assert_eq!(broker.unacknowledged(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn switched_off_every_failure_is_the_messages_own() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let mut worker = worker(&world, &broker);
    worker.pipeline.pause_after = 0;
    let effect = Until::new(&world, Duration::from_secs(60), unauthorised());
    let summary = worker.effect(effect, PARK).await.summary();
    assert_eq!(summary.of(Fate::Dead), 100);
}

#[tokio::test(start_paused = true)]
async fn a_broken_handler_kills_nothing_and_what_it_did_not_see_is_not_in_doubt() {
    let back_at = Duration::from_secs(100);
    let says = |certainty| Verdict::Broken {
        error: "the child is gone: exit code 1".into(),
        certainty,
    };
    let certainties = [
        (Certainty::NotApplied, PARK),
        (Certainty::NotApplied, KEYED),
        (Certainty::MaybeApplied, KEYED),
        (Certainty::MaybeApplied, REPEAT),
    ];
    for (certainty, class) in certainties {
        let world = World::new();
        let broker = broker_with_many(&world, 100);
        let effect = Until::new(&world, back_at, says(certainty));
        let summary = worker(&world, &broker)
            .effect(effect, class)
            .await
            .summary();
        assert_eq!(summary.of(Fate::Applied), 100, "{certainty:?} {class:?}");
        lasted(&world, Pause::HandlerBroken);
    }
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let effect = Until::new(&world, back_at, says(Certainty::MaybeApplied));
    let summary = worker(&world, &broker).effect(effect, PARK).await.summary();
    assert_eq!(summary.of(Fate::Dead), 0);
    assert!(summary.of(Fate::InDoubt) >= 20, "it may have seen them");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_pause_and_everything_is_given_back() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 100);
        let worker = worker(&world, &broker);
        let stop = worker.stop.clone();
        let effect = Until::new(&world, Duration::from_secs(600), away());
        let run = by(worker, manner, &effect, PARK);
        let (run, ()) = tokio::join!(run, stop.after(Duration::from_secs(60)));
        let summary = run.summary();
        assert_eq!(
            summary.of(Fate::Released),
            summary.deliveries(),
            "{manner:?}"
        );
        assert!(summary.elapsed < Duration::from_secs(62), "{manner:?}");
        assert_eq!(broker.unacknowledged(), 100);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_waited_for_and_told_once() {
    let world = World::new();
    let broker = broker_with_many(&world, 100);
    let disk = Disk::default();
    let worker = worker(&world, &broker);
    let mut acts = vec![Append::Slow(Duration::ZERO)];
    acts.extend([Append::FailHalf; 30]);
    let output = MemoryFile {
        name: "out",
        disk: disk.clone(),
        crash: worker.crash.clone(),
        acts: acts.into(),
    };
    let summary = worker.output(output).await.summary();
    assert_eq!(summary.of(Fate::Applied), 100);
    assert_eq!(disk.lines().0.len(), 100);
    assert!(lasted(&world, Pause::TargetAway) > Duration::from_secs(20));
}

/// Each time the disk takes the message that tries it and not the batch behind it; in the end the source has no more,
/// or enough for a whole batch.
#[tokio::test(start_paused = true)]
async fn a_disk_that_takes_one_message_and_no_batch_is_told_once() {
    for messages in [40, 200] {
        let world = World::new();
        let broker = broker_with_many(&world, messages);
        let disk = Disk::default();
        let worker = worker(&world, &broker);
        let mut acts = VecDeque::from([Append::FailHalf]);
        for _ in 0..14 {
            acts.extend([Append::Slow(Duration::ZERO), Append::FailHalf]);
        }
        let output = MemoryFile {
            name: "out",
            disk: disk.clone(),
            crash: worker.crash.clone(),
            acts,
        };
        let summary = worker.output(output).await.summary();
        assert_eq!(summary.of(Fate::Applied), messages as u64);
        assert_eq!(disk.lines().0.len(), messages);
        // 100 ms, then 200, 400 and 640, and up to a quarter more each.
        let lasted = lasted(&world, Pause::TargetAway);
        let expected = Duration::from_secs(8)..Duration::from_secs(11);
        assert!(expected.contains(&lasted), "{messages}: {lasted:?}");
    }
}

/// The source stays open and hands over nothing more.
#[tokio::test(start_paused = true)]
async fn one_message_is_enough_for_a_pause_to_end_in_time() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with_many(&world, 1);
        let effect = Until::new(&world, Duration::from_secs(10), away());
        let mut worker = worker(&world, &broker);
        worker.feed.stays_open = true;
        let run = by(worker, manner, &effect, KEYED);
        let run = tokio::time::timeout(Duration::from_millis(11_500), run);
        assert!(run.await.is_err(), "it waits");
        let lasted = lasted(&world, Pause::TargetAway);
        assert!(lasted <= Duration::from_millis(10_850), "{lasted:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn statements_that_fail_for_one_reason_set_aside_no_more_than_it_takes_to_notice() {
    for worked_before in [0, 64] {
        for statement in [Statement::Refuse, Statement::Fail] {
            let world = World::new();
            let broker = broker_with_many(&world, 264);
            let works = std::iter::repeat_n(Statement::Work, worked_before);
            world.tables.script(works.chain([statement; 60]));
            let summary = worker(&world, &broker).transaction().await.summary();
            let set_aside = match statement {
                Statement::Refuse => 20,
                Statement::Fail | Statement::Work => 0,
            };
            let fates = (summary.of(Fate::Dead), summary.of(Fate::Applied));
            let expected = (set_aside, 264 - set_aside);
            assert_eq!(fates, expected, "{worked_before} {statement:?}");
            lasted(&world, Pause::TargetFailing);
        }
    }
}

/// None of a hundred messages without a key is kept or acknowledged.
#[tokio::test(start_paused = true)]
async fn a_run_whose_first_messages_have_no_usable_key_ends_and_says_why() {
    let world = World::new();
    let broker = world.broker();
    for number in 0..150 {
        broker.publish(Message::raw(format!("{{\"no\":{number}}}")));
    }
    let worker = worker(&world, &broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let error = worker.each(effect, PARK).await.error();
    assert_eq!(error.code(), Code::NoUsableKey);
    assert!(!error.to_string().contains('\n'), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("json:/key") && text.contains("{\"no\":0}"),
        "{text}"
    );
    assert_eq!((broker.acknowledged(), world.parked().await.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn fewer_messages_without_a_key_are_quarantined_once_one_has_one_or_the_source_ends() {
    for with_key in [true, false] {
        let world = World::new();
        let broker = world.broker();
        for number in 0..99 {
            broker.publish(Message::raw(format!("{{\"no\":{number}}}")));
        }
        if with_key {
            broker.publish(Message::of("a"));
            for number in 0..200 {
                broker.publish(Message::raw(format!("{{\"no\":{number}}}")));
            }
        }
        let worker = worker(&world, &broker);
        let effect = Scripted::new(&world, &worker.crash, []);
        let summary = worker.each(effect, PARK).await.summary();
        let expected = if with_key { 299 } else { 99 };
        assert_eq!(summary.of(Fate::Quarantined), expected);
        assert_eq!(broker.unacknowledged(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_held_for_want_of_a_key_is_given_back_at_a_shutdown_and_quarantined_in_time() {
    for (stopped_at, released) in [(20, 50), (40, 0)] {
        let world = World::new();
        let broker = world.broker();
        for _ in 0..50 {
            broker.publish(Message::raw("{}"));
        }
        let mut worker = worker(&world, &broker);
        worker.feed.stays_open = true;
        let stop = worker.stop.clone();
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = worker.each(effect, PARK);
        let (run, ()) = tokio::join!(run, stop.after(Duration::from_secs(stopped_at)));
        let summary: Summary = run.summary();
        let fates = (summary.of(Fate::Released), summary.of(Fate::Quarantined));
        assert_eq!(fates, (released, 50 - released), "{stopped_at} s");
        assert_eq!(
            broker.acknowledged(),
            usize::try_from(50 - released).expect("few")
        );
        assert!(!broker.extended().is_empty(), "they were kept in hand");
    }
}
