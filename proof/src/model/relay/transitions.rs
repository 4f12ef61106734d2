//! The consequences of each action of relays.

use super::law::{Case, Law};
use super::setup::Conduct;
use super::steps::{Action, Fate};
use super::subject::Relay;
use super::world::{Flight, STARTED, Stage, World};

impl Relay {
    pub(crate) fn happens(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        match action {
            Action::Commit { message } => self.commits(&mut next, message),
            Action::Lease { relay } => {
                next.holder = Some(relay);
                next.relays[usize::from(relay)].has_lease = true;
            }
            Action::Read { relay } => self.reads(&mut next, relay),
            Action::Begin { relay } => self.begins(&mut next, relay)?,
            Action::Record { relay } => self.records(&mut next, relay),
            Action::Kill { relay } => {
                next.left.kills -= 1;
                next.relays[usize::from(relay)] = STARTED;
                next.leave(relay);
                // Its lease ends by itself; that of a process that is gone costs no budget.
                next.holder = next.holder.filter(|holder| *holder != relay);
            }
            Action::Expire => {
                next.left.expiries -= 1;
                next.holder = None;
            }
            Action::Land { at, fate } => self.lands(&mut next, usize::from(at), fate)?,
        }
        if let Some(fault) = action.fault() {
            self.tally.deals(fault as usize);
        }
        // Messages are on their way in no order.
        next.flights.sort_unstable();
        self.look(&mut next);
        Some(next)
    }

    fn commits(&self, world: &mut World, message: u8) {
        if world.committed.iter().any(|it| *it > message) {
            self.meets(Case::LateCommit);
        }
        world.open &= !(1 << message);
        world.committed.push(message);
        world.unsent |= 1 << message;
    }

    fn reads(&self, world: &mut World, relay: u8) {
        let process = &mut world.relays[usize::from(relay)];
        if world.holder != Some(relay) {
            process.has_lease = false;
            self.meets(Case::Fenced);
            return;
        }
        let is_unsent = |it: &u8| world.unsent & (1 << it) != 0;
        let mut unsent = world.committed.iter().copied().filter(is_unsent);
        let last = world
            .committed
            .iter()
            .copied()
            .filter(|it| !is_unsent(it))
            .max();
        let open = (0..self.setup.messages).find(|it| world.open & (1 << it) != 0);
        let found = match self.setup.conduct {
            Conduct::ReadsBehindLast => unsent.find(|it| last.is_none_or(|last| *it > last)),
            Conduct::ReadsOpen => unsent.next().or(open),
            Conduct::Right
            | Conduct::OverlooksLease
            | Conduct::RecordsFirst
            | Conduct::RecordsNothing
            | Conduct::GoesOn => unsent.next(),
        };
        match found {
            Some(message) => process.stage = Stage::Read(message),
            None if world.unsent != 0 => world.broken |= Law::ToldOfAll.bit(),
            None => {}
        }
    }

    fn begins(&self, world: &mut World, relay: u8) -> Option<()> {
        let process = &mut world.relays[usize::from(relay)];
        let Stage::Read(message) = process.stage else {
            return None;
        };
        let has_lease = world.holder == Some(relay);
        if !has_lease && self.setup.conduct != Conduct::OverlooksLease {
            *process = STARTED;
            self.meets(Case::Withheld);
            return Some(());
        }
        if !has_lease {
            world.broken |= Law::OnlyUnderLease.bit();
        }
        process.stage = Stage::Sent(message);
        let flight = Flight {
            message,
            waiting: Some(relay),
        };
        *world.flights.iter_mut().find(|it| it.is_none())? = Some(flight);
        Some(())
    }

    fn records(&self, world: &mut World, relay: u8) {
        let process = &mut world.relays[usize::from(relay)];
        match process.stage {
            // The wrong one alone.
            Stage::Read(message) => {
                world.unsent &= !(1 << message);
            }
            Stage::Answered(message) => {
                if self.setup.conduct != Conduct::RecordsNothing {
                    world.unsent &= !(1 << message);
                }
                process.stage = Stage::Idle;
            }
            Stage::Idle | Stage::Sent(_) => {}
        }
        if world.unsent == 0 && world.open == 0 {
            self.meets(Case::Finished);
        }
    }

    fn lands(&self, world: &mut World, at: usize, fate: Fate) -> Option<()> {
        let Flight { message, waiting } = world.flights[at].take()?;
        match fate {
            Fate::Taken => {}
            Fate::Unanswered => world.left.unanswered -= 1,
            Fate::Failed => world.left.failures -= 1,
        }
        if fate != Fate::Failed {
            if world.topic.contains(&message) {
                self.meets(Case::Again);
            }
            if waiting.is_none() {
                self.meets(Case::AfterDeath);
            }
            world.topic.push(message);
        }
        if let Some(relay) = waiting {
            let later = world
                .committed
                .iter()
                .skip_while(|it| **it != message)
                .nth(1);
            let stage = match (fate, later) {
                (Fate::Taken, _) => Stage::Answered(message),
                (Fate::Failed, Some(later)) if self.setup.conduct == Conduct::GoesOn => {
                    Stage::Read(*later)
                }
                (Fate::Unanswered | Fate::Failed, _) => Stage::Read(message),
            };
            world.relays[usize::from(relay)].stage = stage;
        }
        Some(())
    }

    /// Checks the laws that a state by itself can break.
    fn look(&self, world: &mut World) {
        let mut first = Vec::new();
        for message in &world.topic {
            if !first.contains(message) {
                first.push(*message);
            }
        }
        if first.iter().any(|it| !world.committed.contains(it)) {
            world.broken |= Law::OnlyCommitted.bit();
        } else if !world.committed.starts_with(&first) {
            world.broken |= Law::InOrder.bit();
        }
        let is_sent = |it: &&u8| world.unsent & (1 << **it) == 0;
        let mut sent = world.committed.iter().filter(is_sent);
        if sent.any(|it| !first.contains(it)) {
            world.broken |= Law::OnlyPublished.bit();
        }
        if first.len() < world.topic.len() && world.left == self.setup.budget {
            world.broken |= Law::NoIdleRepeat.bit();
        }
    }
}
