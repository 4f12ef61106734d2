//! What can happen next in the output class.

use super::Output;
use super::law::Fault;
use super::setup::Conduct;
use super::world::{Phase, WORKERS, Worker, World};
use crate::model::steps::index;

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// The broker hands a delivery to somebody else as well.
    Redeliver {
        worker: u8,
        place: u8,
    },
    Take {
        worker: u8,
        post: u8,
    },
    Append {
        worker: u8,
        came: Came,
    },
    /// The worker asks the store for the next thing: its mark, claims, to give back, to record.
    Go {
        worker: u8,
        net: Net,
    },
    Crash {
        worker: u8,
    },
    /// It crashes, and what it asked for last is on its way.
    CrashAsking {
        worker: u8,
    },
    /// What a dead worker asked for arrives.
    Land,
    Sweep {
        operation: u8,
    },
    /// The store is opened anew.
    Reopen,
}

/// How a request to the store fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    Answered,
    AnswerLost,
}

/// How an append fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Whole,
    /// All is written, and nobody knows whether it is durable.
    FailsWhole,
    FailsHalf,
    CrashesHalf,
}

impl Action {
    /// The fault that it is, if it is one.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            Self::Crash { .. } | Self::CrashAsking { .. } => Some(Fault::Crash),
            Self::Redeliver { .. } => Some(Fault::Redelivered),
            Self::Reopen => Some(Fault::StoreReopened),
            Self::Append { came, .. } => match came {
                Came::Whole => None,
                Came::FailsWhole | Came::FailsHalf => Some(Fault::AppendFailed),
                Came::CrashesHalf => Some(Fault::CrashedInAppend),
            },
            Self::Go { net, .. } => match net {
                Net::Answered => None,
                Net::AnswerLost => Some(Fault::AnswerLost),
            },
            Self::Tick | Self::Take { .. } | Self::Land | Self::Sweep { .. } => None,
        }
    }
}

impl Output {
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken != 0 {
            return;
        }
        if world.now < self.setup.ticks {
            actions.push(Action::Tick);
        }
        for at in 0..WORKERS {
            // As long as both are new, they are the same.
            if at == 0 || !world.are_alike() {
                self.works(world, index(at), &world.workers[at], actions);
            }
        }
        for (operation, record) in world.records.iter().enumerate() {
            if record.is_some_and(|record| record.finished().is_some()) {
                let operation = index(operation);
                actions.push(Action::Sweep { operation });
            }
        }
        if world.late.is_some() {
            actions.push(Action::Land);
        }
        if world.left.reopened > 0 {
            actions.push(Action::Reopen);
        }
    }

    fn works(&self, world: &World, worker: u8, at: &Worker, actions: &mut Vec<Action>) {
        let left = &world.left;
        let asks = match at.phase {
            Phase::Writing => {
                self.appends(world, worker, actions);
                false
            }
            Phase::Ready => {
                self.takes(world, worker, at, actions);
                at.hand.iter().flatten().next().is_some()
            }
            Phase::Opening | Phase::Undoing | Phase::Recording { .. } | Phase::Marking { .. } => {
                true
            }
        };
        if asks {
            let net = Net::Answered;
            actions.push(Action::Go { worker, net });
            if left.lost > 0 {
                let net = Net::AnswerLost;
                actions.push(Action::Go { worker, net });
            }
        }
        for (place, item) in at.hand.iter().enumerate() {
            if left.redelivered > 0 && item.is_some_and(|item| !item.stale) {
                let place = index(place);
                actions.push(Action::Redeliver { worker, place });
            }
        }
        // A worker that has not begun is as good as new.
        if left.crashes > 0 && at.phase != Phase::Opening {
            actions.push(Action::Crash { worker });
            let is_recording = matches!(at.phase, Phase::Recording { .. });
            if is_recording && !self.setup.requests_end && world.late.is_none() {
                actions.push(Action::CrashAsking { worker });
            }
        }
    }

    fn appends(&self, world: &World, worker: u8, actions: &mut Vec<Action>) {
        let mut push = |came| actions.push(Action::Append { worker, came });
        push(Came::Whole);
        if self.setup.conduct == Conduct::RecordsFirst {
            return;
        }
        if world.left.failures > 0 {
            push(Came::FailsWhole);
            push(Came::FailsHalf);
        }
        if world.left.torn > 0 {
            push(Came::CrashesHalf);
        }
    }

    fn takes(&self, world: &World, worker: u8, at: &Worker, actions: &mut Vec<Action>) {
        let in_hand = at.hand.iter().flatten();
        // Those of one key wait for each other.
        let operations: Vec<_> = in_hand.map(|item| self.operation_of(item.post)).collect();
        if operations.len() < self.setup.batch.into() {
            for post in 0..self.setup.posts.len() {
                let is_free = !operations.contains(&self.operation_of(index(post)));
                if world.queued[post] > 0 && is_free {
                    let post = index(post);
                    actions.push(Action::Take { worker, post });
                }
            }
        }
    }

    pub(crate) fn operation_of(&self, post: u8) -> usize {
        self.setup.posts[usize::from(post)].operation.into()
    }

    /// The file that a worker writes.
    pub(crate) fn file_of(&self, worker: usize) -> usize {
        if self.setup.conduct == Conduct::SharesFile {
            0
        } else {
            worker
        }
    }
}
