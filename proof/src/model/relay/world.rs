//! The whole state at one instant: the table, the lease, two relays, and the topic.

use super::setup::{Budget, Setup};
use crate::model::named::Breakable;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// Messages whose transactions are open, a bit each.
    pub(crate) open: u8,
    /// Committed messages, in the order of their places.
    pub(crate) committed: Vec<u8>,
    /// Those of them that are not on record as sent, a bit each.
    pub(crate) unsent: u8,
    /// The relay that holds the lease.
    pub(crate) holder: Option<u8>,
    pub(crate) relays: [Process; RELAYS],
    /// Messages on their way to the sink, in no order.
    pub(crate) flights: [Option<Flight>; FLIGHTS],
    pub(crate) topic: Vec<u8>,
    pub(crate) left: Budget,
    pub(crate) broken: u32,
}

/// A relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    /// True while it counts on the lease.
    pub(crate) has_lease: bool,
    pub(crate) stage: Stage,
}

/// The progress of a relay with the message in its hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    Idle,
    Read(u8),
    Sent(u8),
    Answered(u8),
}

/// A message on its way to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Flight {
    pub(crate) message: u8,
    /// The relay that waits for its answer.
    pub(crate) waiting: Option<u8>,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            open: u8::MAX >> (8 - setup.messages.clamp(1, 8)),
            committed: Vec::new(),
            unsent: 0,
            holder: None,
            relays: [STARTED; RELAYS],
            flights: [None; FLIGHTS],
            topic: Vec::new(),
            left: setup.budget,
            broken: 0,
        }
    }

    /// Takes away whoever waits for an answer as this relay.
    pub(crate) fn leave(&mut self, relay: u8) {
        for flight in self.flights.iter_mut().flatten() {
            if flight.waiting == Some(relay) {
                flight.waiting = None;
            }
        }
    }
}

impl Breakable for World {
    fn broken(&self) -> u32 {
        self.broken
    }
}

/// A relay that has just been started.
pub(crate) const STARTED: Process = Process {
    has_lease: false,
    stage: Stage::Idle,
};
const RELAYS: usize = 2;
/// The most messages that are on their way at once.
const FLIGHTS: usize = 3;
