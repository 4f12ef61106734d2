//! One configuration that is searched, and its counts.

use super::law::{Case, Fault};
use super::setup::Setup;
use crate::model::search::Tally;

/// One configuration of relays.
#[derive(Clone)]
pub(crate) struct Relay {
    pub(super) setup: Setup,
    pub(super) tally: Tally,
}

impl Relay {
    pub(super) fn new(setup: Setup) -> Self {
        Self {
            setup,
            tally: Tally::new(Case::ALL.len(), Fault::ALL.len()),
        }
    }

    /// Notes that a hard case was met.
    pub(super) fn meets(&self, case: Case) {
        self.tally.meets(case as usize);
    }
}
