//! A client that does not number its messages: it sends each body under a key until it is answered.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::client::{Client, Field, Request, number, shown};
use super::{PRODUCERS, UNORDERED};
use crate::moments::now;
use crate::outbox::{Order, Place};
use crate::workers::PATIENCE;

/// The client.
pub(super) struct Keys<'f> {
    client: Client<'f>,
    bodies: Vec<Body>,
}

/// The messages under a key.
struct Body {
    key: String,
    orders: Vec<Order>,
    is_taken: bool,
}

impl<'f> Keys<'f> {
    pub(super) fn new(field: &'f Field) -> Self {
        Self {
            client: Client::new(field, 2 * PRODUCERS),
            bodies: Vec::new(),
        }
    }

    /// Sends one body after the other, and some once more.
    pub(super) fn run(&mut self) {
        while !self.client.field.is_over() {
            if self.bodies.last().is_none_or(|it| it.is_taken) {
                self.begins();
            }
            self.sends(self.bodies.len() - 1);
            if self.client.moments.below(6) == 0 {
                let back = self.client.moments.below(self.bodies.len() as u64);
                self.sends(usize::try_from(back).expect("few"));
            }
            self.client.rests();
        }
    }

    /// Sends what is left.
    pub(super) fn ends(&mut self) {
        let began = now();
        while let Some(at) = self.bodies.iter().position(|it| !it.is_taken) {
            self.sends(at);
            assert!(began.elapsed() < PATIENCE, "the key of body {at}");
        }
    }

    /// Everything that was taken, in no order.
    pub(super) fn taken(&self) -> BTreeMap<Order, Place> {
        let orders = self.bodies.iter().flat_map(|it| &it.orders);
        orders.map(|order| (order.clone(), (0, 0))).collect()
    }

    fn begins(&mut self) {
        let moments = &mut self.client.moments;
        let key = format!("key-{}", self.bodies.len());
        let orders = (0..=moments.below(4)).map(|line| Order {
            label: format!("{key}-{line}"),
            account: String::new(),
            amount: line,
        });
        self.bodies.push(Body {
            orders: orders.collect(),
            key,
            is_taken: false,
        });
    }

    fn sends(&mut self, at: usize) {
        let body = &self.bodies[at];
        let reply = self.client.asks(&Request {
            stream: UNORDERED,
            identity: &[("idempotency-key", &*body.key)],
            orders: &body.orders,
        });
        let Some(reply) = reply else {
            return;
        };
        let story = || format!("{}: {}", body.key, shown(&reply));
        assert_eq!(reply.status, 200, "{}", story());
        let (new, known) = (number(&reply, "accepted"), number(&reply, "duplicates"));
        let all = body.orders.len() as u64;
        assert_eq!(new + known, all, "their number: {}", story());
        // Known is the whole of a body, or nothing of it.
        let is_known = known == all && new == 0;
        assert!(is_known || known == 0, "{}", story());
        // The store remembers the last 1,000 keys of a stream; what comes after that is for the pipeline to know.
        let is_recent = self.bodies.len() - at < 500;
        let body = &mut self.bodies[at];
        assert!(
            is_known || !body.is_taken || !is_recent,
            "{} is new twice",
            body.key
        );
        body.is_taken = true;
        self.client.field.taken.fetch_add(new, Ordering::SeqCst);
        self.client.field.known.fetch_add(known, Ordering::SeqCst);
    }
}
