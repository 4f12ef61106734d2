//! The whole state at one instant: the journal, two processes, requests on their way, and the gate.

use super::setup::{Budget, Setup};
use crate::model::named::Breakable;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) processes: [Option<Process>; PROCESSES],
    /// Requests on their way, in no order.
    pub(crate) requests: [Option<Request>; REQUESTS],
    pub(crate) gate: Gate,
    /// The messages that the gate has taken, in its order.
    pub(crate) taken: Vec<u8>,
    pub(crate) left: Budget,
    pub(crate) broken: u32,
}

/// The journal of the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Journal {
    pub(crate) epoch: u8,
    /// The sequence of the next message.
    pub(crate) next: u8,
    pub(crate) confirmed: u8,
    /// The sequence up to which anything was ever sent.
    pub(crate) sent: u8,
}

/// A process that has the producer open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) epoch: u8,
    /// The sequence of the next message, as far as it knows.
    pub(crate) next: u8,
    /// The sequence up to which it takes all messages for taken.
    pub(crate) answered: u8,
}

/// Messages on their way to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Request {
    pub(crate) epoch: u8,
    pub(crate) first: u8,
    pub(crate) count: u8,
}

/// The record of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gate {
    pub(crate) epoch: u8,
    /// The sequence of the next message; zero before the first one.
    pub(crate) next: u8,
}

impl World {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            journal: Journal {
                epoch: 0,
                next: 1,
                confirmed: 0,
                sent: 0,
            },
            processes: [None; PROCESSES],
            requests: [None; REQUESTS],
            gate: Gate { epoch: 0, next: 0 },
            taken: Vec::new(),
            left: setup.budget,
            broken: 0,
        }
    }
}

impl Breakable for World {
    fn broken(&self) -> u32 {
        self.broken
    }
}

const PROCESSES: usize = 2;
/// The most requests that are on their way at once.
const REQUESTS: usize = 2;
