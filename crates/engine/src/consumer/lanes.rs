//! Order per key: what is ready to be tried, what waits behind it, what is held back until later.
//!
//! A lane is open while a message of its order key is ready, running or held back; later messages
//! of that key wait in it. Not for deciding anything about keys.

#[expect(
    clippy::disallowed_types,
    reason = "keyed below; its order decides nothing"
)]
use std::collections::HashMap;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::BuildHasher;
use std::time::Duration;

use bytes::Bytes;
use semel_core::Entropy;
use semel_core::port::source::DeliveryId;
use siphasher::sip::SipHasher13;

use crate::pipeline::Incoming;

/// Messages in hand, by what they wait for.
pub(super) struct Lanes {
    ready: VecDeque<Incoming>,
    open: Open,
    /// Held back until a monotonic time.
    delayed: BTreeMap<(Duration, u64), Incoming>,
    sequence: u64,
    len: usize,
    /// Payload bytes of those.
    bytes: usize,
    /// Whether every message opens a lane, or only one that is held back.
    every: bool,
}

#[expect(
    clippy::disallowed_types,
    reason = "keyed below; its order decides nothing"
)]
type Open = HashMap<Bytes, Lane, Keyed>;

/// One order key of which a message is ready, running or held back.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Incoming>,
    /// Whether its first message is held back.
    held_back: bool,
}

impl Lanes {
    pub(super) fn new(every: bool, entropy: &dyn Entropy) -> Self {
        Self {
            ready: VecDeque::new(),
            open: Open::with_hasher(Keyed::random(entropy)),
            delayed: BTreeMap::new(),
            sequence: 0,
            len: 0,
            bytes: 0,
            every,
        }
    }

    /// Messages in hand: ready, waiting, held back or running.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Payload bytes in hand.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes a message in hand, behind those of its order key.
    pub(super) fn admit(&mut self, incoming: Incoming) {
        self.len += 1;
        self.bytes += incoming.payload.len();
        if self.every || !self.open.is_empty() {
            let order = incoming.order();
            if let Some(lane) = self.open.get_mut(&order) {
                lane.waiting.push_back(incoming);
                return;
            }
            if self.every {
                self.open.insert(order, Lane::default());
            }
        }
        self.ready.push_back(incoming);
    }

    /// Takes out at most `max` messages to be tried now. Each must come back by [`Lanes::delay`]
    /// or [`Lanes::finish`].
    pub(super) fn take(&mut self, max: usize) -> Vec<Incoming> {
        let count = max.min(self.ready.len());
        self.ready.drain(..count).collect()
    }

    /// Puts messages back to be tried first, in their order.
    pub(super) fn put_back(&mut self, batch: Vec<Incoming>) {
        for incoming in batch.into_iter().rev() {
            self.ready.push_front(incoming);
        }
    }

    /// Holds a message back until `due`; those of its order key wait behind it.
    pub(super) fn delay(&mut self, incoming: Incoming, due: Duration) {
        let lane = self.open.entry(incoming.order()).or_default();
        if lane.held_back {
            lane.waiting.push_back(incoming);
            return;
        }
        lane.held_back = true;
        self.sequence += 1;
        self.delayed.insert((due, self.sequence), incoming);
    }

    /// Makes ready what is due at `now`.
    pub(super) fn wake(&mut self, now: Duration) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let incoming = entry.remove();
            if let Some(lane) = self.open.get_mut(&incoming.order()) {
                lane.held_back = false;
            }
            self.ready.push_back(incoming);
        }
    }

    /// When the next message is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.delayed.first_key_value().map(|(&(due, _), _)| due)
    }

    /// Lets a message go that met its fate; the next of its order key becomes ready.
    pub(super) fn finish(&mut self, order: &Bytes, payload_bytes: usize) {
        self.len -= 1;
        self.bytes -= payload_bytes;
        if self.open.is_empty() {
            return;
        }
        let Some(lane) = self.open.get_mut(order) else {
            return;
        };
        match lane.waiting.pop_front() {
            Some(next) => self.ready.push_back(next),
            None if lane.held_back => {}
            None => {
                self.open.remove(order);
            }
        }
    }

    /// Lets go of those of `deliveries` that are not running, and says which.
    pub(super) fn withdraw(&mut self, deliveries: &BTreeSet<DeliveryId>) -> Vec<DeliveryId> {
        let mut gone = Vec::new();
        for lane in self.open.values_mut() {
            lane.waiting.retain(|incoming| {
                let stays = !deliveries.contains(&incoming.delivery);
                if !stays {
                    gone.push(incoming.delivery);
                    self.len -= 1;
                    self.bytes -= incoming.payload.len();
                }
                stays
            });
        }
        let is_gone = |incoming: &Incoming| deliveries.contains(&incoming.delivery);
        let (held_back, stays): (BTreeMap<_, _>, _) = std::mem::take(&mut self.delayed)
            .into_iter()
            .partition(|(_, incoming)| is_gone(incoming));
        self.delayed = stays;
        let mut first: Vec<_> = held_back.into_values().collect();
        for incoming in &first {
            if let Some(lane) = self.open.get_mut(&incoming.order()) {
                lane.held_back = false;
            }
        }
        let ready = std::mem::take(&mut self.ready);
        let (out, stays): (VecDeque<_>, _) = ready.into_iter().partition(is_gone);
        self.ready = stays;
        first.extend(out);
        for incoming in first {
            gone.push(incoming.delivery);
            self.finish(&incoming.order(), incoming.payload.len());
        }
        gone
    }

    /// Lets go of everything that is not running.
    pub(super) fn abandon(&mut self) -> usize {
        let waiting: usize = self.open.values().map(|lane| lane.waiting.len()).sum();
        let abandoned = self.ready.len() + self.delayed.len() + waiting;
        self.ready.clear();
        self.delayed.clear();
        self.open.clear();
        self.len -= abandoned;
        abandoned
    }
}

/// A hash map keyed once per run, so that senders cannot choose collisions; its iteration order
/// decides nothing.
struct Keyed(u64, u64);

impl Keyed {
    fn random(entropy: &dyn Entropy) -> Self {
        let (mut low, mut high) = ([0; 8], [0; 8]);
        entropy.fill(&mut low);
        entropy.fill(&mut high);
        Self(u64::from_le_bytes(low), u64::from_le_bytes(high))
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}
