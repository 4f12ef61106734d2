//! A process of a producer, which believes that it is the only one.

use std::sync::atomic::Ordering;
use std::thread::sleep;

use super::MS;
use super::client::{Client, Request};
use super::producer::{Heard, Plan, Producer};
use crate::moments::now;
use crate::workers::PATIENCE;

/// An opening of a producer after the other.
pub(super) struct Opening<'f> {
    client: Client<'f>,
    producer: &'f Producer,
}

impl<'f> Opening<'f> {
    pub(super) fn new(client: Client<'f>, producer: &'f Producer) -> Self {
        Self { client, producer }
    }

    /// Opens the producer and sends until it is fenced, again and again.
    pub(super) fn run(mut self) {
        let field = self.client.field;
        while !field.is_over() {
            let epoch = self.producer.opens();
            // Some do not believe it at once.
            let mut times = 1 + self.client.moments.below(3);
            while times > 0 && !field.is_over() {
                if self.sends(epoch, Plan::Any) == Some(Heard::Fenced) {
                    times -= 1;
                }
                if self.client.moments.below(10) == 0 {
                    self.hangs_up(epoch);
                }
                self.client.rests();
            }
            sleep(self.client.moments.between(MS(100), MS(900)));
        }
    }

    /// Opens the producer for the last time, and sends what is left.
    pub(super) fn ends(mut self) {
        let (epoch, began) = (self.producer.opens(), now());
        while !self.producer.is_done() {
            self.sends(epoch, Plan::Next);
            assert!(began.elapsed() < PATIENCE, "{}", self.producer.name);
        }
    }

    /// Sends messages, and takes note of the answer, if there is one.
    fn sends(&mut self, epoch: u64, plan: Plan) -> Option<Heard> {
        let field = self.client.field;
        let sent = self.producer.picks(epoch, plan, &mut self.client.moments);
        let (orders, [epoch, first]) = (self.producer.orders(&sent), sent.numbers());
        let reply = self.client.asks(&Request {
            stream: sent.stream(),
            identity: &identity(&self.producer.name, &epoch, &first),
            orders: &orders,
        })?;
        let heard = self.producer.hears(&sent, &reply);
        match heard {
            Heard::Taken { new, known } => {
                field.taken.fetch_add(new, Ordering::SeqCst);
                field.known.fetch_add(known, Ordering::SeqCst);
            }
            Heard::Gap => {
                field.gaps.fetch_add(1, Ordering::SeqCst);
            }
            Heard::Fenced => {
                field.fenced.fetch_add(1, Ordering::SeqCst);
            }
        }
        Some(heard)
    }

    /// Sends a part of a request.
    fn hangs_up(&mut self, epoch: u64) {
        let moments = &mut self.client.moments;
        let sent = self.producer.picks(epoch, Plan::Half, moments);
        let (orders, [epoch, first]) = (self.producer.orders(&sent), sent.numbers());
        self.client.sends_half(&Request {
            stream: sent.stream(),
            identity: &identity(&self.producer.name, &epoch, &first),
            orders: &orders,
        });
    }
}

/// The headers of messages that a producer numbers.
pub(super) fn identity<'i>(
    producer: &'i str,
    epoch: &'i str,
    first: &'i str,
) -> [(&'static str, &'i str); 3] {
    [
        ("semel-producer", producer),
        ("semel-epoch", epoch),
        ("semel-sequence", first),
    ]
}
