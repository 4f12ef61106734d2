//! The possible next actions in class E.

use super::Streamed;
use super::law::Fault;
use super::setup::Conduct;
use super::world::{MEMBERS, Member, Restore, Stage, Stands, Work, World};
use crate::model::numbers::NONE;
use crate::model::steps::index;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// A member decides a batch and transforms it.
    Take {
        member: u8,
        came: Came,
    },
    /// It does the next step of its transaction.
    Go {
        member: u8,
        net: Net,
    },
    /// It takes the next step of the batch that it writes meanwhile.
    Ahead {
        member: u8,
    },
    /// It gets the same batch again before it has answered.
    Again {
        member: u8,
    },
    /// It does the next step of restoring its image.
    Restore {
        member: u8,
    },
    /// It commits offsets without a transaction.
    Ack {
        member: u8,
    },
    /// The group gives the partition to another member.
    Rebalance {
        to: u8,
    },
    /// A member learns that it is no longer in the group.
    ThrownOut {
        member: u8,
    },
    /// It is in the group again, with what it is given there.
    Rejoin {
        member: u8,
    },
    /// It is killed, and begins anew.
    Crash {
        member: u8,
    },
    /// A transaction took too long.
    TimeOut {
        at: u8,
    },
    /// The coordinator writes a marker of a transaction that is committed.
    Mark {
        at: u8,
        changelog: bool,
    },
    /// A late commit arrives.
    Land,
}

/// The result of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Done,
    /// The first one of the batch fails, and is tried again later.
    Fails,
    /// The first one fails for good.
    Refused,
}

/// The result of a request to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    Answered,
    AnswerLost,
    Delayed,
}

impl Action {
    /// The fault that it is, if it is one.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            Self::Crash { .. } => Some(Fault::Crash),
            Self::Rebalance { .. } => Some(Fault::Rebalanced),
            Self::TimeOut { .. } => Some(Fault::TimedOut),
            Self::Take { came, .. } => match came {
                Came::Done => None,
                Came::Fails | Came::Refused => Some(Fault::TransformFailed),
            },
            Self::Go { net, .. } => match net {
                Net::Answered => None,
                Net::AnswerLost => Some(Fault::AnswerLost),
                Net::Delayed => Some(Fault::Delayed),
            },
            Self::Again { .. } => Some(Fault::AskedAgain),
            Self::Tick
            | Self::Ahead { .. }
            | Self::Restore { .. }
            | Self::Ack { .. }
            | Self::ThrownOut { .. }
            | Self::Rejoin { .. }
            | Self::Mark { .. }
            | Self::Land => None,
        }
    }
}

impl Work {
    /// The transaction that it has under way.
    pub(crate) fn transaction(self) -> Option<u8> {
        match self.stage {
            Stage::Ready => None,
            Stage::Wrote { at }
            | Stage::Knows { at, .. }
            | Stage::Looked { at, .. }
            | Stage::Offered { at } => Some(at),
        }
    }
}

impl Streamed {
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken != 0 {
            return;
        }
        if world.now < self.setup.ticks {
            actions.push(Action::Tick);
        }
        for member in 0..index(MEMBERS) {
            self.of_member(world, member, actions);
            if world.left.rebalances > 0 && world.group.owner != member {
                actions.push(Action::Rebalance { to: member });
            }
        }
        for (at, transaction) in world.transactions().iter().enumerate() {
            let at = index(at);
            match transaction.stands {
                Stands::Open => {
                    let mut works = world.members.iter().flat_map(Member::works);
                    let is_awaited = works.any(|it| it.transaction() == Some(at));
                    if !is_awaited || world.left.timeouts > 0 {
                        actions.push(Action::TimeOut { at });
                    }
                }
                Stands::Committed { offsets, changelog } => {
                    for (is_there, of_changelog) in [(offsets, false), (changelog, true)] {
                        if !is_there {
                            let changelog = of_changelog;
                            actions.push(Action::Mark { at, changelog });
                        }
                    }
                }
                Stands::Aborted => {}
            }
        }
        if world.late.is_some() {
            actions.push(Action::Land);
        }
    }

    fn of_member(&self, world: &World, member: u8, actions: &mut Vec<Action>) {
        let at = &world.members[usize::from(member)];
        let left = &world.left;
        if left.crashes > 0 {
            actions.push(Action::Crash { member });
        }
        if at.generation == NONE {
            actions.push(Action::Rejoin { member });
        } else if at.generation < world.group.generation {
            actions.push(Action::ThrownOut { member });
        }
        if let Some(work) = at.work
            && self.may_go(world, member, at, work)
        {
            let net = Net::Answered;
            actions.push(Action::Go { member, net });
            if let Stage::Offered { at } = work.stage
                && world.log[usize::from(at)].stands == Stands::Open
            {
                if left.lost > 0 {
                    let net = Net::AnswerLost;
                    actions.push(Action::Go { member, net });
                }
                if left.delayed > 0 && world.late.is_none() {
                    let net = Net::Delayed;
                    actions.push(Action::Go { member, net });
                }
            }
        }
        let has_written = at.work.is_some_and(|work| work.transaction().is_some());
        let goes_ahead = at.ahead.is_some_and(|ahead| match ahead.stage {
            Stage::Ready => has_written && self.may_go(world, member, at, ahead),
            // It is to be written behind that.
            _ => !has_written,
        });
        if goes_ahead {
            actions.push(Action::Ahead { member });
        }
        if has_written && at.ahead.is_none() && left.again > 0 {
            actions.push(Action::Again { member });
        }
        let Some(assignment) = at.assignment else {
            return;
        };
        let is_stable = world.offsets_are_stable() || self.setup.conduct == Conduct::TakesUnstable;
        let at_once = self.setup.conduct == Conduct::ReadsAtOnce;
        let restores = match assignment.restore {
            Restore::Position | Restore::Offsets => is_stable,
            Restore::End => true,
            Restore::Until { end } => world.stable_end() >= end || at_once,
            Restore::Done => false,
        };
        if restores {
            actions.push(Action::Restore { member });
        }
        if assignment.restore != Restore::Done {
            return;
        }
        // One commit at a time, with a transaction or without; and none while a later one is unknown.
        let has_doubt = at.works().any(|work| work.tried != NONE);
        let has_doubt = has_doubt && self.setup.conduct != Conduct::AcksInDoubt;
        let alone = at.work.is_none_or(|work| match work.stage {
            Stage::Ready | Stage::Wrote { .. } => !has_doubt,
            Stage::Knows { .. } | Stage::Looked { .. } | Stage::Offered { .. } => false,
        });
        if alone
            && self
                .behind(assignment, 0)
                .is_some_and(|it| it > assignment.acked)
        {
            actions.push(Action::Ack { member });
        }
        let is_ahead = self.setup.is_ahead && has_written && at.ahead.is_none();
        if at.work.is_none() || is_ahead {
            let mut push = |came| actions.push(Action::Take { member, came });
            push(Came::Done);
            if left.failures > 0 {
                push(Came::Fails);
            }
            if left.refusals > 0 {
                push(Came::Refused);
            }
        }
    }

    /// Returns whether the next step of a transaction waits for nothing.
    fn may_go(&self, world: &World, member: u8, at: &Member, work: Work) -> bool {
        if work.stage != Stage::Ready {
            return true;
        }
        let Some(assignment) = at.assignment.filter(|it| it.id == work.assignment) else {
            return true;
        };
        let name = Member::name(self.setup.names, member, work.producer);
        let has_room = usize::from(world.len) < world.log.len();
        assignment.restore == Restore::Done && !world.is_busy(name) && has_room
    }
}
