//! Messages of one order key run one by one in source order; others run side by side.

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::Duplicate;
use semel_core::fingerprint::FingerprintSelector;
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many};
use crate::world::message::{Message, member};
use crate::world::scripted::{Act, Scripted, not_applied};
use crate::world::sink::Span;
use crate::world::watch::Seen;
use crate::world::{KEYED, REPEAT, World};

const STEP: Duration = Duration::from_millis(20);

/// The most calls that were under way at once.
fn most_at_once(spans: &[Span]) -> usize {
    let began = spans.iter().map(|span| span.began);
    let under_way = |at: Duration| {
        let is_open = |span: &&Span| span.began <= at && span.ended.is_none_or(|end| end > at);
        spans.iter().filter(is_open).count()
    };
    began.map(under_way).max().unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn messages_of_one_order_key_run_one_by_one_in_source_order() {
    let world = World::new();
    let broker = world.broker();
    for number in 0..5 {
        for account in ["red", "green", "blue"] {
            let members = format!("\"account\":\"{account}\",\"number\":{number}");
            broker.publish(Message::with(&format!("{account}-{number}"), &members));
        }
    }
    let mut worker = world.worker(&broker);
    worker.pipeline.order = Some(
        "json:/account"
            .parse()
            .expect("the selector is well formed"),
    );
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(STEP, Duration::ZERO));
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(summary.of(Fate::Applied), 15);
    let mut lanes = BTreeMap::<String, Vec<Span>>::new();
    for span in world.sink.spans() {
        let account = member(&span.payload, "account").expect("every message has an account");
        lanes.entry(account).or_default().push(span);
    }
    for (account, spans) in &lanes {
        let numbers: Vec<_> = spans
            .iter()
            .map(|span| member(&span.payload, "number"))
            .collect();
        let in_order: Vec<_> = (0..5).map(|number| Some(number.to_string())).collect();
        assert_eq!(numbers, in_order, "{account} runs in source order");
        assert_eq!(most_at_once(spans), 1, "{account} never overlaps");
    }
    assert_eq!(
        most_at_once(&world.sink.spans()),
        3,
        "the accounts run side by side"
    );
    assert!(
        summary.elapsed < STEP * 6,
        "five steps take {:?}",
        summary.elapsed
    );
}

#[tokio::test(start_paused = true)]
async fn different_keys_run_side_by_side_up_to_the_concurrency() {
    let world = World::new();
    let broker = broker_with_many(&world, 40);
    let mut worker = world.worker(&broker);
    worker.pipeline.concurrency = 6;
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(STEP, Duration::ZERO));
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(summary.of(Fate::Applied), 40);
    assert_eq!(most_at_once(&world.sink.spans()), 6);
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_its_place_before_the_messages_behind_it() {
    let world = World::new();
    let broker = world.broker();
    for key in ["a", "b", "c"] {
        broker.publish(Message::with(key, "\"account\":\"red\""));
    }
    let mut worker = world.worker(&broker);
    worker.pipeline.order = Some(
        "json:/account"
            .parse()
            .expect("the selector is well formed"),
    );
    let acts = [Act::Say(not_applied()), Act::Say(not_applied())];
    let effect = Scripted::new(&world, &worker.crash, acts);
    worker.each(effect, REPEAT).await.summary();

    let keys: Vec<_> = world
        .sink
        .spans()
        .into_iter()
        .map(|span| span.key)
        .collect();
    assert_eq!(keys, ["a", "a", "a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_back_key_does_not_hold_up_the_others() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let worker = world.worker(&broker);
    let effect = Scripted::new(&world, &worker.crash, [Act::Say(not_applied())]);
    worker.each(effect, REPEAT).await.summary();

    let keys: Vec<_> = world
        .sink
        .spans()
        .into_iter()
        .map(|span| span.key)
        .collect();
    assert_eq!(keys, ["a", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn duplicates_in_one_batch_have_one_effect() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "a", "b", "a"]);
    let worker = world.worker(&broker);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(STEP, STEP));
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
        (2, 2)
    );
    assert_eq!((world.sink.applied("a"), world.sink.applied("b")), (1, 1));
    let republished = Seen::Replayed("a".to_owned(), Duplicate::Republish);
    assert_eq!(
        world.watch.times(&republished),
        2,
        "other coordinates: a republish"
    );
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_is_told_from_a_republish() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let copy = broker.copy();
    for broker in [&broker, &copy] {
        let worker = world.worker(broker);
        let effect = Scripted::new(&world, &worker.crash, []);
        worker.each(effect, REPEAT).await.summary();
    }
    let redelivered = Seen::Replayed("a".to_owned(), Duplicate::Redelivery);
    assert_eq!(
        world.watch.times(&redelivered),
        1,
        "{:?}",
        world.watch.all()
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_of_two_requests_under_one_key_wins_and_the_other_is_quarantined() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::with("a", "\"amount\":1"));
    broker.publish(Message::with("a", "\"amount\":2"));
    broker.publish(Message::raw("{\"amount\":1.0,\"key\":\"a\"}"));
    let worker = world.worker(&broker);
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(STEP, STEP));
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(summary.of(Fate::Applied), 1);
    assert_eq!(summary.of(Fate::Conflict), 1);
    assert_eq!(
        summary.of(Fate::Replayed),
        1,
        "the same JSON in other words is no conflict"
    );
    let parked = world.parked().await;
    assert_eq!(parked.len(), 1);
    assert_eq!(&*parked[0].reason, "fingerprint-conflict");
    assert_eq!(
        &*parked[0].detail,
        "the key was used with another request: json:/amount differs"
    );
    assert_eq!(
        member(&parked[0].payload, "amount").as_deref(),
        Some("2"),
        "the second one"
    );
    assert_eq!(broker.unacknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_fingerprint_another_request_under_the_key_is_a_duplicate() {
    let world = World::new();
    let broker = world.broker();
    broker.publish(Message::with("a", "\"amount\":1"));
    broker.publish(Message::with("a", "\"amount\":2"));
    let mut worker = world.worker(&broker);
    worker.pipeline.fingerprint = FingerprintSelector::None;
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, KEYED).await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
        (1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn one_key_in_two_lanes_never_overlaps() {
    let world = World::new();
    let broker = world.broker();
    for account in ["red", "green", "blue"] {
        broker.publish(Message::with("a", &format!("\"account\":\"{account}\"")));
    }
    let mut worker = world.worker(&broker);
    worker.pipeline.order = Some(
        "json:/account"
            .parse()
            .expect("the selector is well formed"),
    );
    worker.pipeline.fingerprint = FingerprintSelector::None;
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(STEP, STEP));
    let summary = worker.each(effect, REPEAT).await.summary();

    assert_eq!(
        (summary.of(Fate::Applied), summary.of(Fate::Replayed)),
        (1, 2)
    );
    assert_eq!(world.sink.spans().len(), 1);
}
