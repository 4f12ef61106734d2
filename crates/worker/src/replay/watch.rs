//! The fate of each delivery, for the source that has to know it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::port::source::DeliveryId;
use semel_engine::event::{Event, Observer, Origin};
use semel_engine::summary::Fate;

/// Notes the fate of each delivery and passes every event on.
pub(super) struct Fates {
    observer: Arc<dyn Observer>,
    /// The fates of deliveries that are about to be acknowledged.
    fates: Mutex<BTreeMap<DeliveryId, Fate>>,
}

impl Fates {
    pub(super) fn beside(observer: Arc<dyn Observer>) -> Self {
        Self {
            observer,
            fates: Mutex::default(),
        }
    }

    /// Takes the fate of a delivery, once.
    pub(super) fn take(&self, delivery: DeliveryId) -> Option<Fate> {
        self.locked().remove(&delivery)
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<DeliveryId, Fate>> {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Fates {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        if let Event::Settled { delivery, fate } = event {
            self.locked().insert(*delivery, *fate);
        }
        self.observer.observe(pipeline, event);
    }

    fn observe_message(&self, pipeline: &str, event: &Event<'_>, origin: Origin<'_>) {
        self.observer.observe_message(pipeline, event, origin);
    }
}
