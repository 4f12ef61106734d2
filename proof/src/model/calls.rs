//! Calls by clients of the claim API that declare no class: their claims are unmarked, and their reports say that an
//! effect has begun. Whoever dies before it says so leaves nothing behind, and is run again; that is counted here.

use semel_core::StateKind;

use super::answers::Report;
use super::law::{Case, Law};
use super::record::{Rec, Stands};
use super::setup::Class;
use super::steps::index;
use super::subject::Protocol;
use super::world::{Phase, World};
use super::wrong::Conduct;

impl Protocol {
    /// Reports to the store as the claim API does: of an effect that may have been applied it says first that it has
    /// begun, whether or not anybody had said so.
    pub(crate) fn tells(
        &self,
        world: &mut World,
        operation: u8,
        claim: u8,
        report: Report,
    ) -> Option<StateKind> {
        if !self.is_unsure_call(report) {
            return self.settle(world, operation, claim, report);
        }
        if self.setup.conduct != Conduct::HidesBegun {
            self.says(world, operation, claim);
        }
        let told = self.settle(world, operation, claim, report);
        match told {
            Some(StateKind::InDoubt) => {}
            None => self.meets(Case::BegunAfterTakeover),
            Some(
                StateKind::Claimed
                | StateKind::Started
                | StateKind::Released
                | StateKind::Completed
                | StateKind::Dead,
            ) => world.breaks(Law::DoubtIsTold),
        }
        told
    }

    /// Returns whether a report in this phase begins with the word that the effect has begun.
    pub(crate) fn says_begun(&self, phase: Phase) -> bool {
        self.setup.class == Class::Call && phase == Phase::Failed { maybe: true }
    }

    /// The server dies within a report: only that the effect has begun is on record.
    pub(crate) fn begins(&self, world: &mut World, worker: usize) {
        let at = world.workers[worker];
        self.says(world, index(self.operation_of(at)), at.claim);
        self.meets(Case::BegunAlone);
    }

    fn says(&self, world: &mut World, operation: u8, claim: u8) {
        let before = world.records[usize::from(operation)];
        let holder = world.entity.holder.map(|(claim, _)| claim);
        let told = self.settle(world, operation, claim, Report::Begun);
        let was_unmarked = |record: Rec| matches!(record.state, Stands::Claimed { .. });
        if told == Some(StateKind::Started) && before.is_some_and(was_unmarked) {
            self.meets(Case::BegunUnmarked);
            if self.setup.is_gated && holder != Some(claim) {
                self.meets(Case::BegunUnheld);
            }
        }
    }

    fn is_unsure_call(&self, report: Report) -> bool {
        let is_unsure = matches!(report, Report::Release { maybe: true, .. });
        is_unsure && self.setup.class == Class::Call
    }

    /// Notes a report that the store took, by which an effect has begun, or surely did not happen.
    pub(crate) fn notes_begun(&self, world: &mut World, at: usize, report: Report) {
        if self.setup.class != Class::Call {
            return;
        }
        match report {
            Report::Start | Report::Begun => world.lives[at].begun = true,
            Report::Release { maybe: false, .. } => world.lives[at].begun = false,
            Report::Release { maybe: true, .. } | Report::Complete { .. } | Report::Fail { .. } => {
            }
        }
    }

    /// Checks another grant of an operation, whose record was `before`: it must not come after the word that the effect
    /// has begun. Where it comes after no word at all, there may be one effect more.
    pub(crate) fn granted_again(&self, world: &mut World, at: usize, before: Rec) {
        if self.setup.class != Class::Call {
            return;
        }
        if world.lives[at].begun {
            world.breaks(Law::BegunIsNotRerun);
        }
        if before.lease().is_some() && !self.setup.marks_apart {
            world.lives[at].untold += 1;
            self.meets(Case::UntoldTakeover);
        }
    }
}
