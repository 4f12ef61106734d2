//! The client with a fault: when it has no answer, it asks for the next sequence and sends its message under that. What
//! was taken before runs twice.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::client::{ANSWERED, Client, Field, Request, number, shown};
use super::opening::identity;
use super::{MS, PRODUCERS, UNORDERED};
use crate::http::Reply;
use crate::moments::now;
use crate::outbox::{Order, Place};
use crate::workers::PATIENCE;

/// The client.
pub(super) struct Control<'f> {
    client: Client<'f>,
    next: u64,
    /// The number of messages that were taken; the one behind them is under way.
    taken: u64,
    /// True if the last request was not answered.
    is_unsure: bool,
}

impl<'f> Control<'f> {
    pub(super) fn new(field: &'f Field) -> Self {
        Self {
            client: Client::new(field, 2 * PRODUCERS + 1),
            next: 1,
            taken: 0,
            is_unsure: false,
        }
    }

    /// Sends one message after the other.
    pub(super) fn run(&mut self) {
        while !self.client.field.is_over() {
            self.goes_on();
            self.client.rests();
        }
    }

    /// Ends what is under way.
    pub(super) fn ends(&mut self) {
        let (end, began) = (self.taken + 1, now());
        while self.taken < end {
            self.goes_on();
            assert!(began.elapsed() < PATIENCE, "the control");
        }
    }

    /// Everything that was taken, once or more often, in no order.
    pub(super) fn taken(&self) -> BTreeMap<Order, Place> {
        (0..self.taken).map(|it| (order(it), (0, 0))).collect()
    }

    fn goes_on(&mut self) {
        if self.is_unsure {
            self.asks_for_the_next();
            return;
        }
        let reply = self.sends(self.next, &order(self.taken));
        self.is_unsure = reply.is_none();
        if let Some(reply) = reply {
            assert_eq!(reply.status, 200, "{}", shown(&reply));
            self.next = number(&reply, "next");
            self.taken += 1;
        }
    }

    /// Takes the sequence that the worker expects for that of its message.
    fn asks_for_the_next(&mut self) {
        let far = 1 << 40;
        let Some(reply) = self.sends(far, &order(far)) else {
            return;
        };
        let code = reply.code();
        let is_gap = matches!(code.as_deref(), Some("sequence-gap" | "producer-unknown"));
        assert!(is_gap, "{}", shown(&reply));
        let expected = number(&reply, "expected");
        // It was taken under the first one.
        let is_repeat = expected > self.next;
        let repeats = &self.client.field.repeats;
        repeats.fetch_add(is_repeat.into(), Ordering::SeqCst);
        (self.next, self.is_unsure) = (expected, false);
    }

    fn sends(&mut self, sequence: u64, order: &Order) -> Option<Reply> {
        let patience = match self.client.moments.below(2) {
            0 => self.client.moments.between(MS(1), MS(30)),
            _ => ANSWERED,
        };
        let sequence = sequence.to_string();
        let request = Request {
            stream: UNORDERED,
            identity: &identity("control", "1", &sequence),
            orders: std::slice::from_ref(order),
        };
        self.client.asks_for(&request, patience)
    }
}

fn order(number: u64) -> Order {
    Order {
        label: format!("control-{number}"),
        account: String::new(),
        amount: number,
    }
}
