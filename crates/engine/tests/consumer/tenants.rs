//! Pipelines whose messages have tenants: one key of two tenants is two operations, and neither waits for the other.

use std::time::Duration;

use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::port::store::ListQuery;
use semel_core::{ErrorKind, Scope, StateKind, Store};
use semel_engine::effect::Class;
use semel_engine::handler::Builder;
use semel_engine::summary::Fate;

use super::finite_source::FiniteSource;
use crate::world::broker::Broker;
use crate::world::message::{Message, member};
use crate::world::scripted::{Act, Scripted, not_applied};
use crate::world::sink::Recognises;
use crate::world::worker::Worker;
use crate::world::{KEYED, REPEAT, World};

const STEP: Duration = Duration::from_millis(20);

fn worker(world: &World, broker: &Broker) -> Worker {
    let mut worker = world.worker(broker);
    worker.pipeline.tenant = Some("json:/tenant".parse().expect("the selector is well formed"));
    worker
}

/// A message with this key of this tenant, and further members.
fn message(tenant: &str, key: &str, members: &str) -> Message {
    Message::with(key, &format!("\"tenant\":\"{tenant}\"{members}"))
}

/// The tenants of the calls, in the order in which they began.
fn called(world: &World) -> Vec<String> {
    let spans = world.sink.spans().into_iter();
    let tenants = spans.map(|span| member(&span.payload, "tenant").expect("a tenant"));
    tenants.collect()
}

#[tokio::test(start_paused = true)]
async fn one_key_of_two_tenants_is_two_operations() {
    let world = World::new();
    let broker = world.broker();
    for tenant in ["acme", "other", "acme", "other", "Acme"] {
        broker.publish(message(tenant, "a", ""));
    }
    let worker = worker(&world, &broker);
    let pipeline = worker.pipeline.clone();
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, KEYED).await.summary();

    assert_eq!(summary.of(Fate::Applied), 3);
    assert_eq!(summary.of(Fate::Replayed), 2);
    let query = ListQuery {
        limit: 10,
        ..pipeline.selection()
    };
    let listed = world.store.list(&query).await.expect("a list").items;
    let mut tenants: Vec<_> = listed
        .iter()
        .map(|it| it.operation.scope.tenant())
        .collect();
    tenants.sort_unstable();
    assert_eq!(tenants, ["Acme", "acme", "other"]);
    assert!(listed.iter().all(|it| pipeline.has(&it.operation.scope)));
    assert!(
        listed
            .iter()
            .all(|it| it.record.state.kind() == StateKind::Completed)
    );
    let mut keys: Vec<_> = listed.iter().map(|it| it.operation.id()).collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 3, "what goes downstream differs by tenant");
    let elsewhere = Scope::new("acme", "elsewhere").expect("a scope");
    assert!(!pipeline.has(&elsewhere));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_does_not_wait_for_the_same_key_of_another() {
    let world = World::new();
    let broker = world.broker();
    for tenant in ["acme", "other"] {
        broker.publish(message(tenant, "a", ""));
    }
    let worker = worker(&world, &broker);
    let effect = Scripted::new(&world, &worker.crash, [Act::Say(not_applied())]);
    worker.each(effect, REPEAT).await.summary();
    assert_eq!(called(&world), ["acme", "other", "acme"]);
}

/// The entity is one of its tenant, in the store and in the order.
#[tokio::test(start_paused = true)]
async fn versions_count_within_their_tenant() {
    let world = World::with_sink(Recognises::Nothing);
    let broker = world.broker();
    for (tenant, key, version) in [("acme", "a", 7), ("other", "b", 3), ("acme", "c", 5)] {
        let members = format!(",\"entity\":\"e\",\"version\":{version}");
        broker.publish(message(tenant, key, &members));
    }
    let mut worker = worker(&world, &broker);
    let gate = ["json:/entity", "json:/version"];
    let [entity, version] = gate.map(|it| it.parse().expect("the selector is well formed"));
    let entity: semel_core::select::Selector = entity;
    worker.pipeline.gate = Some((entity.into(), version));
    let effect = Scripted::always(&world, &worker.crash, Act::Slow(STEP, Duration::ZERO));
    let summary = worker.each(effect, Class::Transactional).await.summary();
    let counts = [Fate::Applied, Fate::Stale].map(|fate| summary.of(fate));
    assert_eq!(counts, [2, 1]);
    let spans = world.sink.spans();
    assert_eq!(spans.len(), 2);
    assert_eq!(spans[0].began, spans[1].began, "side by side");
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_named_counts_over_all_tenants() {
    let world = World::new();
    let broker = world.broker();
    for tenant in ["acme", "other"] {
        broker.publish(message(tenant, "a", ",\"account\":\"red\""));
    }
    let mut worker = worker(&world, &broker);
    worker.pipeline.order = Some(
        "json:/account"
            .parse()
            .expect("the selector is well formed"),
    );
    let effect = Scripted::new(&world, &worker.crash, [Act::Say(not_applied())]);
    worker.each(effect, REPEAT).await.summary();
    assert_eq!(called(&world), ["acme", "acme", "other"]);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_tenant_is_quarantined_however_many_come_first() {
    let world = World::new();
    let broker = world.broker();
    for number in 0..150 {
        let members = match number % 3 {
            0 => "\"tenant\":null".to_owned(),
            1 => "\"tenant\":\" \"".to_owned(),
            _ => format!("\"number\":{number}"),
        };
        broker.publish(Message::with("a", &members));
    }
    broker.publish(message("acme", "a", ""));
    broker.publish(Message::raw("{}"));
    let mut worker = worker(&world, &broker);
    // Above zero, a run without any usable key among the first hundred ends.
    worker.pipeline.pause_after = 20;
    let effect = Scripted::new(&world, &worker.crash, []);
    let summary = worker.each(effect, KEYED).await.summary();

    let counts = [Fate::Applied, Fate::Quarantined].map(|fate| summary.of(fate));
    assert_eq!(counts, [1, 151]);
    let parked = world.parked().await;
    let without = parked.iter().filter(|it| &*it.reason == "tenant-missing");
    assert_eq!(without.count(), 150);
    assert!(parked.iter().all(|it| it.scope.tenant().is_empty()));
    let no_key = parked.iter().filter(|it| &*it.reason == "key-missing");
    assert_eq!(
        no_key.count(),
        1,
        "without both, the key is what is missing"
    );
    assert_eq!(broker.unacknowledged(), 0);
}

fn builder(world: &World, payloads: &[&str]) -> Builder<impl Store + Clone + use<>, FiniteSource> {
    let deliveries = payloads.iter().zip(0..).map(|(payload, id)| {
        let coordinates = format!("place {id}");
        Delivery::new(DeliveryId(id), (*payload).to_owned(), coordinates)
    });
    FiniteSource::of(deliveries).builder(world)
}

#[tokio::test]
async fn a_handler_may_take_the_tenant_of_each_message() {
    let world = World::new();
    let payloads = [
        r#"{"id":1,"tenant":"acme"}"#,
        r#"{"id":1,"tenant":"other"}"#,
        r#"{"id":1,"tenant":"acme"}"#,
        r#"{"id":1}"#,
    ];
    let builder = builder(&world, &payloads);
    let builder = builder.key("json:/id").expect("a selector");
    let builder = builder.tenant_from("json:/tenant").expect("a selector");
    let summary = builder.run(async |_| Ok("done")).await.expect("an end");
    let fates = [Fate::Applied, Fate::Replayed, Fate::Quarantined];
    assert_eq!(fates.map(|fate| summary.of(fate)), [2, 1, 1]);
}

#[test]
fn a_handler_refuses_what_is_no_place_of_a_tenant() {
    let world = World::new();
    for (selector, words) in [
        ("headr:x", "did you mean"),
        ("coordinates", "tells messages apart, not tenants"),
    ] {
        let error = builder(&world, &[]).tenant_from(selector).expect_err(words);
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(words), "{error}");
    }
}
