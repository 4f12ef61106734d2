//! Messages that a gate before their source has judged: what is known is a duplicate, what is refused is set aside.

use std::sync::{Arc, Mutex};

use semel_core::port::source::{
    Acknowledgement, Delivery, DeliveryId, Fetched, Judgement, Progress, Source,
};
use semel_core::{Claimant, Result, Unusable};
use semel_engine::event::Unobserved;
use semel_engine::handler::Builder;
use semel_engine::once::Settings;
use semel_engine::summary::Fate;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};

use crate::world::World;

/// Hands over its messages, ends, and notes what it is told.
struct Once(Vec<Delivery>, Arc<Mutex<Vec<Acknowledgement>>>);

impl Source for Once {
    async fn fetch(&mut self, _: usize) -> Result<Fetched> {
        Ok(match std::mem::take(&mut self.0) {
            none if none.is_empty() => Fetched::Ended,
            all => Fetched::Deliveries(all),
        })
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.1.lock().expect("no panic").extend(batch);
        Ok(())
    }

    async fn requeue(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    async fn extend(&mut self, _: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

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
    let told = Arc::<Mutex<Vec<_>>>::default();
    let source = Once(deliveries.collect(), Arc::clone(&told));
    let surroundings = Surroundings {
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        claimant: Claimant::random(&SystemEntropy),
        observer: Arc::new(Unobserved),
    };
    let store = world.store.clone();
    let builder = Builder::new("jobs", source, store, surroundings, &Settings::default());
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
