//! The source is told how each delivery ended, so that it can say so to whoever sent it.

use std::time::Duration;

use semel_core::Clock;
use semel_engine::effect::{Class, Verdict};
use semel_engine::pipeline::Fail;
use semel_engine::summary::Fate;

use super::broker_with;
use crate::world::broker::Broker;
use crate::world::fault::Fault;
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted, maybe_applied};
use crate::world::worker::{Manner, Worker};
use crate::world::{PARK, REPEAT, WINDOW, World};

/// Runs what `broker` has in every manner, each time in a world of its own, and demands of each run that the
/// source was told `fates`, message by message.
async fn told(
    publish: impl Fn(&World) -> Broker,
    set: impl Fn(&mut Worker),
    act: Act,
    class: Class,
    fates: &[Fate],
) {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = publish(&world);
        let mut worker = world.worker(&broker);
        set(&mut worker);
        let effect = Scripted::always(&world, &worker.crash, act.clone());
        let summary = worker.by(manner, effect, class).await.summary();
        assert_eq!(broker.fates(), fates, "{manner:?}: {summary:?}");
    }
}

fn as_it_is(_: &mut Worker) {}

#[tokio::test(start_paused = true)]
async fn applied() {
    let publish = |world: &World| broker_with(world, &["a", "b"]);
    let fates = [Fate::Applied, Fate::Applied];
    told(publish, as_it_is, Act::Do, PARK, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn replayed() {
    let publish = |world: &World| broker_with(world, &["a", "a", "b"]);
    let fates = [Fate::Applied, Fate::Replayed, Fate::Applied];
    told(publish, as_it_is, Act::Do, PARK, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn conflict() {
    let publish = |world: &World| {
        let broker = broker_with(world, &["a"]);
        broker.publish(Message::with("a", "\"amount\":9"));
        broker
    };
    let fates = [Fate::Applied, Fate::Conflict];
    told(publish, as_it_is, Act::Do, PARK, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn too_old() {
    let publish = |world: &World| {
        let broker = world.broker();
        let long_ago = world.clock.now().minus(WINDOW.duration());
        broker.publish(Message::of("old").born(long_ago));
        broker.publish(Message::of("young").born(world.clock.now()));
        broker
    };
    let fates = [Fate::TooOld, Fate::Applied];
    told(publish, as_it_is, Act::Do, PARK, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn dead() {
    let publish = |world: &World| broker_with(world, &["a", "a"]);
    let verdict = Verdict::Dead {
        decisive: false,
        error: "404".into(),
    };
    let fates = [Fate::Dead, Fate::Dead];
    told(publish, as_it_is, Act::Say(verdict), PARK, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn in_doubt() {
    let publish = |world: &World| broker_with(world, &["a", "a"]);
    let fates = [Fate::InDoubt, Fate::InDoubt];
    told(publish, as_it_is, Act::Say(maybe_applied()), PARK, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn quarantined() {
    let publish = |world: &World| {
        let broker = broker_with(world, &["a"]);
        broker.publish(Message::raw("no json"));
        broker
    };
    let fates = [Fate::Applied, Fate::Quarantined];
    told(publish, as_it_is, Act::Do, PARK, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn unprotected() {
    let publish = |world: &World| {
        let broker = broker_with(world, &["a"]);
        broker.accept_unprotected();
        broker
    };
    let fails_open = |worker: &mut Worker| {
        worker.outage.fail = Fail::Open;
        let minute = Duration::from_secs(60);
        worker.plan.away(Duration::ZERO, minute, Fault::Full);
    };
    let fates = [Fate::Unprotected];
    told(publish, fails_open, Act::Do, REPEAT, &fates).await;
}

#[tokio::test(start_paused = true)]
async fn stale() {
    let publish = |world: &World| {
        let broker = world.broker();
        for (key, version) in [("a", 3), ("b", 1)] {
            let members = format!("\"entity\":\"e\",\"version\":{version}");
            broker.publish(Message::with(key, &members));
        }
        broker
    };
    let gated = |worker: &mut Worker| {
        let entity = "json:/entity".parse().expect("a selector");
        let version = "json:/version".parse().expect("a selector");
        worker.pipeline.gate = Some((entity, version));
    };
    let fates = [Fate::Applied, Fate::Stale];
    told(publish, gated, Act::Do, Class::Transactional, &fates).await;
}
