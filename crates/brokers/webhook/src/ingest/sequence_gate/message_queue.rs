//! Messages that wait for those that are missing before them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use semel_core::port::source::DeliveryId;
use semel_core::producer::ProducerName;
use tokio::time::Instant;

use super::judging::Arrived;
use super::numbers::Numbers;

/// The messages that wait for others of their producer. One that came twice is there twice: neither is durable yet, so that
/// neither may be acknowledged as known.
pub(super) struct Held {
    messages: BTreeMap<(Numbers, DeliveryId), Arrived>,
    time: Duration,
    most: usize,
}

impl Held {
    /// Holds each for this time, and so many of them, at most.
    pub(super) const fn new(time: Duration, most: usize) -> Self {
        Self {
            messages: BTreeMap::new(),
            time,
            most,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Tells whether a message was held for long enough.
    pub(super) fn is_over(&self, message: &Arrived, now: Instant) -> bool {
        message.read_at + self.time <= now
    }

    /// Holds a message; returns the one that was read first if too many are held now. One that is there already has waited
    /// since it came first.
    pub(super) fn hold(&mut self, mut message: Arrived) -> Option<Arrived> {
        let id = message.delivery.id;
        let numbers = &message.numbers;
        let earlier = (numbers.clone(), DeliveryId(0))..=(numbers.clone(), id);
        if let Some((_, other)) = self.messages.range(earlier).next() {
            message.read_at = message.read_at.min(other.read_at);
        }
        self.messages.insert((message.numbers.clone(), id), message);
        if self.messages.len() <= self.most {
            return None;
        }
        let oldest = self.messages.iter().min_by_key(|(_, it)| it.read_at);
        let oldest = oldest.map(|(place, _)| place.clone());
        oldest.and_then(|place| self.messages.remove(&place))
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Arrived> + use<> {
        std::mem::take(&mut self.messages).into_values()
    }

    /// Takes those of a producer.
    pub(super) fn take_of(
        &mut self,
        producer: &ProducerName,
    ) -> impl Iterator<Item = Arrived> + use<> {
        let all = std::mem::take(&mut self.messages).into_iter();
        let (of_it, others) =
            all.partition::<BTreeMap<_, _>, _>(|(_, it)| it.numbers.producer == *producer);
        self.messages = others;
        of_it.into_values()
    }

    /// Lets go of deliveries that belong to another consumer now.
    pub(super) fn drop_all(&mut self, gone: &BTreeSet<DeliveryId>) {
        self.messages.retain(|(_, id), _| !gone.contains(id));
    }

    /// Returns their deliveries.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = DeliveryId> {
        self.messages.keys().map(|(_, id)| *id)
    }
}
