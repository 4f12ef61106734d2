//! Failures: the number of repeated calls, the waits between them, and the fates of their messages.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use semel_core::StateKind;
use semel_engine::effect::{Class, Verdict};
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many};
use crate::world::broker::Broker;
use crate::world::fault::{Fault, Method};
use crate::world::message::Message;
use crate::world::scripted::{Act, Forgetful, Scripted, maybe_applied, not_applied};
use crate::world::watch::Seen;
use crate::world::worker::Worker;
use crate::world::{KEYED, LEASE, PARK, REPEAT, World};

/// A worker that gives up after `failed` attempts.
fn worker(world: &World, broker: &Broker, failed: u32) -> Worker {
    let mut worker = world.worker(broker);
    worker.pipeline.limits.failed = NonZeroU32::new(failed).expect("tests try at least once");
    worker
}

/// The waits between the calls of an effect.
fn waits(world: &World) -> Vec<Duration> {
    let spans = world.sink.spans();
    spans
        .windows(2)
        .map(|pair| pair[1].began.saturating_sub(pair[0].began))
        .collect()
}

/// Asserts that `wait` is as expected, with up to a quarter of jitter and the timer's own grain.
#[track_caller]
fn assert_about(wait: Duration, expected: Duration) {
    let most = expected + expected / 4 + Duration::from_millis(10);
    assert!(
        (expected..=most).contains(&wait),
        "{wait:?} is not about {expected:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn three_attempts_are_three_calls_and_then_a_dead_letter() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::with("a", "\"amount\":12"));
    let worker = worker(&world, &broker, 3);
    let effect = Scripted::always(&world, &worker.crash, Act::Say(not_applied()));
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Dead), 1);
    assert_eq!(world.sink.spans().len(), 3);
    assert_eq!(world.state("a").await, Some(StateKind::Dead));
    let parked = world.parked().await;
    assert_eq!(parked.len(), 1);
    assert_eq!(
        (&*parked[0].reason, &*parked[0].detail),
        ("dead", "refused")
    );
    assert_eq!(parked[0].payload, "{\"key\":\"a\",\"amount\":12}");
    assert_eq!(broker.unacknowledged(), 0);
    assert_eq!(world.watch.times(&Seen::Dead("a".to_owned())), 1);
    assert_eq!(world.watch.times(&Seen::Released("a".to_owned())), 2);
}

#[tokio::test(start_paused = true)]
async fn the_wait_doubles_from_attempt_to_attempt() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = worker(&world, &broker, 4);
    let effect = Scripted::always(&world, &worker.crash, Act::Say(not_applied()));
    worker.each(effect, PARK).await.summary();

    let waits = waits(&world);
    assert_eq!(waits.len(), 3);
    for (wait, expected) in waits.into_iter().zip([200, 400, 800]) {
        assert_about(wait, Duration::from_millis(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn the_effects_own_wish_when_to_try_again_is_honoured() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = worker(&world, &broker, 2);
    let wish = Duration::from_secs(90);
    let verdict = Verdict::NotApplied {
        error: "429".into(),
        retry_after: Some(wish),
    };
    let effect = Scripted::new(&world, &worker.crash, [Act::Say(verdict)]);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Applied), 1);
    assert_about(waits(&world)[0], wish);
}

#[tokio::test(start_paused = true)]
async fn a_wish_to_wait_for_ever_holds_up_nobody_else() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let worker = worker(&world, &broker, 5);
    let for_ever = Some(Duration::MAX);
    let verdict = Verdict::NotApplied {
        error: "429".into(),
        retry_after: for_ever,
    };
    let effect = Scripted::new(&world, &worker.crash, [Act::Say(verdict)]);
    let stop = worker.stop.clone();
    let stopping = stop.after(Duration::from_secs(60));
    let (run, ()) = tokio::join!(worker.each(effect, PARK), stopping);

    let summary = run.summary();
    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Released)),
        (1, 1)
    );
    assert_eq!(world.sink.applied("b"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_no_success() {
    for (class, fate, effects, state) in [
        (KEYED, Fate::Applied, 1, StateKind::Completed),
        (REPEAT, Fate::Applied, 1, StateKind::Completed),
        (Class::Transactional, Fate::Applied, 1, StateKind::Completed),
        (PARK, Fate::InDoubt, 0, StateKind::InDoubt),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let worker = worker(&world, &broker, 5);
        let effect = Scripted::new(&world, &worker.crash, [Act::Panic]);
        let summary = worker.each(effect, class).await.summary();

        assert_eq!(summary.of(fate), 1, "{class:?}: {summary:?}");
        assert_eq!(world.sink.applied("a"), effects, "{class:?}");
        assert_eq!(world.state("a").await, Some(state), "{class:?}");
        let repeated = usize::from(class == REPEAT);
        assert_eq!(
            world.repeated().await.len(),
            repeated,
            "{class:?}: it may have happened"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_always_panics_is_in_doubt_in_the_end_and_never_dead() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = worker(&world, &broker, 3);
    let effect = Scripted::always(&world, &worker.crash, Act::Panic);
    let summary = worker.each(effect, KEYED).await.summary();

    assert_eq!(summary.of(Fate::InDoubt), 1);
    assert_eq!(world.sink.spans().len(), 3);
    assert_eq!(world.in_state(StateKind::InDoubt).await, ["a"]);
    assert_eq!(&*world.parked().await[0].reason, "in-doubt");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_good_is_dead_after_one_call() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = worker(&world, &broker, 5);
    let verdict = Verdict::Dead {
        decisive: false,
        error: "404".into(),
    };
    let effect = Scripted::always(&world, &worker.crash, Act::Say(verdict));
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Dead), 1);
    assert_eq!(world.sink.spans().len(), 1);
    assert_eq!(&*world.parked().await[0].detail, "404");
}

#[tokio::test(start_paused = true)]
async fn duplicates_of_what_was_given_up_share_its_fate_and_are_kept_once() {
    for (verdict, state, fate, reason) in [
        (
            Verdict::Dead {
                decisive: false,
                error: "404".into(),
            },
            StateKind::Dead,
            Fate::Dead,
            "dead",
        ),
        (
            maybe_applied(),
            StateKind::InDoubt,
            Fate::InDoubt,
            "in-doubt",
        ),
    ] {
        let world = World::new();
        let broker = broker_with(&world, &["a", "a", "a"]);
        let worker = world.worker(&broker);
        let effect = Scripted::always(&world, &worker.crash, Act::Say(verdict));
        let summary = worker.each(effect, PARK).await.summary();

        assert_eq!(summary.of(fate), 3);
        assert_eq!(world.sink.spans().len(), 1, "only the first is tried");
        assert_eq!(world.watch.times(&Seen::Parked("a".to_owned(), state)), 2);
        let reasons: Vec<_> = world
            .parked()
            .await
            .into_iter()
            .map(|it| it.reason)
            .collect();
        assert_eq!(reasons, [reason.into()]);
        assert_eq!(broker.unacknowledged(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_result_is_remembered_and_a_long_one_is_never_cut() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let worker = world.worker(&broker);
    let long = Verdict::Done(Bytes::from(vec![7; 2_000]));
    let effect = Scripted::new(&world, &worker.crash, [Act::Do, Act::DoAndSay(long)]);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Applied), 2);
    let kept = world.record("a").await.and_then(|record| record.outcome);
    assert_eq!(
        kept,
        Some(semel_core::Outcome::raw(Bytes::from_static(b"done"), 1_024))
    );
    let cut = world.record("b").await.and_then(|record| record.outcome);
    assert!(
        matches!(
            cut,
            Some(semel_core::Outcome::TooLarge {
                len_bytes: 2_000,
                ..
            })
        ),
        "{cut:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_somebody_else_uses_up_no_attempts() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    // The first worker holds the key for most of a lease, fails once and dies.
    let first = worker(&world, &broker, 3);
    first.plan.nth(Method::Settle, 1, Fault::CrashAfter);
    let long = [Act::Say(not_applied())];
    let failing = Scripted::new(&world, &first.crash, long);
    first.plan.nth(Method::Settle, 1, Fault::CrashAfter);
    first
        .plan
        .nth(Method::Claim, 1, Fault::DelayAfter(LEASE / 2));
    // The second worker finds it busy all that time, and then fails once itself.
    let second = worker(&world, &copy, 3);
    let plan = second.plan.clone();
    let effect = Scripted::new(&world, &second.crash, [Act::Say(not_applied())]);
    let (_, run) = tokio::join!(first.each(failing, KEYED), async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        second.each(effect, KEYED).await
    });

    let summary = run.summary();
    assert_eq!(
        summary.of(Fate::Applied),
        1,
        "{summary:?} {:?}",
        world.watch.all()
    );
    assert_eq!(world.sink.spans().len(), 3, "two failed, the third did it");
    let busy = world.watch.times(&Seen::Busy("a".to_owned()));
    assert!(
        (10..=20).contains(&busy),
        "asked again every second, not all the time: {busy}"
    );
    assert!(plan.calls(Method::Claim) <= 25, "no storm of claims");
}

#[tokio::test(start_paused = true)]
async fn one_failing_message_of_a_batch_fails_alone() {
    let world = World::new();
    let broker = broker_with_many(&world, 5);
    let worker = worker(&world, &broker, 1);
    let acts = [Act::Do, Act::Do, Act::Say(not_applied()), Act::Do, Act::Do];
    let effect = Scripted::new(&world, &worker.crash, acts);
    let summary = worker.stream(effect, REPEAT).await.summary();

    assert_eq!((summary.of(Fate::Applied), summary.of(Fate::Dead)), (4, 1));
    assert_eq!(world.in_state(StateKind::Dead).await, ["k002"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_verdict_is_in_doubt() {
    let world = World::new();
    let broker = broker_with_many(&world, 3);
    let worker = world.worker(&broker);
    let effect = Forgetful(Scripted::new(&world, &worker.crash, []));
    let summary = worker.batches(effect, PARK).await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::InDoubt)),
        (1, 2)
    );
}
