//! The most messages that a worker takes in hand, and the sizes of its store calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::fingerprint::FingerprintSelector;
use semel_engine::summary::Fate;

use super::{broker_with_many, many};
use crate::world::fault::Method;
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted, not_applied};
use crate::world::{KEYED, PARK, REPEAT, World};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_held_stays_in_the_source() {
    let world = World::new();
    let broker = broker_with_many(&world, 1_000);
    let mut worker = world.worker(&broker);
    (worker.pipeline.batch, worker.pipeline.concurrency) = (10, 4);
    worker.feed.stays_open = true;
    let stop = worker.stop.clone();
    let hour = Duration::from_secs(3_600);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(hour, hour));
    let (run, most) = tokio::join!(worker.each(effect, PARK), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let most = broker.in_hand();
        stop.request();
        most
    });
    run.summary();
    // Four batches in hand, the last one over the edge, and two read ahead.
    assert!((40..=10 * 4 + 10 + 20).contains(&most), "{most} in hand");
    assert_eq!(world.sink.spans().len(), 4, "and four running");
}

#[tokio::test(start_paused = true)]
async fn messages_that_wait_for_their_retry_count_as_in_hand() {
    let world = World::new();
    let broker = broker_with_many(&world, 1_000);
    let mut worker = world.worker(&broker);
    (worker.pipeline.batch, worker.pipeline.concurrency) = (10, 4);
    worker.pipeline.backoff.first = Duration::from_secs(3_600);
    worker.pipeline.backoff.most = Duration::from_secs(3_600);
    let stop = worker.stop.clone();
    let effect = Scripted::always(&world, &worker.crash, Act::Say(not_applied()));
    let (run, most) = tokio::join!(worker.each(effect, PARK), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let most = broker.in_hand();
        stop.request();
        most
    });
    assert_eq!(run.summary().of(Fate::Applied), 0);
    assert!((40..=10 * 4 + 10 + 20).contains(&most), "{most} in hand");
}

#[tokio::test(start_paused = true)]
async fn large_messages_are_held_by_their_bytes() {
    let world = World::new();
    let broker = world.broker();
    // All of them share the memory of one.
    let large = Message::raw(vec![b' '; 4 << 20]);
    for _ in 0..100 {
        broker.publish(large.clone());
    }
    let mut worker = world.worker(&broker);
    worker.pipeline.key = "coordinates".parse().expect("the selector is well formed");
    worker.pipeline.fingerprint = FingerprintSelector::None;
    (worker.pipeline.batch, worker.pipeline.concurrency) = (2, 50);
    worker.patience = Duration::ZERO;
    let stop = worker.stop.clone();
    let hour = Duration::from_secs(3_600);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(hour, hour));
    let (run, most) = tokio::join!(worker.each(effect, KEYED), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let most = broker.in_hand();
        stop.request();
        most
    });
    assert_eq!(run.summary().of(Fate::Applied), 0);
    assert!(
        (16..=16 + 2 + 4).contains(&most),
        "{most} in hand, 4 MiB each"
    );
}

#[tokio::test(start_paused = true)]
async fn the_store_is_asked_batch_by_batch() {
    let world = World::new();
    let broker = broker_with_many(&world, 400);
    let mut worker = world.worker(&broker);
    (worker.pipeline.batch, worker.pipeline.concurrency) = (50, 100);
    let plan = worker.plan.clone();
    let tick = Duration::from_millis(1);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(tick, Duration::ZERO));
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Applied), 400);
    assert_eq!(plan.largest(Method::Claim), 50, "never more than a batch");
    assert!(
        plan.calls(Method::Claim) <= 20,
        "{} claims",
        plan.calls(Method::Claim)
    );
    assert!(
        plan.calls(Method::Settle) <= 20,
        "{} settlements",
        plan.calls(Method::Settle)
    );
}

#[tokio::test(start_paused = true)]
async fn a_slow_source_is_no_reason_to_wait() {
    let world = World::new();
    let broker = broker_with_many(&world, 20);
    let mut worker = world.worker(&broker);
    worker.feed.at_most = 1;
    worker.feed.pause = Duration::from_secs(10);
    let effect = Scripted::new(&world, &worker.crash, []);
    let (run, early) = tokio::join!(worker.each(effect, REPEAT), async {
        tokio::time::sleep(Duration::from_secs(15)).await;
        broker.acknowledged()
    });

    assert_eq!(early, 1, "what is there is done and acknowledged");
    assert_eq!(run.summary().of(Fate::Applied), 20);
    for key in many(20) {
        assert_eq!(world.sink.applied(&key), 1, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_and_the_last_word_is_the_summary() {
    let world = World::new();
    let broker = broker_with_many(&world, 50);
    let mut worker = world.worker(&broker);
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    worker.on_progress = Some(Arc::new(move |_, summary| {
        telling
            .lock()
            .expect("telling never panics")
            .push(summary.of(Fate::Applied));
    }));
    let act = Act::Slow(Duration::from_millis(60), Duration::ZERO);
    let effect = Scripted::always(&world, &worker.crash, act);
    worker.each(effect, PARK).await.summary();

    let told = told.lock().expect("telling never panics");
    assert!(told.is_sorted());
    assert!(
        (3..=6).contains(&told.len()),
        "some times a second over 420 ms: {told:?}"
    );
    assert_eq!(told.last(), Some(&50));
}
