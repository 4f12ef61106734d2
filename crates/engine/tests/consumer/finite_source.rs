//! A source that hands over its messages at once, and ends.

use std::sync::{Arc, Mutex};

use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::{Claimant, Result, Store};
use semel_engine::event::Unobserved;
use semel_engine::handler::Builder;
use semel_engine::once::Settings;
use semel_engine::surroundings::Surroundings;
use semel_engine::system::{SystemClock, SystemEntropy};

use crate::world::World;

/// Hands over its messages, ends, and notes what it is told.
#[derive(Default)]
pub(crate) struct FiniteSource {
    deliveries: Vec<Delivery>,
    told: Arc<Mutex<Vec<Acknowledgement>>>,
}

impl FiniteSource {
    pub(crate) fn of(deliveries: impl Iterator<Item = Delivery>) -> Self {
        Self {
            deliveries: deliveries.collect(),
            ..Self::default()
        }
    }

    /// Returns what it will have been told.
    pub(crate) fn told(&self) -> Arc<Mutex<Vec<Acknowledgement>>> {
        Arc::clone(&self.told)
    }

    /// Begins a pipeline that runs its messages over the store of a world, with real clocks.
    pub(crate) fn builder(self, world: &World) -> Builder<impl Store + Clone + use<>, Self> {
        let surroundings = Surroundings {
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            claimant: Claimant::random(&SystemEntropy),
            observer: Arc::new(Unobserved),
        };
        Builder::new(
            "jobs",
            self,
            world.store.clone(),
            surroundings,
            &Settings::default(),
        )
    }
}

impl Source for FiniteSource {
    async fn fetch(&mut self, _: usize) -> Result<Fetched> {
        Ok(match std::mem::take(&mut self.deliveries) {
            none if none.is_empty() => Fetched::Ended,
            all => Fetched::Deliveries(all),
        })
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        self.told.lock().expect("no panic").extend(batch);
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
