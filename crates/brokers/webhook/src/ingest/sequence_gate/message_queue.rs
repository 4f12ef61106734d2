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
    messages: BTreeMap<Place, Arrived>,
    /// The number that each producer is waited for at, and since when: a gap lasts from the last that was taken.
    gaps: BTreeMap<ProducerName, (u64, Instant)>,
    time: Duration,
    most: Option<usize>,
}

/// In the order in which the messages of a producer can be taken, whatever opening sent them.
type Place = (ProducerName, u64, u64, DeliveryId);

fn place(numbers: &Numbers, id: DeliveryId) -> Place {
    (
        numbers.producer.clone(),
        numbers.sequence,
        numbers.epoch,
        id,
    )
}

impl Held {
    /// Holds messages while a gap moves within this time, and so many of them, at most, if that is bounded.
    pub(super) const fn new(time: Duration, most: Option<usize>) -> Self {
        Self {
            messages: BTreeMap::new(),
            gaps: BTreeMap::new(),
            time,
            most,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Notes that this number of the producer of a message is missing; tells whether the message was held for long enough:
    /// for so long it was here, and nothing of its producer was taken.
    pub(super) fn is_over(&mut self, message: &Arrived, expected: u64, now: Instant) -> bool {
        let producer = &message.numbers.producer;
        let (number, since) = match self.gaps.get_mut(producer) {
            Some(gap) => gap,
            None => self.gaps.entry(producer.clone()).or_insert((expected, now)),
        };
        if *number != expected {
            (*number, *since) = (expected, now);
        }
        message.read_at.max(*since) + self.time <= now
    }

    /// Holds a message; returns the one that was read first if too many are held now. One that is there already has waited
    /// since it came first.
    pub(super) fn hold(&mut self, mut message: Arrived) -> Option<Arrived> {
        let id = message.delivery.id;
        let earlier = place(&message.numbers, DeliveryId(0))..=place(&message.numbers, id);
        if let Some((_, other)) = self.messages.range(earlier).next() {
            message.read_at = message.read_at.min(other.read_at);
        }
        self.messages.insert(place(&message.numbers, id), message);
        if self.most.is_none_or(|most| self.messages.len() <= most) {
            return None;
        }
        let oldest = self.messages.iter().min_by_key(|(_, it)| it.read_at);
        let oldest = oldest.map(|(place, _)| place.clone());
        oldest.and_then(|place| self.messages.remove(&place))
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Arrived> + use<> {
        let held = std::mem::take(&mut self.messages);
        // Who has nothing here any more waits for nothing.
        self.gaps
            .retain(|producer, _| of(&held, producer).next().is_some());
        held.into_values()
    }

    /// Takes those of a producer that can be taken or are known once `next` is what it is to send.
    pub(super) fn take_next(&mut self, producer: &ProducerName, mut next: u64) -> Vec<Arrived> {
        let mut places = Vec::new();
        for (place, _) in of(&self.messages, producer) {
            if place.1 > next {
                break;
            }
            next = next.max(place.1 + 1);
            places.push(place.clone());
        }
        let taken = places.iter().filter_map(|it| self.messages.remove(it));
        taken.collect()
    }

    /// Lets go of deliveries that belong to another consumer now.
    pub(super) fn drop_all(&mut self, gone: &BTreeSet<DeliveryId>) {
        self.messages.retain(|(.., id), _| !gone.contains(id));
    }

    /// Returns their deliveries.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = DeliveryId> {
        self.messages.keys().map(|(.., id)| *id)
    }
}

/// Returns the messages of a producer, in their order.
fn of<'h>(
    held: &'h BTreeMap<Place, Arrived>,
    producer: &ProducerName,
) -> impl Iterator<Item = (&'h Place, &'h Arrived)> + use<'h> {
    let first = (producer.clone(), 0, 0, DeliveryId(0));
    let last = (producer.clone(), u64::MAX, u64::MAX, DeliveryId(u64::MAX));
    held.range(first..=last)
}
