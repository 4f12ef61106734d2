//! What comes of it.

use semel_core::StateKind;

use super::Protocol;
use super::law::{Case, Law};
use super::setup::{Broker, Class, Conduct, MARGIN};
use super::steps::{Action, Came, Net, index};
use super::store::{Report, Told};
use super::world::{IDLE, Late, NONE, Phase, Rec, Worker, World};

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
            Action::Renew { worker, net } => {
                next.left.renewals -= 1;
                next.left.lost -= u8::from(net == Net::AnswerLost);
                let at = next.workers[usize::from(worker)];
                let kept = self.renew(&mut next, index(self.operation_of(at)), at.claim);
                // Who has not begun the effect does not begin it.
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

    /// The worker does what it is about to do, at the store or at the broker.
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
            Phase::Refused => {
                let none = Late::Release {
                    operation,
                    claim: at.claim,
                    maybe: false,
                };
                self.reports(world, worker, Report::Fail, none, net);
            }
            Phase::Acknowledging { lists } => {
                if lists {
                    world.lives[usize::from(operation)].listed = true;
                }
                self.acknowledge(world, worker);
                world.workers[worker] = IDLE;
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
            Told::Conflict | Told::Parked | Told::TooOld => Phase::Acknowledging { lists: true },
        };
        world.workers[worker].phase = phase;
        if phase == Phase::Granted && self.setup.conduct == Conduct::AcksFirst {
            self.acknowledge(world, worker);
        }
    }

    /// Effect and completion in one transaction.
    fn commits(&self, world: &mut World, worker: usize, net: Net) {
        let at = world.workers[worker];
        let operation = index(self.operation_of(at));
        if net == Net::Delayed {
            world.late = Some(Late::Commit {
                operation,
                claim: at.claim,
                token: at.token,
            });
            // The connection is gone; asking again tells what became of it.
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

    /// The store's part of a transaction decides whether all of it becomes true.
    fn commit(&self, world: &mut World, operation: u8, claim: u8, token: u8) -> Option<StateKind> {
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

    /// A call of an effect that is outside.
    fn called(&self, world: &mut World, worker: usize, came: Came) {
        let at = world.workers[worker];
        let operation = self.operation_of(at);
        let phase = match came {
            Came::Answered => match self.apply(world, operation, at.token) {
                Some(answer) => Phase::Called { answer },
                None => Phase::Refused,
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
                Phase::Refused
            }
        };
        world.workers[worker].phase = phase;
    }

    /// The effect happens, unless its provider knows better; its answer, or nothing if it is refused.
    fn apply(&self, world: &mut World, operation: usize, token: u8) -> Option<u8> {
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

    /// Reports to the store what became of an attempt.
    fn reports(&self, world: &mut World, worker: usize, report: Report, late: Late, net: Net) {
        let at = world.workers[worker];
        let trusts = self.setup.conduct == Conduct::TrustsSilence;
        if net == Net::Delayed {
            world.late = Some(late);
        } else {
            let operation = index(self.operation_of(at));
            let told = self.settle(world, operation, at.claim, report);
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
                            Report::Start | Report::Release { .. } | Report::Fail => {
                                Case::FencedRelease
                            }
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

    fn fenced(&self) -> Phase {
        if self.setup.conduct == Conduct::AcksFenced {
            Phase::Acknowledging { lists: false }
        } else {
            Phase::HandingBack
        }
    }

    /// A late request arrives, and nobody hears the answer.
    fn lands(&self, world: &mut World) {
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
                self.settle(world, operation, claim, report);
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

    /// The broker hears an acknowledgement, which must rest on a record that carries the case on.
    fn acknowledge(&self, world: &mut World, worker: usize) {
        let at = world.workers[worker];
        let operation = self.operation_of(at);
        let record = world.standing(operation, &self.setup);
        let life = world.lives[operation];
        let settled = match record {
            Some(record) => record.finished().is_some() || record.is_in_doubt(),
            None => life.ended,
        };
        // What a store forgot after it had answered is not the worker's fault.
        let forgot = world.left.amnesia < self.setup.budget.amnesia;
        // What was settled once, and forgotten by an order, may be under way anew.
        let settled = settled || (life.ended && life.forgotten);
        if !settled && !life.listed && !life.superseded && !forgot {
            world.breaks(Law::AcknowledgedSettled);
        }
        world.lives[operation].acknowledged = true;
        let message = &mut world.posts[usize::from(at.post)];
        if self.setup.broker == Broker::Single {
            message.gone = true;
            message.queued = 0;
        }
        if at.stale {
            self.meets(Case::StaleAck);
        }
    }

    fn hand_back(world: &mut World, worker: usize) {
        let at = world.workers[worker];
        let message = &mut world.posts[usize::from(at.post)];
        // What was handed to somebody else is theirs.
        if !at.stale && !message.gone {
            message.queued += 1;
        }
        world.workers[worker] = IDLE;
    }

    /// The laws that can be seen from how things stand.
    fn look(&self, world: &mut World) {
        let mut broken = 0;
        let mut leased = 0;
        for at in 0..usize::from(self.operations()) {
            let life = &world.lives[at];
            let record = world.records[at];
            let is = |of: fn(&Rec) -> bool| record.as_ref().is_some_and(of);
            let repeats = self.setup.class == Class::Repeat;
            let effects = life.effects - life.before;
            let most = 1 + if repeats { life.repeats } else { 0 };
            let unstarted = record.is_some_and(|record| record.first_start == NONE);
            let accounted = life.effects > 0 || life.listed || life.superseded;
            for (law, is_broken) in [
                (Law::RepeatsCounted, repeats && effects > most),
                (Law::SingleEffect, !repeats && effects > most),
                (Law::NoLoss, life.acknowledged && !accounted),
                (
                    Law::CompletedHappened,
                    is(Rec::is_completed) && effects == 0 && !life.superseded,
                ),
                (
                    Law::DeadDidNotHappen,
                    is(Rec::is_dead) && effects > 0 && !life.abandoned,
                ),
                (
                    Law::DoubtHasACause,
                    is(Rec::is_in_doubt) && (unstarted || self.setup.class.is_atomic()),
                ),
            ] {
                if is_broken {
                    broken |= law.bit();
                }
            }
            let until = record.and_then(|record| record.lease());
            leased += u8::from(until.is_some_and(|until| until > world.now));
            if record.is_some_and(|record| record.held)
                && record
                    .and_then(|record| record.finished())
                    .is_some_and(|at| world.now >= at + self.setup.window)
            {
                self.meets(Case::HeldBeyondWindow);
            }
        }
        if self.setup.class == Class::Versioned && leased > 1 {
            broken |= Law::OneHolder.bit();
        }
        world.broken |= broken;
    }
}
