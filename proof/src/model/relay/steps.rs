//! The possible next actions of relays.

use super::law::Fault;
use super::setup::Conduct;
use super::subject::Relay;
use super::world::{Stage, World};
use crate::model::steps::index;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A transaction commits its message.
    Commit { message: u8 },
    /// A relay asks for the lease, or renews it.
    Lease { relay: u8 },
    /// It reads the first message that is not sent.
    Read { relay: u8 },
    /// It begins to publish the message in its hand, or puts it away without the lease.
    Begin { relay: u8 },
    /// It records the message as sent.
    Record { relay: u8 },
    /// It is killed, and begins anew.
    Kill { relay: u8 },
    /// The lease ends while its relay stands still.
    Expire,
    /// A message comes to the sink.
    Land { at: u8, fate: Fate },
}

/// The fate of a message at the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Taken,
    /// Taken, and its relay waits no longer.
    Unanswered,
    Failed,
}

impl Relay {
    pub(crate) fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        let open = (0..self.setup.messages).filter(|it| world.open & (1 << it) != 0);
        actions.extend(open.map(|message| Action::Commit { message }));
        let has_room = world.flights.iter().any(Option::is_none);
        for (relay, process) in world.relays.iter().enumerate() {
            let relay = index(relay);
            let is_free = world.holder.is_none();
            match process.stage {
                Stage::Idle if is_free => actions.push(Action::Lease { relay }),
                Stage::Idle if process.has_lease => actions.push(Action::Read { relay }),
                Stage::Read(message) if self.records_first(world, message) => {
                    actions.push(Action::Record { relay });
                }
                Stage::Read(_) if has_room => actions.push(Action::Begin { relay }),
                Stage::Idle | Stage::Read(_) | Stage::Sent(_) => {}
                Stage::Answered(_) => actions.push(Action::Record { relay }),
            }
            let is_busy = process.has_lease || process.stage != Stage::Idle;
            if world.left.kills > 0 && is_busy {
                actions.push(Action::Kill { relay });
            }
        }
        if world.left.expiries > 0 && world.holder.is_some() {
            actions.push(Action::Expire);
        }
        for (at, _) in world
            .flights
            .iter()
            .enumerate()
            .filter(|(_, it)| it.is_some())
        {
            let at = index(at);
            for (left, fate) in [
                (1, Fate::Taken),
                (world.left.unanswered, Fate::Unanswered),
                (world.left.failures, Fate::Failed),
            ] {
                if left > 0 {
                    actions.push(Action::Land { at, fate });
                }
            }
        }
    }
}

impl Relay {
    /// Returns whether a relay records this message before it publishes it, which is wrong.
    fn records_first(&self, world: &World, message: u8) -> bool {
        self.setup.conduct == Conduct::RecordsFirst && world.unsent & (1 << message) != 0
    }
}

impl Action {
    /// The fault that it is, if it is one.
    pub(crate) fn fault(self) -> Option<Fault> {
        match self {
            Self::Kill { .. } => Some(Fault::Killed),
            Self::Expire => Some(Fault::Expired),
            Self::Land {
                fate: Fate::Failed, ..
            } => Some(Fault::Failed),
            Self::Land {
                fate: Fate::Unanswered,
                ..
            } => Some(Fault::Unanswered),
            Self::Land {
                fate: Fate::Taken, ..
            }
            | Self::Commit { .. }
            | Self::Lease { .. }
            | Self::Read { .. }
            | Self::Begin { .. }
            | Self::Record { .. } => None,
        }
    }
}
