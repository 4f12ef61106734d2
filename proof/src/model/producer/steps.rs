//! The possible next actions of producers.

use super::law::Fault;
use super::setup::Conduct;
use super::subject::Sender;
use super::world::World;
use crate::model::steps::index;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A process opens the producer.
    Open { process: u8 },
    /// It appends the next message to the journal.
    Append { process: u8 },
    /// It sends so many of those that it does not know to be taken, perhaps before others are.
    Send { process: u8, first: u8, count: u8 },
    /// A request comes to the gate, and perhaps once more later.
    Arrive {
        at: u8,
        is_answered: bool,
        stays: bool,
    },
    /// A request is lost.
    Lose { at: u8 },
    /// A process records what it knows to be taken.
    Confirm { process: u8 },
    /// It is killed.
    Kill { process: u8 },
}

impl Sender {
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        let has_room = world.requests.iter().any(Option::is_none);
        for (process, open) in world.processes.iter().enumerate() {
            let process = index(process);
            let Some(open) = open else {
                if world.left.openings > 0 {
                    actions.push(Action::Open { process });
                }
                continue;
            };
            if open.next <= self.setup.messages {
                actions.push(Action::Append { process });
            }
            let ahead = u8::from(self.setup.conduct == Conduct::SendsFirst);
            let end = open.next + ahead;
            for first in open.answered + 1..end {
                for count in 1..=MOST.min(end - first) {
                    if has_room {
                        actions.push(Action::Send {
                            process,
                            first,
                            count,
                        });
                    }
                }
            }
            if open.answered > world.journal.confirmed {
                actions.push(Action::Confirm { process });
            }
            if world.left.kills > 0 {
                actions.push(Action::Kill { process });
            }
        }
        for (at, _) in world
            .requests
            .iter()
            .enumerate()
            .filter(|(_, it)| it.is_some())
        {
            let at = index(at);
            for (is_answered, stays) in [(true, false), (false, false), (true, true), (false, true)]
            {
                let is_possible =
                    (is_answered || world.left.lost > 0) && (!stays || world.left.again > 0);
                if is_possible {
                    actions.push(Action::Arrive {
                        at,
                        is_answered,
                        stays,
                    });
                }
            }
            if world.left.lost > 0 {
                actions.push(Action::Lose { at });
            }
        }
    }
}

impl Action {
    /// The faults that it is.
    pub(crate) fn faults(self) -> impl Iterator<Item = Fault> {
        let faults = match self {
            Self::Kill { .. } => [Some(Fault::Killed), None],
            Self::Lose { .. } => [Some(Fault::Lost), None],
            Self::Arrive {
                is_answered, stays, ..
            } => [
                (!is_answered).then_some(Fault::Lost),
                stays.then_some(Fault::Again),
            ],
            Self::Open { .. } | Self::Append { .. } | Self::Send { .. } | Self::Confirm { .. } => {
                [None; 2]
            }
        };
        faults.into_iter().flatten()
    }
}

/// The most messages of a request.
const MOST: u8 = 2;
