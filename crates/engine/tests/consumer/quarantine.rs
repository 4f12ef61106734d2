//! Messages that no effect may see: kept whole, with their reason, and acknowledged.

use std::time::Duration;

use semel_core::Clock;
use semel_engine::summary::Fate;

use super::broker_with;
use crate::world::fault::{Fault, Method};
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted};
use crate::world::worker::{Run, Worker};
use crate::world::{PARK, WINDOW, World};

#[tokio::test(start_paused = true)]
async fn a_message_without_a_usable_key_is_kept_whole_with_its_reason() {
    let world = World::new();
    let broker = world.broker();
    let unusable = [
        ("no json", "not-json"),
        ("{\"note\":1}", "key-missing"),
        ("{\"key\":null}", "key-null"),
        ("{\"key\":true}", "key-not-scalar"),
        ("{\"key\":[\"a\"]}", "key-not-scalar"),
        ("{\"key\":\"  \"}", "key-blank"),
        ("{\"key\":\"a\\u0000b\"}", "key-control-character"),
        ("{\"key\":\"a\",\"key\":\"b\"}", "member-duplicated"),
    ];
    for (payload, _) in unusable {
        broker.publish(Message::raw(payload));
    }
    broker.publish(Message::of("good"));
    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Quarantined), unusable.len() as u64);
    assert_eq!(summary.of(Fate::Applied), 1);
    assert_eq!(
        world.sink.all().len(),
        1,
        "nothing runs under a made-up key"
    );
    let kept = world.parked().await;
    let kept: Vec<_> = kept
        .iter()
        .map(|it| (&it.payload[..], &*it.reason))
        .collect();
    let expected: Vec<_> = unusable
        .iter()
        .map(|(text, why)| (text.as_bytes(), *why))
        .collect();
    assert_eq!(kept, expected);
    assert_eq!(broker.unacknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_oversize_message_is_set_aside_unread() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::raw("{\"key\":\"a\",").oversize(5_000));
    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Quarantined), 1);
    let parked = world.parked().await;
    assert_eq!(&*parked[0].reason, "message-too-large");
    assert!(parked[0].detail.contains("5000"), "{}", parked[0].detail);
}

#[tokio::test(start_paused = true)]
async fn a_message_older_than_the_window_is_never_taken_for_new() {
    let world = World::new();
    let broker = world.broker();
    let now = world.clock.now();
    let (gate, second) = (
        WINDOW.duration().saturating_sub(WINDOW.margin()),
        Duration::from_secs(1),
    );
    broker.publish(Message::of("old").born(now.minus(gate + second)));
    broker.publish(Message::of("young").born(now.minus(gate).plus(second)));
    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(
        (summary.of(Fate::TooOld), summary.of(Fate::Applied)),
        (1, 1)
    );
    assert_eq!(
        (world.sink.applied("old"), world.sink.applied("young")),
        (0, 1)
    );
    assert_eq!(&*world.parked().await[0].reason, "too-old");
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_again_is_kept_from_an_effect_for_live_messages_alone() {
    let world = World::new();
    let broker = world.broker();
    let live = |world: &World| {
        let mut worker = world.worker(&broker);
        worker.pipeline.live_only = true;
        worker
    };
    broker.publish(Message::of("done"));
    let worker = live(&world);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();
    assert_eq!((summary.of(Fate::Applied), summary.sent_again), (1, 0));

    // All of it again, with one message that is new.
    broker.publish(Message::of("done"));
    broker.publish(Message::of("new"));
    let sent_again = |mut worker: Worker| {
        worker.feed.headers = vec![("Semel-Replay-Id".into(), "2026-11".into())];
        worker
    };
    let worker = sent_again(live(&world));
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();
    assert_eq!(
        (summary.of(Fate::Replayed), summary.of(Fate::Quarantined)),
        (1, 1)
    );
    assert_eq!((summary.sent_again, summary.suppressed), (2, 1));
    assert_eq!(summary.of(Fate::TooOld), 0);
    assert_eq!(
        (world.sink.applied("done"), world.sink.applied("new")),
        (1, 0)
    );
    assert_eq!(&*world.parked().await[0].reason, "live-only");

    // For any other effect these are messages like all others, but they are counted apart.
    broker.publish(Message::of("other"));
    let worker = sent_again(world.worker(&broker));
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();
    assert_eq!((summary.of(Fate::Applied), summary.sent_again), (1, 1));
    assert_eq!(summary.suppressed, 0);
    broker.check();
}

#[tokio::test(start_paused = true)]
async fn the_age_gate_reads_the_birth_where_the_broker_has_no_time() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::with("a", "\"born\":\"2020-01-01T00:00:00Z\""));
    broker.publish(Message::with("b", "\"born\":\"yesterday\""));
    let mut worker = world.worker(&broker);
    worker.pipeline.birth = Some("json:/born".parse().expect("the selector is well formed"));
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(
        (summary.of(Fate::TooOld), summary.of(Fate::Quarantined)),
        (1, 1)
    );
    let reasons: Vec<_> = world
        .parked()
        .await
        .into_iter()
        .map(|it| it.reason)
        .collect();
    assert_eq!(reasons, ["too-old".into(), "birth-invalid".into()]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_acknowledged_before_it_is_kept() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::raw("no json"));
    let worker = world.worker(&broker);
    let minute = Duration::from_secs(60);
    worker.plan.outage(Method::Park, minute, Fault::Cut);
    let effect = Scripted::new(&world, &worker.crash, []);
    let (run, ()) = tokio::join!(worker.each(effect, PARK), async {
        tokio::time::sleep(minute / 2).await;
        assert_eq!(broker.acknowledged(), 0);
    });

    assert_eq!(run.summary().of(Fate::Quarantined), 1);
    assert_eq!(world.parked().await.len(), 1);
    assert_eq!(broker.unacknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_keeping_and_acknowledging_keeps_it_once() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter, Fault::LoseAnswer] {
        let world = World::new();
        let broker = world.broker();
        broker.publish(Message::raw("no json"));
        let worker = world.worker(&broker);
        worker.plan.nth(Method::Park, 1, fault);
        let effect = Scripted::new(&world, &worker.crash, []);
        let run = worker.each(effect, PARK).await;
        if let Run::Crashed = run {
            assert_eq!(broker.unacknowledged(), 1, "{fault:?}");
            let worker = world.worker(&broker);
            let effect = Scripted::new(&world, &worker.crash, []);
            worker.each(effect, PARK).await.summary();
        }
        assert_eq!(world.parked().await.len(), 1, "{fault:?}");
        assert_eq!(broker.unacknowledged(), 0, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_a_dead_record_and_its_letter_loses_neither() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let worker = world.worker(&broker);
    worker.plan.nth(Method::Park, 1, Fault::CrashBefore);
    let dead = semel_engine::effect::Verdict::Dead {
        decisive: false,
        error: "404".into(),
    };
    let effect = Scripted::always(&world, &worker.crash, Act::Say(dead));
    worker.each(effect, PARK).await;
    assert!(
        world.parked().await.is_empty(),
        "the letter was not written"
    );

    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, PARK).await.summary();
    assert_eq!(summary.of(Fate::Dead), 1);
    assert_eq!(&*world.parked().await[0].reason, "dead");
}
