//! Class E as a model: outputs, the completed operations and the position of the input, committed in one transaction of
//! the broker.
//!
//! A member decides by `semel_core::partition`. Around it are the broker's two coordinators as far as the promise rests
//! on them: the group gives the partition to one member at a time and refuses offsets of another generation;
//! transactions are open, committed or aborted, and the markers that show this to readers come later, one by one.
//! Members crash, are thrown out without noticing, stand still at any step, and do not learn the result of a commit.

mod broker;
mod image;
mod law;
pub(crate) mod setup;
mod state_laws;
mod steps;
#[cfg(test)]
mod tests;
mod trace;
mod transitions;
mod world;

use semel_core::Operation;

use self::law::{Case, Fault, Law};
use self::setup::Setup;
use self::steps::Action;
use self::world::World;
use super::search::{Subject, Tally, is_model};
use super::setup::MOST_OPERATIONS;
use crate::report::Row;

/// One configuration of class E.
#[derive(Clone)]
pub(crate) struct Streamed {
    setup: Setup,
    operations: [Operation; MOST_OPERATIONS],
    tally: Tally,
}

impl Streamed {
    /// Notes that a hard case was met.
    fn meets(&self, case: Case) {
        self.tally.meets(case as usize);
    }
}

is_model!(Streamed);

impl Subject for Streamed {
    type Setup = Setup;

    fn new(setup: Setup) -> Option<Self> {
        Some(Self {
            setup,
            operations: super::numbers::operations()?,
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
        let fenced = [Case::FencedOffsets, Case::FencedProducer, Case::LossSeen];
        row.fenced = fenced.map(times).iter().sum();
        row.takeovers = self.tally.dealt(Fault::Rebalanced as usize);
        row.duplicates = broken.contains(&Law::SingleOutput.name()).into();
        row.lost = broken.contains(&Law::NothingLost.name()).into();
        self.tally.report(Fault::NAMES, Case::NAMES, row);
    }
}
