//! Order per key: messages that are ready, that wait behind those, and that are held back until later.
//!
//! A lane is open while a message of its order key is ready, running or held back; later messages of that key
//! wait in it. Not for deciding anything about keys.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use semel_core::port::source::DeliveryId;

use super::in_hand::{InHand, LaneId};
use crate::event::Wait;

/// Messages in hand, by what they wait for.
pub(super) struct Lanes {
    ready: VecDeque<InHand>,
    open: HashTable<Lane>,
    /// Held back until a monotonic time.
    delayed: BTreeMap<(Duration, u64), InHand>,
    sequence: u64,
    len: usize,
    /// Messages that wait behind others of their order key.
    waiting: usize,
    /// Payload bytes of the messages in hand.
    bytes: usize,
    /// Every message opens a lane, not only one that is held back.
    every: bool,
}

/// One order key that has a message ready, running or held back. Small, since there are as many lanes as
/// messages.
struct Lane {
    id: LaneId,
    /// The lane's first message is held back.
    held_back: bool,
    #[expect(
        clippy::box_collection,
        reason = "a quarter of the size, and next to no lane has one"
    )]
    waiting: Option<Box<VecDeque<InHand>>>,
}

impl Lane {
    const fn new(id: LaneId) -> Self {
        Self {
            id,
            held_back: false,
            waiting: None,
        }
    }

    fn push(&mut self, incoming: InHand) {
        self.waiting.get_or_insert_default().push_back(incoming);
    }

    fn pop(&mut self) -> Option<InHand> {
        self.waiting.as_mut()?.pop_front()
    }

    fn len(&self) -> usize {
        self.waiting.as_ref().map_or(0, |waiting| waiting.len())
    }
}

impl Lanes {
    pub(super) fn new(every: bool) -> Self {
        Self {
            ready: VecDeque::new(),
            open: HashTable::new(),
            delayed: BTreeMap::new(),
            sequence: 0,
            len: 0,
            waiting: 0,
            bytes: 0,
            every,
        }
    }

    fn entry(&mut self, id: LaneId) -> Entry<'_, Lane> {
        let is_it = |lane: &Lane| lane.id == id;
        self.open.entry(id.spread(), is_it, |lane| lane.id.spread())
    }

    fn open_lane(&mut self, id: LaneId) -> Option<&mut Lane> {
        self.open.find_mut(id.spread(), |lane| lane.id == id)
    }

    /// Counts the messages in hand: ready, waiting, held back or running.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns the payload bytes in hand.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts the messages that wait behind others, or are held back.
    pub(super) fn held(&self) -> usize {
        self.waiting + self.delayed.len()
    }

    /// Counts the messages that are neither ready nor held.
    pub(super) fn running(&self) -> usize {
        self.len.saturating_sub(self.ready.len() + self.held())
    }

    /// Takes a message in hand at `now`, behind those of its order key; returns whether it waits for them, for the
    /// first time.
    pub(super) fn admit(&mut self, mut incoming: InHand, now: Duration) -> bool {
        self.len += 1;
        self.bytes += incoming.payload.len();
        let lane = if self.every {
            match self.entry(incoming.lane()) {
                Entry::Occupied(lane) => Some(lane.into_mut()),
                Entry::Vacant(place) => {
                    place.insert(Lane::new(incoming.lane()));
                    None
                }
            }
        } else {
            self.open_lane(incoming.lane())
        };
        let Some(lane) = lane else {
            self.ready.push_back(incoming);
            return false;
        };
        incoming.timing_mut().begin_wait(now);
        let is_first = incoming.timing_mut().first_waits(Wait::Order);
        lane.push(incoming);
        self.waiting += 1;
        is_first
    }

    /// Takes out at most `max` messages to be tried now. Each must come back by [`Lanes::delay`] or
    /// [`Lanes::finish`].
    pub(super) fn take(&mut self, max: usize) -> Vec<InHand> {
        let count = max.min(self.ready.len());
        self.ready.drain(..count).collect()
    }

    /// Takes out one message: the first preferred one, or the first of all.
    pub(super) fn take_one(&mut self, is_preferred: impl Fn(DeliveryId) -> bool) -> Vec<InHand> {
        let mut ready = self.ready.iter();
        let at = ready.position(|incoming| is_preferred(incoming.delivery));
        let taken = self.ready.remove(at.unwrap_or_default());
        taken.into_iter().collect()
    }

    /// Tells whether a wanted message is ready, or held back until later.
    pub(super) fn has(&self, is_wanted: impl Fn(DeliveryId) -> bool) -> bool {
        let mut all = self.ready.iter().chain(self.delayed.values());
        all.any(|incoming| is_wanted(incoming.delivery))
    }

    /// Puts messages back to be tried first, in their order.
    pub(super) fn put_back(&mut self, batch: Vec<InHand>) {
        for incoming in batch.into_iter().rev() {
            self.ready.push_front(incoming);
        }
    }

    /// Holds a message back until `due`; those of its order key wait behind it.
    pub(super) fn delay(&mut self, incoming: InHand, due: Duration) {
        let mut lane = self
            .entry(incoming.lane())
            .or_insert_with(|| Lane::new(incoming.lane()));
        let lane = lane.get_mut();
        if lane.held_back {
            lane.push(incoming);
            self.waiting += 1;
            return;
        }
        lane.held_back = true;
        self.sequence += 1;
        self.delayed.insert((due, self.sequence), incoming);
    }

    /// Makes ready the messages that are due at `now`.
    pub(super) fn wake(&mut self, now: Duration) {
        while let Some(entry) = self.delayed.first_entry() {
            let due = entry.key().0;
            if due > now {
                break;
            }
            let mut incoming = entry.remove();
            incoming.timing_mut().end_wait(due);
            if let Some(lane) = self.open_lane(incoming.lane()) {
                lane.held_back = false;
            }
            self.ready.push_back(incoming);
        }
    }

    /// Returns the time at which the next message is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.delayed.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Lets go of a message that met its fate by `now`; the next one of its order key becomes ready.
    pub(super) fn finish(&mut self, lane: LaneId, payload_bytes: usize, now: Duration) {
        self.len -= 1;
        self.bytes -= payload_bytes;
        let found = self.open.find_entry(lane.spread(), |open| open.id == lane);
        let Ok(mut lane) = found else {
            return;
        };
        match lane.get_mut().pop() {
            Some(mut next) => {
                next.timing_mut().end_wait(now);
                self.waiting -= 1;
                self.ready.push_back(next);
            }
            None if lane.get().held_back => {}
            None => {
                lane.remove();
            }
        }
    }

    /// Lets go of those of `deliveries` that are not running, and returns them.
    pub(super) fn withdraw(
        &mut self,
        deliveries: &BTreeSet<DeliveryId>,
        now: Duration,
    ) -> Vec<DeliveryId> {
        let mut gone = Vec::new();
        let waiting = self.open.iter_mut().filter_map(|it| it.waiting.as_mut());
        for waiting in waiting {
            waiting.retain(|incoming| {
                let stays = !deliveries.contains(&incoming.delivery);
                if !stays {
                    gone.push(incoming.delivery);
                    self.len -= 1;
                    self.waiting -= 1;
                    self.bytes -= incoming.payload.len();
                }
                stays
            });
        }
        let is_gone = |incoming: &InHand| deliveries.contains(&incoming.delivery);
        let (held_back, stays): (BTreeMap<_, _>, _) = std::mem::take(&mut self.delayed)
            .into_iter()
            .partition(|(_, incoming)| is_gone(incoming));
        self.delayed = stays;
        let mut first: Vec<_> = held_back.into_values().collect();
        for incoming in &first {
            if let Some(lane) = self.open_lane(incoming.lane()) {
                lane.held_back = false;
            }
        }
        let ready = std::mem::take(&mut self.ready);
        let (out, stays): (VecDeque<_>, _) = ready.into_iter().partition(is_gone);
        self.ready = stays;
        first.extend(out);
        for incoming in first {
            gone.push(incoming.delivery);
            self.finish(incoming.lane(), incoming.payload.len(), now);
        }
        gone
    }

    /// Visits every message that is not running.
    pub(super) fn each_held(&self, visit: impl FnMut(&InHand)) {
        let waiting = self.open.iter().filter_map(|it| it.waiting.as_ref());
        let waiting = waiting.flat_map(|it| it.iter());
        let first = self.ready.iter().chain(self.delayed.values());
        first.chain(waiting).for_each(visit);
    }

    /// Lets go of every message that is not running, and counts them.
    pub(super) fn abandon(&mut self) -> usize {
        let waiting: usize = self.open.iter().map(Lane::len).sum();
        let abandoned = self.ready.len() + self.delayed.len() + waiting;
        self.ready.clear();
        self.delayed.clear();
        self.open.clear();
        self.waiting = 0;
        self.len -= abandoned;
        abandoned
    }
}
