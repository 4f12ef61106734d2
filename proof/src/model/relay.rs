//! Relays of an outbox as a model: messages of one order key, whose transactions commit in any order, and two relays with
//! a lease between them.
//!
//! A relay is killed, stands still at any step while its lease ends, and does not learn what became of a publication,
//! which arrives all the same. A table reads as every outbox does: what is committed and not sent, by place. That a relay
//! begins nothing in the last third of its lease stands here for its knowledge that it has one.

mod law;
pub(crate) mod setup;
mod steps;
pub(crate) mod subject;
#[cfg(test)]
mod tests;
mod trace;
mod transitions;
mod world;

use self::law::{Case, Fault, Law};
use self::setup::Setup;
use self::steps::Action;
use self::subject::Relay;
use self::world::World;
use super::search::{Subject, is_model};
use crate::report::Row;

is_model!(Relay);

impl Subject for Relay {
    type Setup = Setup;

    fn new(setup: Setup) -> Option<Self> {
        Some(Relay::new(setup))
    }

    fn name(setup: &Setup) -> &'static str {
        setup.name
    }

    fn tell(&self, path: &[(World, Option<Action>)]) -> String {
        trace::tell(self, path)
    }

    fn report(&self, broken: &[&str], row: &mut Row) {
        let times = |case| self.tally.met(case as usize);
        row.fenced = times(Case::Fenced) + times(Case::Withheld);
        row.takeovers = self.tally.dealt(Fault::Expired as usize);
        row.lost = broken.contains(&Law::OnlyPublished.name()).into();
        self.tally.report(Fault::NAMES, Case::NAMES, row);
    }
}
