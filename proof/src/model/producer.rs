//! Producers and the gate as a model: messages that are appended to a journal, sent in requests that are lost, late or
//! come twice, and taken by producer, epoch and sequence.
//!
//! The gate decides here by `semel_core::ingest::decide` itself. Around it are two processes that open the producer one
//! beside another and are killed at any step. The journal is the rule of all journals: an opening fences those before it.

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
use self::subject::Sender;
use self::world::World;
use super::search::{Subject, is_model};
use crate::report::Row;

is_model!(Sender);

impl Subject for Sender {
    type Setup = Setup;

    fn new(setup: Setup) -> Option<Self> {
        Some(Sender::new(setup))
    }

    fn name(setup: &Setup) -> &'static str {
        setup.name
    }

    fn tell(&self, path: &[(World, Option<Action>)]) -> String {
        trace::tell(self, path)
    }

    fn report(&self, broken: &[&str], row: &mut Row) {
        let times = |case| self.tally.met(case as usize);
        let fenced = [Case::FencedAtGate, Case::FencedAtJournal];
        row.fenced = fenced.map(times).iter().sum();
        row.takeovers = times(Case::SentAgain);
        row.duplicates = broken.contains(&Law::OnceInOrder.name()).into();
        row.lost = broken.contains(&Law::OnlyTaken.name()).into();
        self.tally.report(Fault::NAMES, Case::NAMES, row);
    }
}
