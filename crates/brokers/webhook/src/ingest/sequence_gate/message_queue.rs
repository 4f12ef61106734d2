//! Messages that wait for those that are missing before them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
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
    gaps: BTreeMap<ProducerName, Gap>,
    /// The time for which the source was read, so that what nobody could hand over is not missing.
    clock: Duration,
    looked_at: Option<Instant>,
    time: Duration,
    most: Option<usize>,
}

/// The number that is missing of a producer.
#[derive(Clone, Copy)]
struct Gap {
    expected: u64,
    /// The time of the clock at which the one before it was taken.
    since: Duration,
    /// True once a message behind it was set aside: the others cannot be taken any more, either.
    is_told: bool,
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
            clock: Duration::ZERO,
            looked_at: None,
            time,
            most,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Notes the time, and whether the source was read until now. Nothing has passed where it was not, or where nobody
    /// looked for long.
    pub(super) fn passes(&mut self, now: Instant, is_read: bool) {
        let passed = self.looked_at.map_or(Duration::ZERO, |at| now - at);
        if is_read && passed <= LONGEST_LOOK {
            self.clock += passed;
        }
        self.looked_at = Some(now);
    }

    /// The time for which the source was read.
    pub(super) const fn clock(&self) -> Duration {
        self.clock
    }

    /// Notes that this number of the producer of a message is missing; tells whether the message was held for long enough:
    /// for so long it was here, and nothing of its producer was taken.
    pub(super) fn is_over(&mut self, message: &Arrived, expected: u64) -> bool {
        let producer = &message.numbers.producer;
        let new = Gap {
            expected,
            since: self.clock,
            is_told: false,
        };
        let gap = match self.gaps.get_mut(producer) {
            Some(gap) => gap,
            None => self.gaps.entry(producer.clone()).or_insert(new),
        };
        if gap.expected != expected {
            *gap = new;
        }
        gap.is_told |= message.read_at.max(gap.since) + self.time <= self.clock;
        gap.is_told
    }

    /// Holds a message; returns a tenth of them, those that were read first, if too many are held now. One that is there
    /// already has waited since it came first.
    pub(super) fn hold(&mut self, mut message: Arrived) -> Vec<Arrived> {
        let id = message.delivery.id;
        let earlier = place(&message.numbers, DeliveryId(0))..=place(&message.numbers, id);
        if let Some((_, other)) = self.messages.range(earlier).next() {
            message.read_at = message.read_at.min(other.read_at);
        }
        self.messages.insert(place(&message.numbers, id), message);
        match self.most {
            Some(most) if self.messages.len() > most => self.take_first_read(most.div_ceil(10)),
            _ => Vec::new(),
        }
    }

    fn take_first_read(&mut self, count: usize) -> Vec<Arrived> {
        let mut ages: Vec<_> = self.messages.iter().collect();
        if let Some(last) = count.checked_sub(1).filter(|last| *last < ages.len()) {
            ages.select_nth_unstable_by_key(last, |(_, it)| (it.read_at, it.delivery.id));
        }
        let first = ages.into_iter().take(count);
        let first: Vec<_> = first.map(|(place, _)| place.clone()).collect();
        self.take_at(&first)
    }

    fn take_at(&mut self, places: &[Place]) -> Vec<Arrived> {
        let taken = places.iter().filter_map(|it| self.messages.remove(it));
        taken.collect()
    }

    /// Takes those that are to be asked about though nothing of their producer was taken here: the first of each, which
    /// tells whether others took what is missing, and all of one whose gap lasts.
    pub(super) fn take_due(&mut self) -> Vec<Arrived> {
        let mut due = Vec::new();
        let mut rest = Bound::Unbounded;
        while let Some((first, _)) = self.messages.range((rest, Bound::Unbounded)).next() {
            let producer = &first.0;
            let gap = self.gaps.get(producer);
            let lasts = gap.is_none_or(|it| it.since + self.time <= self.clock);
            let places = of(&self.messages, producer).map(|(place, _)| place.clone());
            due.extend(places.take(if lasts { usize::MAX } else { 1 }));
            rest = Bound::Excluded(last_of(producer));
        }
        let messages = &self.messages;
        // Who has nothing here any more waits for nothing.
        self.gaps
            .retain(|producer, gap| gap.is_told || of(messages, producer).next().is_some());
        self.take_at(&due)
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Arrived> + use<> {
        self.gaps.clear();
        std::mem::take(&mut self.messages).into_values()
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
        self.take_at(&places)
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

/// A longer time between two looks is one in which the process stood still, or nobody asked for messages.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// Returns the messages of a producer, in their order.
fn of<'h>(
    held: &'h BTreeMap<Place, Arrived>,
    producer: &ProducerName,
) -> impl Iterator<Item = (&'h Place, &'h Arrived)> + use<'h> {
    let first = (producer.clone(), 0, 0, DeliveryId(0));
    held.range(first..=last_of(producer))
}

/// Returns the place behind all messages of a producer.
fn last_of(producer: &ProducerName) -> Place {
    (producer.clone(), u64::MAX, u64::MAX, DeliveryId(u64::MAX))
}
