//! The effect: inside the store's transaction, or a call to another system.

use semel_core::StateKind;

use super::answers::Report;
use super::law::{Case, Law};
use super::numbers::NONE;
use super::setup::{Class, MARGIN};
use super::steps::{Came, Net, index};
use super::subject::Protocol;
use super::world::{Late, Phase, World};
use super::wrong::Conduct;

impl Protocol {
    /// Effect and completion in one transaction.
    pub(crate) fn commits(&self, world: &mut World, worker: usize, net: Net) {
        let at = world.workers[worker];
        let operation = index(self.operation_of(at));
        if net == Net::Delayed {
            world.late = Some(Late::Commit {
                operation,
                claim: at.claim,
                token: at.token,
            });
            // The connection is gone; asking again finds out the result.
            world.workers[worker].phase = Phase::Asking { asked: true };
            return;
        }
        let told = self.commit(world, operation, at.claim, at.token);
        let trusts = self.setup.conduct == Conduct::TrustsSilence;
        world.workers[worker].phase = match (net, told) {
            (Net::AnswerLost, told) => {
                self.meets(if told.is_some() {
                    Case::CommitUnknownApplied
                } else {
                    Case::CommitUnknownNot
                });
                if trusts {
                    Phase::Acknowledging { lists: false }
                } else {
                    Phase::Asking { asked: true }
                }
            }
            (Net::Answered | Net::Delayed, Some(_)) => Phase::Acknowledging { lists: false },
            (Net::Answered | Net::Delayed, None) => {
                self.meets(Case::FencedCommit);
                self.fenced()
            }
        };
    }

    /// Carries out the store's part of a transaction, which decides whether all of it is committed.
    pub(crate) fn commit(
        &self,
        world: &mut World,
        operation: u8,
        claim: u8,
        token: u8,
    ) -> Option<StateKind> {
        let at = usize::from(operation);
        let before = world.records[at];
        let told = self.settle(world, operation, claim, Report::Complete { answer: token });
        let committed = world.records[at] != before
            && world.records[at].is_some_and(|record| record.is_completed());
        if committed && self.setup.conduct != Conduct::CompletesFirst {
            if self.setup.class == Class::Versioned {
                let version = operation + 1;
                if version <= world.version {
                    self.meets(Case::OlderAfterNewer);
                    world.lives[at].superseded = true;
                    if self.setup.sink_is_gated {
                        return told;
                    }
                    world.breaks(Law::VersionsRise);
                }
                world.version = version;
            }
            self.apply(world, at, token);
        }
        told
    }

    /// Calls an effect that is outside.
    pub(crate) fn called(&self, world: &mut World, worker: usize, came: Came) {
        let at = world.workers[worker];
        let operation = self.operation_of(at);
        let phase = match came {
            Came::Answered => match self.apply(world, operation, at.token) {
                Some(answer) => Phase::Called { answer },
                None => Phase::Refused { decisive: true },
            },
            Came::AnswerLost => {
                world.left.lost -= 1;
                self.apply(world, operation, at.token);
                Phase::Failed { maybe: true }
            }
            Came::Delayed => {
                world.left.delayed -= 1;
                world.late = Some(Late::Call {
                    operation: index(operation),
                    token: at.token,
                    until: at.since + MARGIN,
                });
                Phase::Failed { maybe: true }
            }
            Came::NotApplied => {
                world.left.failures -= 1;
                Phase::Failed { maybe: false }
            }
            Came::Refused => {
                world.left.refusals -= 1;
                world.lives[operation].refused = true;
                Phase::Refused { decisive: true }
            }
            Came::TurnedAway => {
                world.left.refusals -= 1;
                Phase::Refused { decisive: false }
            }
        };
        world.workers[worker].phase = phase;
    }

    /// The effect happens, unless its provider knows better; its answer, or nothing if it is refused.
    pub(crate) fn apply(&self, world: &mut World, operation: usize, token: u8) -> Option<u8> {
        let now = world.now;
        let life = &mut world.lives[operation];
        if life.refused {
            return None;
        }
        let mut reused_late = false;
        if self.setup.class == Class::Keyed && life.known_since != NONE {
            let same_key = self.setup.conduct != Conduct::KeysByAttempt || life.answer == token;
            if same_key && now < life.known_since + self.setup.provider + MARGIN {
                self.meets(Case::ProviderReplayed);
                return Some(life.answer);
            }
            reused_late = same_key;
        }
        if life.effects > 0 && self.setup.class == Class::Repeat {
            self.meets(Case::RepeatHappened);
        }
        life.effects += 1;
        life.known_since = now;
        life.answer = token;
        if reused_late {
            world.breaks(Law::KeyInsideWindow);
        }
        Some(token)
    }
}
