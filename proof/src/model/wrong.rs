//! Workers and stores that do what they should not, to see that the model minds.

use super::Protocol;
use super::record::{Rec, Recover, Stands};
use super::setup::Setup;
use super::world::World;

/// What a worker does. All but the first are wrong, to see that the model minds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// As it should.
    Right,
    /// Acknowledges as soon as the claim is granted. M04
    AcksFirst,
    /// Acknowledges a message whose operation somebody else works on. M07
    DropsBusy,
    /// Acknowledges although its completion was fenced. M06
    AcksFenced,
    /// Calls before it claims.
    CallsFirst,
    /// Completes before it calls. M01
    CompletesFirst,
    /// Derives the provider's key from the attempt. M08
    KeysByAttempt,
    /// Claims without a mark what must be marked. M10
    MarksNothing,
    /// Takes an answer that was lost for a success.
    TrustsSilence,
    /// Says of what a probe found that it was found when the store hears of it.
    DatesLate,
}

/// What a store does. All but the first are wrong, to see that the model minds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "what is wrong is for the tests")
)]
pub(crate) enum Keeping {
    /// What `decide` says.
    Right,
    /// Grants what was free when it looked, and looks early. M02
    ChecksThenActs,
    /// Takes the completion of any claim. M03
    CompletesAny,
    /// Takes the start of any claim. M11
    StartsAny,
    /// Takes the release of any claim. M12
    ReleasesAny,
    /// Takes the renewal of any claim. M13
    RenewsAny,
    /// Begins to count tokens anew when a record is removed. M14
    RestartsTokens,
    /// Removes whatever is finished, window or not. M05
    ForgetsEarly,
    /// Removes what is in doubt. M32
    SweepsDoubts,
    /// Believes at once that a doubtful effect did not happen. M33
    TrustsHaste,
    /// Gives a taken-over operation the first start of its latest attempt. M09
    MovesFirstStart,
    /// Forgets whatever it is told to.
    ForgetsAny,
    /// Reruns what is to be parked.
    RerunsParked,
    /// Takes the evidence of a probe for as new as its arrival.
    OverlooksAsked,
    /// Resumes and starts its own claims past the provider's window.
    BeginsLate,
}

impl Protocol {
    /// What the store knows of the provider when a claim begins.
    pub(crate) fn known(&self, found: Option<Rec>, claim: u8) -> Setup {
        let own = found.is_some_and(|record| record.claim == claim);
        let mut known = self.setup;
        if own && known.keeping == Keeping::BeginsLate {
            known.provider = known.ticks + 1;
        }
        known
    }

    /// What the store finds of a record when a claim is asked for.
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
