//! The parts that all clients share: the workers that they send to, their counts, and a request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::Duration;

use super::{MS, path};
use crate::http::{Connection, Reply};
use crate::outbox::Order;
use crate::workers::PATIENCE;
use crate::{Moments, scaled};

/// The parts that all clients share.
pub(super) struct Field {
    addresses: Vec<SocketAddr>,
    seed: u64,
    is_over: AtomicBool,
    pub(super) taken: AtomicU64,
    pub(super) again: AtomicU64,
    pub(super) halves: AtomicU64,
    pub(super) known: AtomicU64,
    pub(super) gaps: AtomicU64,
    pub(super) fenced: AtomicU64,
    pub(super) repeats: AtomicU64,
}

/// The counts of what clients have met.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Messages that an answer called new.
    pub(super) taken: u64,
    /// Requests without an answer, or with one that says to come again.
    pub(super) again: u64,
    /// Requests that ended in the middle of their bodies.
    pub(super) halves: u64,
    /// Messages that an answer called known.
    pub(super) known: u64,
    /// Requests that were refused since messages before theirs were missing.
    pub(super) gaps: u64,
    /// Requests that were refused since their opening was over.
    pub(super) fenced: u64,
    /// Messages that the client with the fault has sent under another sequence, and were taken under the first.
    pub(super) repeats: u64,
}

impl Field {
    pub(super) fn new(addresses: Vec<SocketAddr>, seed: u64) -> Self {
        Self {
            addresses,
            seed,
            is_over: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            again: AtomicU64::new(0),
            halves: AtomicU64::new(0),
            known: AtomicU64::new(0),
            gaps: AtomicU64::new(0),
            fenced: AtomicU64::new(0),
            repeats: AtomicU64::new(0),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let of = |it: &AtomicU64| it.load(Ordering::SeqCst);
        Counts {
            taken: of(&self.taken),
            again: of(&self.again),
            halves: of(&self.halves),
            known: of(&self.known),
            gaps: of(&self.gaps),
            fenced: of(&self.fenced),
            repeats: of(&self.repeats),
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Returns what ends the clients when it is dropped, so that nobody waits for them after a panic.
    pub(super) fn ending(&self) -> Ending<'_> {
        Ending(self)
    }
}

/// Ends the clients when it is dropped.
pub(super) struct Ending<'f>(&'f Field);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::SeqCst);
    }
}

/// Somebody who sends messages, to any worker.
pub(super) struct Client<'f> {
    pub(super) field: &'f Field,
    pub(super) moments: Moments,
}

/// A request.
pub(super) struct Request<'r> {
    pub(super) stream: &'static str,
    pub(super) identity: &'r [(&'r str, &'r str)],
    pub(super) orders: &'r [Order],
}

impl Request<'_> {
    /// Its body, and the headers beside the identity: a line a message, if they are several.
    fn parts(&self) -> (String, Vec<(&str, &str)>) {
        let messages: Vec<_> = self.orders.iter().map(Order::message).collect();
        let mut headers = self.identity.to_vec();
        if messages.len() > 1 {
            headers.push(("content-type", "application/x-ndjson"));
        }
        (messages.join("\n"), headers)
    }
}

impl<'f> Client<'f> {
    /// Each has another number.
    pub(super) fn new(field: &'f Field, number: usize) -> Self {
        let moments = Moments::seeded(field.seed).apart(number as u64);
        Self { field, moments }
    }

    /// Sends a request, and returns its answer; nothing without one, or if it says to come again. Some hang up early.
    pub(super) fn asks(&mut self, request: &Request<'_>) -> Option<Reply> {
        let patience = match self.moments.below(8) {
            0 => self.moments.between(MS(1), MS(30)),
            // Less than the time for which a worker stands still.
            1 => MS(700),
            _ => ANSWERED,
        };
        let reply = self.asks_for(request, patience);
        if reply.is_none() {
            self.field.again.fetch_add(1, Ordering::SeqCst);
        }
        reply
    }

    /// Does the same, and waits for so long at most.
    pub(super) fn asks_for(&mut self, request: &Request<'_>, patience: Duration) -> Option<Reply> {
        let (body, headers) = request.parts();
        let mut connection = self.connection(patience)?;
        let reply = connection.send(&path(request.stream), &headers, &body, true);
        reply.ok().filter(|it| it.status < 500)
    }

    /// Sends a part of a request, and hangs up.
    pub(super) fn sends_half(&mut self, request: &Request<'_>) {
        let (body, headers) = request.parts();
        let last_bytes = 1 + self.moments.below(body.len() as u64);
        let last_bytes = usize::try_from(last_bytes).expect("few");
        if let Some(connection) = self.connection(ANSWERED) {
            connection.send_without(last_bytes, &path(request.stream), &headers, &body);
            self.field.halves.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn connection(&mut self, patience: Duration) -> Option<Connection> {
        let count = self.field.addresses.len() as u64;
        let at = usize::try_from(self.moments.below(count)).expect("few");
        Connection::open(self.field.addresses[at], patience).ok()
    }

    /// Rests between two requests.
    pub(super) fn rests(&mut self) {
        sleep(self.moments.between(MS(0), scaled(MS(100), MS(120))));
    }
}

/// Tells whether a worker takes messages of a stream: it asks for their producer then.
pub(super) fn is_open(address: SocketAddr, stream: &str) -> bool {
    let connection = Connection::open(address, PATIENCE);
    let asked = connection.and_then(|mut it| it.send(&path(stream), &[], "{}", true));
    asked.is_ok_and(|it| it.code().as_deref() == Some("producer-missing"))
}

/// The number that an answer has under a name.
pub(super) fn number(reply: &Reply, name: &str) -> u64 {
    let said: serde_json::Value = serde_json::from_slice(&reply.body).expect("an object");
    let number = said[name].as_u64();
    number.unwrap_or_else(|| panic!("no {name}: {}", shown(reply)))
}

/// An answer for people.
pub(super) fn shown(reply: &Reply) -> String {
    format!("{} {}", reply.status, String::from_utf8_lossy(&reply.body))
}

/// The time that a client waits for an answer, which is more than a worker takes unless it stands still.
pub(super) const ANSWERED: Duration = Duration::from_secs(10);
