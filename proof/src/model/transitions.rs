//! The consequences of each action.

use semel_core::StateKind;

use super::answers::{Report, Told};
use super::law::Case;
use super::steps::{Action, Net, index};
use super::subject::Protocol;
use super::world::{IDLE, Late, Phase, Worker, World};
use super::wrong::Conduct;

impl Protocol {
    pub(crate) fn happens(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        if let Some(fault) = action.fault() {
            self.deals(fault);
        }
        match action {
            Action::Tick => next.now += 1,
            Action::Publish { post } => {
                let message = &mut next.posts[usize::from(post)];
                message.published = true;
                message.queued = 1;
            }
            Action::Redeliver { worker } => {
                next.left.redelivered -= 1;
                let worker = &mut next.workers[usize::from(worker)];
                worker.stale = true;
                let message = &mut next.posts[usize::from(worker.post)];
                message.queued += u8::from(!message.gone);
            }
            Action::Take { worker, post } => {
                let claim = next.fresh_claim();
                next.posts[usize::from(post)].queued -= 1;
                next.workers[usize::from(worker)] = Worker {
                    phase: Phase::Asking { asked: false },
                    post,
                    claim,
                    token: 0,
                    since: 0,
                    stale: false,
                };
            }
            Action::Go { worker, net } => {
                match net {
                    Net::Answered => {}
                    Net::AnswerLost => next.left.lost -= 1,
                    Net::Delayed => next.left.delayed -= 1,
                }
                self.goes(&mut next, usize::from(worker), net);
            }
            Action::Call { worker, came } => self.called(&mut next, usize::from(worker), came),
            Action::Begin { worker } => {
                next.left.lost -= 1;
                self.begins(&mut next, usize::from(worker));
            }
            Action::Renew { worker, net } => {
                next.left.renewals -= 1;
                next.left.lost -= u8::from(net == Net::AnswerLost);
                let at = next.workers[usize::from(worker)];
                let kept = self.renew(&mut next, index(self.operation_of(at)), at.claim);
                // A worker that has not begun the effect does not begin it.
                if !kept && net == Net::Answered {
                    let worker = &mut next.workers[usize::from(worker)];
                    if matches!(worker.phase, Phase::Starting | Phase::Granted) {
                        worker.phase = Phase::HandingBack;
                    }
                }
            }
            Action::GiveBack { worker, net } => {
                next.left.given_back = next.left.given_back.saturating_sub(1);
                next.left.lost -= u8::from(net == Net::AnswerLost);
                let at = next.workers[usize::from(worker)];
                let report = Report::Release {
                    maybe: false,
                    counted: false,
                };
                let told = self.settle(&mut next, index(self.operation_of(at)), at.claim, report);
                if told.is_some() {
                    self.meets(Case::GivenBack);
                }
                next.workers[usize::from(worker)].phase = Phase::HandingBack;
            }
            Action::HandBack { worker } => Self::hand_back(&mut next, usize::from(worker)),
            Action::Crash { worker } => {
                next.left.crashes -= 1;
                Self::hand_back(&mut next, usize::from(worker));
            }
            Action::Land => self.lands(&mut next),
            Action::Sweep { operation } => {
                if !self.sweep(&mut next, operation) {
                    return None;
                }
            }
            Action::Order { operation, wish } => {
                next.left.orders -= 1;
                if !self.order(&mut next, operation, wish) {
                    return None;
                }
            }
            Action::Forget => {
                next.left.amnesia -= 1;
                self.forget(&mut next);
            }
        }
        self.look(&mut next);
        Some(next)
    }

    /// The worker takes its next step, at the store or at the broker.
    fn goes(&self, world: &mut World, worker: usize, net: Net) {
        let at = world.workers[worker];
        let operation = index(self.operation_of(at));
        match at.phase {
            Phase::Asking { asked } => {
                if self.setup.conduct == Conduct::CallsFirst && !asked {
                    self.apply(world, usize::from(operation), 1);
                }
                if net == Net::Delayed {
                    world.late = Some(Late::Claim {
                        post: at.post,
                        claim: at.claim,
                    });
                    world.workers[worker].phase = Phase::Asking { asked: true };
                    return;
                }
                let told = self.claim(world, at.post, at.claim);
                self.hears_claim(world, worker, told, net);
            }
            Phase::Starting => {
                if net == Net::Delayed {
                    world.late = Some(Late::Start {
                        operation,
                        claim: at.claim,
                    });
                    return;
                }
                let told = self.settle(world, operation, at.claim, Report::Start);
                if net == Net::Answered {
                    let is_mine = told.is_some();
                    if !is_mine {
                        self.meets(Case::FencedStart);
                    }
                    let now = world.now;
                    let worker = &mut world.workers[worker];
                    worker.since = now;
                    worker.phase = match told {
                        Some(StateKind::Started) => Phase::Granted,
                        Some(StateKind::Dead | StateKind::InDoubt) => {
                            Phase::Acknowledging { lists: true }
                        }
                        Some(StateKind::Claimed | StateKind::Released | StateKind::Completed)
                        | None => Phase::HandingBack,
                    };
                }
            }
            Phase::Granted => self.commits(world, worker, net),
            Phase::Called { answer } => {
                let report = Report::Complete { answer };
                let late = Late::Complete {
                    operation,
                    claim: at.claim,
                    answer,
                };
                self.reports(world, worker, report, late, net);
            }
            Phase::Failed { maybe } => {
                let report = Report::Release {
                    maybe,
                    counted: true,
                };
                let late = Late::Release {
                    operation,
                    claim: at.claim,
                    maybe,
                };
                self.reports(world, worker, report, late, net);
            }
            Phase::Refused { decisive } => {
                let none = Late::Release {
                    operation,
                    claim: at.claim,
                    maybe: false,
                };
                self.reports(world, worker, Report::Fail { decisive }, none, net);
            }
            Phase::Acknowledging { lists } => {
                if lists {
                    world.lives[usize::from(operation)].listed = true;
                }
                self.acknowledge(world, worker);
                world.workers[worker] = IDLE;
            }
            Phase::Probing { told_at } => {
                let life = &world.lives[usize::from(operation)];
                let applied = life.effects > life.before;
                world.workers[worker].phase = Phase::Finding { told_at, applied };
            }
            Phase::Finding { told_at, applied } => {
                self.finds(world, worker, told_at, applied, net);
            }
            Phase::HandingBack => Self::hand_back(world, worker),
            Phase::Idle => {}
        }
    }

    fn hears_claim(&self, world: &mut World, worker: usize, told: Told, net: Net) {
        if net != Net::Answered {
            world.workers[worker].phase = Phase::Asking { asked: true };
            return;
        }
        let at = self.operation_of(world.workers[worker]);
        let now = world.now;
        let phase = match told {
            Told::Granted { token } => {
                let worker = &mut world.workers[worker];
                worker.token = token;
                worker.since = now;
                if self.setup.conduct == Conduct::CallsFirst {
                    Phase::Called { answer: 1 }
                } else if self.setup.marks_apart {
                    Phase::Starting
                } else {
                    Phase::Granted
                }
            }
            Told::Replay => Phase::Acknowledging { lists: false },
            Told::Busy if self.setup.conduct == Conduct::DropsBusy => {
                Phase::Acknowledging { lists: false }
            }
            Told::Busy => Phase::Asking { asked: true },
            Told::Stale => {
                world.lives[at].superseded = true;
                Phase::Acknowledging { lists: false }
            }
            Told::Parked {
                in_doubt_at: Some(told_at),
            } if self.setup.probes => Phase::Probing { told_at },
            Told::Conflict | Told::Parked { .. } | Told::TooOld => {
                Phase::Acknowledging { lists: true }
            }
        };
        world.workers[worker].phase = phase;
        if phase == Phase::Granted && self.setup.conduct == Conduct::AcksFirst {
            self.acknowledge(world, worker);
        }
    }
}
