//! The broker: acknowledgements, and messages that are handed back.

use super::law::{Case, Law};
use super::setup::Broker;
use super::subject::Protocol;
use super::world::{IDLE, World};

impl Protocol {
    /// The broker gets an acknowledgement, which must rest on a record of the operation's fate.
    pub(crate) fn acknowledge(&self, world: &mut World, worker: usize) {
        let at = world.workers[worker];
        let operation = self.operation_of(at);
        let record = world.standing(operation, &self.setup);
        let life = world.lives[operation];
        let settled = match record {
            Some(record) => record.finished().is_some() || record.is_in_doubt(),
            None => life.ended,
        };
        // Answers that a store forgot are not the worker's fault.
        let forgot = world.left.amnesia < self.setup.budget.amnesia;
        // An operation that was settled once, and forgotten by an order, may be under way anew.
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

    pub(crate) fn hand_back(world: &mut World, worker: usize) {
        let at = world.workers[worker];
        let message = &mut world.posts[usize::from(at.post)];
        // A message that was delivered to another worker is that one's.
        if !at.stale && !message.gone {
            message.queued += 1;
        }
        world.workers[worker] = IDLE;
    }
}
