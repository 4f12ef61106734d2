//! Messages that a gate before their source has judged: what is known is a duplicate, what is refused is set aside.

use std::sync::{Arc, Mutex};

use semel_core::Unusable;
use semel_core::port::source::{Delivery, DeliveryId, Judgement};
use semel_engine::summary::Fate;

use super::finite_source::FiniteSource;
use crate::world::World;

/// Ten known messages, then as many refused ones as would end a pipeline whose selector finds no key, then a new one.
#[tokio::test]
async fn what_a_gate_knows_is_a_duplicate_and_what_it_refuses_is_set_aside_for_its_reason() {
    let world = World::new();
    let deliveries = (0..161).map(|id| {
        let payload = format!("{{\"id\":{id}}}");
        let mut delivery = Delivery::new(DeliveryId(id), payload, format!("place {id}"));
        let at = || format!("till sent {id} in epoch 1").into();
        delivery.judgement = match id {
            0..10 => Some(Judgement::Known),
            10..160 => Some(Judgement::Refused(Unusable::SequenceGap { at: at() })),
            _ => None,
        };
        delivery
    });
    let source = FiniteSource::of(deliveries);
    let (told, builder) = (source.told(), source.builder(&world));
    let builder = builder.key("json:/id").expect("a selector");
    let ran = Arc::<Mutex<Vec<_>>>::default();
    let seen = Arc::clone(&ran);
    let summary = builder.run(move |message| {
        let payload = message.payload().to_vec();
        seen.lock().expect("no panic").push(payload);
        async { Ok("done") }
    });
    let summary = summary.await.expect("an end");
    let fates = [Fate::Applied, Fate::Replayed, Fate::Quarantined];
    assert_eq!(fates.map(|fate| summary.of(fate)), [1, 10, 150]);
    assert_eq!(*ran.lock().expect("no panic"), [b"{\"id\":160}"]);
    let parked = world.parked().await;
    assert!(parked.iter().all(|it| &*it.reason == "sequence-gap"));
    let told = told.lock().expect("no panic");
    assert_eq!(told.len(), 161, "each is acknowledged once");
    let known = told.iter().filter(|it| it.delivery.0 < 10);
    assert!(known.into_iter().all(|it| it.fate == Fate::Replayed));
}
