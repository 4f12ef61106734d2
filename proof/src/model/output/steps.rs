//! The possible next actions in the output class.

use super::Output;
use super::law::Fault;
use super::setup::Conduct;
use super::world::{Phase, WORKERS, Worker, World};
use crate::model::steps::index;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Tick,
    /// The broker hands a delivery to another worker as well.
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
    /// The worker makes its next request to the store: its mark, claims, to give back, to record.
    Go {
        worker: u8,
        net: Net,
    },
    Crash {
        worker: u8,
    },
    /// It crashes, and its last request is on its way.
    CrashAsking {
        worker: u8,
    },
    /// The request of a dead worker arrives.
    Land,
    /// The commit of a dead worker is carried out.
    LandCommit {
        worker: u8,
    },
    Sweep {
        operation: u8,
    },
    /// The store is opened anew.
    Reopen,
}

/// The result of a request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    Answered,
    AnswerLost,
    /// A commit that was not carried out.
    Refused,
}

/// The result of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    Whole,
    /// All of it is written, and may or may not be durable.
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
                Net::Refused => Some(Fault::CommitRefused),
            },
            Self::Tick
            | Self::Take { .. }
            | Self::Land
            | Self::LandCommit { .. }
            | Self::Sweep { .. } => None,
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
            // As long as both are new, they are interchangeable.
            let is_like = self.is_admitting(0) == self.is_admitting(1) && world.are_alike();
            if at == 0 || !is_like {
                self.works(world, index(at), &world.workers[at], actions);
            }
        }
        for (worker, open) in world.open.iter().enumerate() {
            if open.is_some_and(|open| open.is_left) {
                let worker = index(worker);
                actions.push(Action::LandCommit { worker });
            }
        }
        if world.open == [None; WORKERS] {
            Self::goes_on(world, actions);
        }
    }

    /// The actions of a store that no worker holds.
    fn goes_on(world: &World, actions: &mut Vec<Action>) {
        if world.late.is_some() {
            actions.push(Action::Land);
        }
        for (operation, record) in world.records.iter().enumerate() {
            if record.is_some_and(|record| record.finished().is_some()) {
                let operation = index(operation);
                actions.push(Action::Sweep { operation });
            }
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
            Phase::Opening
            | Phase::Undoing
            | Phase::Recording { .. }
            | Phase::Marking { .. }
            | Phase::Committing => true,
        };
        if asks && !self.waits(world, worker.into()) {
            self.asks(world, worker, at, actions);
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
            if is_recording && world.late.is_none() || matches!(at.phase, Phase::Committing) {
                actions.push(Action::CrashAsking { worker });
            }
        }
    }

    /// The requests to the store, and their results.
    fn asks(&self, world: &World, worker: u8, at: &Worker, actions: &mut Vec<Action>) {
        let left = &world.left;
        let mut push = |net| actions.push(Action::Go { worker, net });
        push(Net::Answered);
        // A batch whose decisions are lost is taken back, as after a crash.
        let is_deciding = at.phase == Phase::Ready && self.is_admitting(worker.into());
        if left.lost > 0 && !is_deciding {
            push(Net::AnswerLost);
        }
        if left.refused > 0 && matches!(at.phase, Phase::Committing) {
            push(Net::Refused);
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
        // Those of one key wait for each other, unless the store admits a batch.
        let operations: Vec<_> = in_hand.map(|item| self.operation_of(item.post)).collect();
        if operations.len() < self.setup.batch.into() {
            for post in 0..self.setup.posts.len() {
                let is_free = !operations.contains(&self.operation_of(index(post)))
                    || self.is_admitting(worker.into());
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
