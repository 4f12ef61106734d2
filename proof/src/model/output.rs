//! The output class as a model: lines appended to a file, their records and the length of the file recorded together,
//! and the file cut back to its recorded length. A worker claims, appends and records, as `run` does; or it has the
//! store admit a batch and appends in the middle of that step, as `dedup` does.
//!
//! Stores decide here by `semel_core::decide`, batch by batch, whole or not at all (MRK-1, MRK-2). Around them are two
//! workers with a file each, that crash before, in the middle of and behind an append, stand still at any step while
//! their leases end, fail to append, and do not learn the result of a batch. A worker's last request may be carried out
//! after its death; its next life, which reads the mark, waits for that.
//!
//! The model assumes that a store does not carry out a request after a later one of the same life of its worker.

mod admission;
mod law;
pub(crate) mod setup;
mod state_laws;
mod steps;
mod store;
#[cfg(test)]
mod tests;
mod trace;
mod transitions;
mod world;

use semel_core::{Entity, Operation};

use self::law::{Case, Fault, Law};
use self::setup::Setup;
use self::steps::Action;
use self::world::World;
use super::search::{Subject, Tally, is_model};
use super::setup::{Class, MOST_OPERATIONS};
use crate::report::Row;

/// One configuration of the output class.
#[derive(Clone)]
pub(crate) struct Output {
    setup: Setup,
    /// The same setup, as far as records depend on it.
    records: super::setup::Setup,
    operations: [Operation; MOST_OPERATIONS],
    entity: Entity,
    tally: Tally,
}

impl Output {
    /// Notes that a hard case was met.
    fn meets(&self, case: Case) {
        self.tally.meets(case as usize);
    }
}

is_model!(Output);

impl Subject for Output {
    type Setup = Setup;

    fn new(setup: Setup) -> Option<Self> {
        let setup = setup.planted();
        let records = super::setup::Setup {
            window: setup.window,
            lease: setup.lease,
            age_gate: setup.age_gate,
            ..super::setup::Setup::of(setup.name, Class::Transactional)
        };
        Some(Self {
            setup,
            records,
            operations: super::numbers::operations()?,
            entity: Entity::new("none").ok()?,
            tally: Tally::new(Case::ALL.len(), Fault::ALL.len()),
        })
    }

    fn name(setup: &Setup) -> &'static str {
        setup.name
    }

    fn tell(&self, path: &[(World, Option<Action>)]) -> String {
        trace::tell(self, path)
    }

    fn report(&self, broken: &[&str], row: &mut Row) {
        let times = |case| self.tally.met(case as usize);
        let fenced = [Case::RefusedWhole, Case::RefusedPartly, Case::FencedRelease];
        row.fenced = fenced.map(times).iter().sum();
        row.takeovers = times(Case::Takeover);
        row.duplicates = broken.contains(&Law::SingleLine.name()).into();
        row.lost = broken.contains(&Law::NothingLost.name()).into();
        self.tally.report(Fault::NAMES, Case::NAMES, row);
    }
}
