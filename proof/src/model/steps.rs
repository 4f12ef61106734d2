//! The possible next actions.

use super::law::Fault;
use super::numbers::NONE;
use super::setup::{Class, MARGIN, Wish};
use super::subject::Protocol;
use super::world::{Late, Phase, Worker, World};

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    Publish {
        post: u8,
    },
    /// The broker hands a delivery to another worker as well.
    Redeliver {
        worker: u8,
    },
    Take {
        worker: u8,
        post: u8,
    },
    /// The worker takes its next step.
    Go {
        worker: u8,
        net: Net,
    },
    Call {
        worker: u8,
        came: Came,
    },
    /// Only the beginning of the worker's report arrives: that its effect has begun.
    Begin {
        worker: u8,
    },
    Renew {
        worker: u8,
        net: Net,
    },
    GiveBack {
        worker: u8,
        net: Net,
    },
    HandBack {
        worker: u8,
    },
    Crash {
        worker: u8,
    },
    /// A late request arrives.
    Land,
    Sweep {
        operation: u8,
    },
    Order {
        operation: u8,
        wish: Wish,
    },
    Forget,
}

/// The result of a request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    Answered,
    AnswerLost,
    /// It arrives later, or never.
    Delayed,
}

/// The result of a call of the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Answered,
    AnswerLost,
    Delayed,
    /// Surely not applied.
    NotApplied,
    /// Refused for good by the provider itself: it did not happen before and never will.
    Refused,
    /// Refused for good by a party in between, which knows of no earlier call.
    TurnedAway,
}

impl Action {
    /// The fault that it is, if it is one.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            Self::Crash { .. } => Some(Fault::Crash),
            Self::Redeliver { .. } => Some(Fault::Redelivered),
            Self::Begin { .. } => Some(Fault::AnswerLost),
            Self::Forget => Some(Fault::WriteForgotten),
            Self::Go { net, .. } | Self::Renew { net, .. } | Self::GiveBack { net, .. } => {
                match net {
                    Net::Answered => None,
                    Net::AnswerLost => Some(Fault::AnswerLost),
                    Net::Delayed => Some(Fault::Delayed),
                }
            }
            Self::Call { came, .. } => match came {
                Came::Answered => None,
                Came::AnswerLost => Some(Fault::AnswerLost),
                Came::Delayed => Some(Fault::Delayed),
                Came::NotApplied | Came::Refused | Came::TurnedAway => Some(Fault::CallFailed),
            },
            Self::Tick
            | Self::Publish { .. }
            | Self::Take { .. }
            | Self::HandBack { .. }
            | Self::Land
            | Self::Sweep { .. }
            | Self::Order { .. } => None,
        }
    }
}

impl Protocol {
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken != 0 {
            return;
        }
        let setup = &self.setup;
        if world.now < setup.ticks {
            actions.push(Action::Tick);
        }
        for post in 0..setup.posts.len() {
            if !world.posts[post].published {
                actions.push(Action::Publish { post: index(post) });
            }
        }
        // The idle workers are interchangeable, so only the first takes.
        let mut idle_was_met = false;
        for worker in 0..setup.workers {
            let at = world.workers[usize::from(worker)];
            if at.phase == Phase::Idle {
                if !idle_was_met {
                    self.takes(world, worker, actions);
                }
                idle_was_met = true;
            } else {
                self.works(world, worker, at, actions);
            }
        }
        if self.may_land(world) {
            actions.push(Action::Land);
        }
        for operation in 0..self.operations() {
            if world.records[usize::from(operation)].is_some() {
                actions.push(Action::Sweep { operation });
            }
            for &wish in setup.wishes {
                if world.left.orders > 0 && self.may_order(world, operation, wish) {
                    actions.push(Action::Order { operation, wish });
                }
            }
        }
        if world.left.amnesia > 0 && world.before.is_some() {
            actions.push(Action::Forget);
        }
    }

    fn takes(&self, world: &World, worker: u8, actions: &mut Vec<Action>) {
        for post in 0..self.setup.posts.len() {
            if world.posts[post].queued > 0 {
                let post = index(post);
                actions.push(Action::Take { worker, post });
            }
        }
    }

    fn works(&self, world: &World, worker: u8, at: Worker, actions: &mut Vec<Action>) {
        let left = &world.left;
        let calls = match at.phase {
            Phase::Granted => !self.setup.class.is_atomic(),
            Phase::Idle
            | Phase::Asking { .. }
            | Phase::Starting
            | Phase::Called { .. }
            | Phase::Failed { .. }
            | Phase::Refused { .. }
            | Phase::Probing { .. }
            | Phase::Finding { .. }
            | Phase::Acknowledging { .. }
            | Phase::HandingBack => false,
        };
        if calls {
            self.calls(world, worker, at, actions);
        } else {
            let asks = !matches!(
                at.phase,
                Phase::Probing { .. } | Phase::Acknowledging { .. } | Phase::HandingBack
            );
            let net = Net::Answered;
            actions.push(Action::Go { worker, net });
            if asks && left.lost > 0 {
                let net = Net::AnswerLost;
                actions.push(Action::Go { worker, net });
            }
            // A worker waits for the answer to a verdict, or for its failure.
            let can_delay = !matches!(at.phase, Phase::Refused { .. } | Phase::Finding { .. });
            if asks && can_delay && left.delayed > 0 && world.late.is_none() {
                let net = Net::Delayed;
                actions.push(Action::Go { worker, net });
            }
        }
        if self.says_begun(at.phase) && left.lost > 0 {
            actions.push(Action::Begin { worker });
        }
        let holds_claim = matches!(
            at.phase,
            Phase::Starting | Phase::Granted | Phase::Called { .. } | Phase::Failed { .. }
        );
        if holds_claim && left.renewals > 0 {
            let net = Net::Answered;
            actions.push(Action::Renew { worker, net });
            if left.lost > 0 {
                let net = Net::AnswerLost;
                actions.push(Action::Renew { worker, net });
            }
        }
        if matches!(at.phase, Phase::Starting | Phase::Granted) && left.given_back > 0 {
            let net = Net::Answered;
            actions.push(Action::GiveBack { worker, net });
            if left.lost > 0 {
                let net = Net::AnswerLost;
                actions.push(Action::GiveBack { worker, net });
            }
        }
        if matches!(at.phase, Phase::Asking { .. }) {
            actions.push(Action::HandBack { worker });
        }
        if left.crashes > 0 {
            actions.push(Action::Crash { worker });
        }
        if left.redelivered > 0 && !at.stale {
            actions.push(Action::Redeliver { worker });
        }
    }

    fn calls(&self, world: &World, worker: u8, at: Worker, actions: &mut Vec<Action>) {
        let left = &world.left;
        if self.setup.calls_are_prompt && world.now > at.since + MARGIN {
            // It is too late to call; only the report is left.
            let net = Net::Answered;
            if left.given_back == 0 {
                actions.push(Action::GiveBack { worker, net });
            }
            return;
        }
        let mut push = |came| actions.push(Action::Call { worker, came });
        push(Came::Answered);
        if left.lost > 0 {
            push(Came::AnswerLost);
        }
        if left.delayed > 0 && world.late.is_none() {
            push(Came::Delayed);
        }
        let life = &world.lives[self.operation_of(at)];
        let knows = self.setup.class == Class::Keyed && life.known_since != NONE;
        if left.failures > 0 && !knows {
            push(Came::NotApplied);
        }
        if left.refusals > 0 {
            if !knows && life.effects == life.before {
                push(Came::Refused);
            }
            push(Came::TurnedAway);
        }
    }

    fn may_land(&self, world: &World) -> bool {
        match world.late {
            Some(Late::Call { until, .. }) => !self.setup.calls_are_prompt || world.now <= until,
            Some(
                Late::Claim { .. }
                | Late::Start { .. }
                | Late::Commit { .. }
                | Late::Complete { .. }
                | Late::Release { .. },
            ) => true,
            None => false,
        }
    }

    pub(crate) fn operation_of(&self, worker: Worker) -> usize {
        self.setup.posts[usize::from(worker.post)].operation.into()
    }

    pub(crate) fn operations(&self) -> u8 {
        let posts = self.setup.posts.iter();
        posts.map(|post| post.operation + 1).max().unwrap_or(1)
    }
}

pub(crate) fn index(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(NONE)
}
