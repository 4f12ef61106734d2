//! The workers' reports of their attempts, in time or late.

use semel_core::StateKind;

use super::answers::Report;
use super::law::Case;
use super::steps::{Net, index};
use super::subject::Protocol;
use super::world::{Late, Phase, World};
use super::wrong::Conduct;

impl Protocol {
    /// Reports the result of an attempt to the store.
    pub(crate) fn reports(
        &self,
        world: &mut World,
        worker: usize,
        report: Report,
        late: Late,
        net: Net,
    ) {
        let at = world.workers[worker];
        let trusts = self.setup.conduct == Conduct::TrustsSilence;
        if net == Net::Delayed {
            world.late = Some(late);
        } else {
            let operation = index(self.operation_of(at));
            let told = self.tells(world, operation, at.claim, report);
            if net == Net::Answered {
                world.workers[worker].phase = match told {
                    Some(StateKind::Completed) => Phase::Acknowledging { lists: false },
                    Some(StateKind::Dead | StateKind::InDoubt) => {
                        Phase::Acknowledging { lists: true }
                    }
                    Some(StateKind::Released | StateKind::Claimed | StateKind::Started) => {
                        Phase::HandingBack
                    }
                    None => {
                        self.meets(match report {
                            Report::Complete { .. } => Case::FencedCompletion,
                            Report::Start
                            | Report::Begun
                            | Report::Release { .. }
                            | Report::Fail { .. } => Case::FencedRelease,
                        });
                        self.fenced()
                    }
                };
                return;
            }
        }
        if trusts {
            world.workers[worker].phase = Phase::Acknowledging { lists: false };
        }
    }

    pub(crate) fn fenced(&self) -> Phase {
        if self.setup.conduct == Conduct::AcksFenced {
            Phase::Acknowledging { lists: false }
        } else {
            Phase::HandingBack
        }
    }

    /// A late request arrives, and its answer is lost.
    pub(crate) fn lands(&self, world: &mut World) {
        match world.late.take() {
            Some(Late::Claim { post, claim }) => {
                self.claim(world, post, claim);
                self.meets(Case::LateClaimLanded);
            }
            Some(Late::Start { operation, claim }) => {
                self.settle(world, operation, claim, Report::Start);
                self.meets(Case::LateReportLanded);
            }
            Some(Late::Commit {
                operation,
                claim,
                token,
            }) => {
                self.commit(world, operation, claim, token);
                self.meets(Case::LateReportLanded);
            }
            Some(Late::Complete {
                operation,
                claim,
                answer,
            }) => {
                self.settle(world, operation, claim, Report::Complete { answer });
                self.meets(Case::LateReportLanded);
            }
            Some(Late::Release {
                operation,
                claim,
                maybe,
            }) => {
                let report = Report::Release {
                    maybe,
                    counted: true,
                };
                self.tells(world, operation, claim, report);
                self.meets(Case::LateReportLanded);
            }
            Some(Late::Call {
                operation, token, ..
            }) => {
                self.apply(world, usize::from(operation), token);
                self.meets(Case::LateCallLanded);
            }
            None => {}
        }
    }
}
