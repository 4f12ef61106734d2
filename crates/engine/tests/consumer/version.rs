//! The version gate: an older or equal version of an entity is stale, whatever its key.

use std::time::Duration;

use semel_engine::effect::Class;
use semel_engine::summary::Fate;

use crate::world::World;
use crate::world::broker::Broker;
use crate::world::message::{Message, member};
use crate::world::scripted::{Act, Scripted};
use crate::world::sink::Recognises;
use crate::world::worker::Worker;

fn gated(world: &World, broker: &Broker) -> Worker {
    let mut worker = world.worker(broker);
    let entity = "json:/entity".parse().expect("the selector is well formed");
    let version = "json:/version"
        .parse()
        .expect("the selector is well formed");
    worker.pipeline.gate = Some((entity, version));
    worker
}

#[tokio::test(start_paused = true)]
async fn older_and_equal_versions_are_stale_and_no_duplicates() {
    let world = World::with_sink(Recognises::Versions);
    let broker = world.broker();
    for (key, version) in [("a", 3), ("b", 1), ("c", 3), ("d", 4), ("a", 3)] {
        let members = format!("\"entity\":\"e\",\"version\":{version}");
        broker.publish(Message::with(key, &members));
    }
    let worker = gated(&world, &broker);
    let act = Act::Slow(Duration::from_millis(20), Duration::ZERO);
    let effect = Scripted::always(&world, &worker.crash, act);
    let summary = worker.each(effect, Class::Transactional).await.summary();

    assert_eq!(summary.of(Fate::Applied), 2);
    assert_eq!(summary.of(Fate::Stale), 2);
    assert_eq!(summary.of(Fate::Replayed), 1);
    let called = world.sink.spans().into_iter();
    let called: Vec<_> = called
        .filter_map(|span| member(&span.payload, "version"))
        .collect();
    assert_eq!(called, ["3", "4"]);
    assert_eq!(broker.unacknowledged(), 0);
}

#[tokio::test(start_paused = true)]
async fn versions_of_one_entity_never_overlap_across_workers() {
    let world = World::with_sink(Recognises::Versions);
    let (one, other) = (world.broker(), world.broker());
    for version in 1..=10 {
        let members = format!("\"entity\":\"e\",\"version\":{version}");
        let broker = if version % 2 == 0 { &one } else { &other };
        broker.publish(Message::with(&format!("k{version}"), &members));
    }
    let (first, second) = (gated(&world, &one), gated(&world, &other));
    let act = Act::Slow(Duration::from_millis(20), Duration::ZERO);
    let effect = Scripted::always(&world, &first.crash, act.clone());
    let other_effect = Scripted::always(&world, &second.crash, act);
    let (first, second) = tokio::join!(
        first.each(effect, Class::Transactional),
        second.each(other_effect, Class::Transactional)
    );

    let (first, second) = (first.summary(), second.summary());
    let count = |fate| first.of(fate) + second.of(fate);
    assert_eq!(count(Fate::Applied) + count(Fate::Stale), 10);
    assert!(count(Fate::Applied) >= 1);
    assert!(world.sink.has("e", 10), "the last version stands");
    let spans = world.sink.spans();
    for pair in spans.windows(2) {
        let ended = pair[0].ended.expect("every call has ended");
        assert!(ended <= pair[1].began, "{pair:?} overlap");
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_version_is_quarantined() {
    let world = World::with_sink(Recognises::Versions);
    let broker = world.broker();
    broker.publish(Message::with("a", "\"entity\":\"e\",\"version\":-1"));
    broker.publish(Message::with("b", "\"entity\":\"e\",\"version\":1.5"));
    broker.publish(Message::with("c", "\"version\":1"));
    let worker = gated(&world, &broker);
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, Class::Transactional).await.summary();

    assert_eq!(summary.of(Fate::Quarantined), 3);
    let reasons: Vec<_> = world
        .parked()
        .await
        .into_iter()
        .map(|it| it.reason)
        .collect();
    let expected = ["version-invalid", "version-invalid", "entity-missing"];
    assert_eq!(reasons, expected.map(Box::from));
}
