//! One configuration that is searched, and its counts.

use semel_core::{Entity, Operation};

use super::law::{Case, Fault};
use super::numbers::operations;
use super::search::Tally;
use super::setup::{MOST_OPERATIONS, Setup};

/// One configuration of the protocol.
#[derive(Clone)]
pub(crate) struct Protocol {
    pub(super) setup: Setup,
    pub(super) operations: [Operation; MOST_OPERATIONS],
    pub(super) entity: Entity,
    pub(super) tally: Tally,
}

impl Protocol {
    pub(super) fn of(setup: Setup) -> Option<Self> {
        Some(Self {
            setup,
            operations: operations()?,
            entity: Entity::new("entity").ok()?,
            tally: Tally::new(Case::ALL.len(), Fault::ALL.len()),
        })
    }

    /// Notes that a hard case was met.
    pub(super) fn meets(&self, case: Case) {
        self.tally.meets(case as usize);
    }

    /// Notes that a fault was dealt.
    pub(super) fn deals(&self, fault: Fault) {
        self.tally.deals(fault as usize);
    }
}
