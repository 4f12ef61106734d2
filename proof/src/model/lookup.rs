//! The record that a store finds when a claim is asked for: one that makes mistakes may find another.

use super::record::{Rec, Recover, Stands};
use super::setup::Setup;
use super::subject::Protocol;
use super::world::World;
use super::wrong::Keeping;

impl Protocol {
    /// The store's knowledge of the provider when a claim begins.
    pub(crate) fn known(&self, found: Option<Rec>, claim: u8) -> Setup {
        let own = found.is_some_and(|record| record.claim == claim);
        let mut known = self.setup;
        if own && known.keeping == Keeping::BeginsLate {
            known.provider = known.ticks + 1;
        }
        known
    }

    /// The record that the store finds when a claim is asked for.
    pub(crate) fn found(&self, world: &World, at: usize) -> Option<Rec> {
        let mut found = world.records[at]?;
        match self.setup.keeping {
            Keeping::ChecksThenActs if found.lease().is_some() => return None,
            Keeping::RerunsParked => {
                if let Stands::Started { recover, .. } = &mut found.state {
                    *recover = Recover::Rerun;
                }
            }
            Keeping::Right
            | Keeping::ChecksThenActs
            | Keeping::CompletesAny
            | Keeping::StartsAny
            | Keeping::ReleasesAny
            | Keeping::RenewsAny
            | Keeping::RestartsTokens
            | Keeping::ForgetsEarly
            | Keeping::SweepsDoubts
            | Keeping::TrustsHaste
            | Keeping::MovesFirstStart
            | Keeping::ForgetsAny
            | Keeping::OverlooksAsked
            | Keeping::BeginsLate => {}
        }
        Some(found)
    }
}
