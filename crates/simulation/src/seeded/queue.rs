//! The messages of a broker, and the state of each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::source::{Delivery, DeliveryId};
use semel_core::{ByteString, Timestamp};
use tokio::sync::Notify;

use crate::seeded::dice::Dice;
use crate::seeded::plan::Plan;

/// The messages, and the state of each.
pub(crate) struct Queue {
    pub(crate) messages: Vec<Message>,
    next_delivery: u64,
    /// Notified when a message is there again.
    pub(crate) changed: Arc<Notify>,
    visibility: Duration,
    most_deliveries: Option<u32>,
}

pub(crate) struct Message {
    pub(crate) operation: usize,
    pub(crate) payload: Bytes,
    coordinates: ByteString,
    pub(crate) born: Duration,
    deliveries: Vec<DeliveryId>,
    pub(crate) place: Place,
    /// The delivery that a transaction of the broker named.
    committed: Option<DeliveryId>,
}

/// The state of the delivery that a transaction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    Now,
    Before,
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To be delivered from then on.
    Waiting {
        from: Duration,
    },
    InHand {
        delivery: DeliveryId,
        worker: usize,
        until: Duration,
    },
    Done,
    /// The broker gave it up, where everyone can see that.
    GivenUp,
}

impl Message {
    /// The latest delivery of it.
    pub(crate) fn delivery(&self, start_millis: u64) -> Delivery {
        let born = start_millis + u64::try_from(self.born.as_millis()).unwrap_or_default();
        let id = self.deliveries.last().copied().unwrap_or(DeliveryId(0));
        let (payload, coordinates) = (self.payload.clone(), self.coordinates.clone());
        let mut delivery = Delivery::new(id, payload, coordinates);
        delivery.appended_at = Some(Timestamp::from_millis(born));
        delivery.received = u32::try_from(self.deliveries.len()).ok();
        delivery
    }
}

impl Queue {
    pub(crate) fn new(plan: &Plan) -> Self {
        let planned = plan.messages.iter().enumerate();
        let messages = planned.map(|(number, planned)| {
            let first = planned.copy_of.unwrap_or(number);
            let operation = planned.operation;
            let other = if planned.is_other { ",\"other\":1" } else { "" };
            // Two entities, whose versions are published in random order.
            let (entity, version) = (operation % 2, operation / 2 + 1);
            let payload = format!(
                "{{\"key\":\"k{operation}\",\"entity\":\"e{entity}\",\"version\":{version}{other}}}"
            );
            Message {
                operation,
                payload: payload.into(),
                coordinates: format!("m{first}").into(),
                born: plan.messages[first].at,
                deliveries: Vec::new(),
                place: Place::Waiting { from: planned.at },
                committed: None,
            }
        });
        Self {
            messages: messages.collect(),
            next_delivery: 1,
            changed: Arc::default(),
            visibility: plan.visibility,
            most_deliveries: plan.most_deliveries,
        }
    }

    /// Returns whether no more deliveries will come.
    pub(crate) fn is_done(&self) -> bool {
        let is_done = |message: &Message| matches!(message.place, Place::Done | Place::GivenUp);
        self.messages.iter().all(is_done)
    }

    /// Operations of which a worker has a message in hand.
    pub(crate) fn in_hand(&self, of: usize) -> Vec<usize> {
        let is_its = |place| matches!(place, Place::InHand { worker, .. } if worker == of);
        let its = self.messages.iter().filter(|message| is_its(message.place));
        its.map(|message| message.operation).collect()
    }

    /// Returns whether the broker gave up a message of this operation.
    pub(crate) fn gave_up(&self, operation: usize) -> bool {
        let given_up = |it: &Message| it.operation == operation && it.place == Place::GivenUp;
        self.messages.iter().any(given_up)
    }

    /// Ends the worker's connection: the messages that it had in hand are there for others.
    pub(crate) fn hand_back(&mut self, of: usize, now: Duration) {
        for message in &mut self.messages {
            if matches!(message.place, Place::InHand { worker, .. } if worker == of) {
                message.place = Place::Waiting { from: now };
            }
        }
        self.changed.notify_waiters();
    }

    /// Takes the available messages for a worker, or returns the time at which to look again.
    pub(crate) fn take(
        &mut self,
        worker: usize,
        now: Duration,
        dice: &mut Dice,
        max: usize,
    ) -> std::result::Result<Vec<usize>, Option<Duration>> {
        let mut there = Vec::new();
        let mut next: Option<Duration> = None;
        for (number, message) in self.messages.iter_mut().enumerate() {
            let from = match message.place {
                Place::Waiting { from } => from,
                Place::InHand { until, .. } => until,
                Place::Done | Place::GivenUp => continue,
            };
            if from > now {
                next = Some(next.map_or(from, |next| next.min(from)));
                continue;
            }
            let deliveries = u32::try_from(message.deliveries.len()).unwrap_or(u32::MAX);
            if self.most_deliveries.is_some_and(|most| deliveries >= most) {
                message.place = Place::GivenUp;
                continue;
            }
            there.push(number);
        }
        if there.is_empty() {
            return Err(next);
        }
        // Now and then in another order than that of publication.
        if there.len() > 1 && dice.one_in(3) {
            let first = dice.place(there.len());
            there.rotate_left(first);
        }
        there.truncate(max);
        for &number in &there {
            let delivery = DeliveryId(self.next_delivery);
            self.next_delivery += 1;
            let message = &mut self.messages[number];
            message.deliveries.push(delivery);
            message.place = Place::InHand {
                delivery,
                worker,
                until: now + self.visibility,
            };
        }
        Ok(there)
    }

    /// Returns whether a worker has this delivery in hand.
    pub(crate) fn is_current(&mut self, delivery: DeliveryId) -> bool {
        self.current(&[delivery]).next().is_some()
    }

    /// Plays a transaction of the broker: the delivery's message is read, if the delivery is current.
    pub(crate) fn commit(&mut self, delivery: DeliveryId) -> Commit {
        if let Some(message) = self.current(&[delivery]).next() {
            message.place = Place::Done;
            message.committed = Some(delivery);
            return Commit::Now;
        }
        let is_its = |message: &Message| message.committed == Some(delivery);
        if self.messages.iter().any(is_its) {
            Commit::Before
        } else {
            Commit::Gone
        }
    }

    /// The messages of which these are the current deliveries.
    pub(crate) fn current(&mut self, batch: &[DeliveryId]) -> impl Iterator<Item = &mut Message> {
        let batch: BTreeSet<_> = batch.iter().copied().collect();
        let is_current = move |message: &&mut Message| matches!(message.place, Place::InHand { delivery, .. } if batch.contains(&delivery));
        self.messages.iter_mut().filter(is_current)
    }

    /// The message that this was a delivery of.
    pub(crate) fn of(&self, delivery: DeliveryId) -> Option<&Message> {
        self.messages
            .iter()
            .find(|message| message.deliveries.contains(&delivery))
    }
}
