//! The engine's events, written into the log and counted.

use std::sync::Arc;

use semel_core::{Duplicate, StateKind};
use semel_engine::event::{Event, Observer};

use crate::seeded::life::Life;
use crate::seeded::payload::number_of;

/// The observer of one life.
pub(crate) struct Watch(pub(crate) Arc<Life>);

impl Observer for Watch {
    fn observe(&self, _pipeline: &str, event: &Event<'_>) {
        let Self(life) = self;
        let world = &life.world;
        match *event {
            Event::Granted { operation, grant } => {
                let number = number_of(&operation.key);
                let how = match (grant.takeover, grant.resumed, grant.possible_repeat) {
                    (true, _, true) => ", taken over, and may repeat",
                    (true, _, false) => ", taken over",
                    (false, true, _) => ", again",
                    (false, false, true) => ", which may repeat",
                    (false, false, false) => "",
                };
                world.log(format_args!(
                    "{life} has k{number}, attempt {}{how}",
                    grant.attempt
                ));
                if grant.takeover {
                    world.tally().takeovers += 1;
                    world.saw("takeover");
                }
                if grant.resumed {
                    world.saw("claim found again");
                }
                if grant.possible_repeat {
                    world.saw("possible repeat");
                }
            }
            Event::Completed { operation, .. } => {
                let number = number_of(&operation.key);
                life.heard_of(number);
                world.log(format_args!("{life} completed k{number}"));
                if world.tally().doubted.contains(&number) {
                    world.saw("doubt resolved");
                }
            }
            Event::Replayed {
                operation,
                duplicate,
            } => {
                world.log(format_args!(
                    "{life} finds k{} done: {duplicate:?}",
                    number_of(&operation.key)
                ));
                match duplicate {
                    Duplicate::Redelivery => world.saw("replay of a redelivery"),
                    Duplicate::Republish => world.saw("replay of a republish"),
                    Duplicate::Own | Duplicate::Unknown => {}
                }
            }
            Event::Busy { .. } => world.saw("busy"),
            Event::Released {
                operation, error, ..
            } => {
                let number = number_of(&operation.key);
                life.heard_of(number);
                world.log(format_args!("{life} released k{number}: {error}"));
                world.saw("retry");
            }
            Event::Dead {
                operation, error, ..
            } => {
                world.log(format_args!(
                    "{life} gave up k{}: {error}",
                    number_of(&operation.key)
                ));
                world.saw("dead");
            }
            Event::InDoubt { operation, .. } => self.doubted(number_of(&operation.key)),
            Event::Parked {
                operation, state, ..
            } => {
                let number = number_of(&operation.key);
                if state == StateKind::InDoubt {
                    self.doubted(number);
                } else {
                    world.log(format_args!("{life} finds k{number} {state:?}"));
                }
            }
            Event::Fenced {
                operation, found, ..
            } => {
                let number = number_of(&operation.key);
                life.heard_of(number);
                world.log(format_args!(
                    "{life} is fenced off k{number}, which is {found:?}"
                ));
                world.tally().fenced += 1;
                world.saw("fenced report");
            }
            _ => self.refused(event),
        }
    }
}

impl Watch {
    /// Handles events that grant nothing, and those about no operation.
    fn refused(&self, event: &Event<'_>) {
        let Self(life) = self;
        let world = &life.world;
        match *event {
            Event::Conflicted { operation, .. } => {
                world.log(format_args!(
                    "{life} finds another request under k{}",
                    number_of(&operation.key)
                ));
                world.saw("conflict");
            }
            Event::Stale { operation, applied } => {
                world.log(format_args!(
                    "{life} finds k{} stale: there is {applied}",
                    number_of(&operation.key)
                ));
                world.saw("stale");
            }
            Event::LiveOnly { operation, .. } => {
                world.log(format_args!(
                    "{life} keeps k{} from an effect for live messages",
                    number_of(&operation.key)
                ));
            }
            Event::TooOld { operation, .. } => {
                world.log(format_args!(
                    "{life} finds k{} too old",
                    number_of(&operation.key)
                ));
                world.saw("too old");
            }
            Event::StoreFailed { error, wait } => {
                world.log(format_args!(
                    "{life} asks the store again in {wait:?}: {error}"
                ));
            }
            Event::BreakerOpened { .. } => world.saw("store away"),
            Event::BreakerClosed { .. } => world.saw("store back"),
            _ => {}
        }
    }

    fn doubted(&self, number: usize) {
        let Self(life) = self;
        life.world
            .log(format_args!("{life} finds k{number} in doubt"));
        life.world.tally().doubted.insert(number);
        life.world.saw("in doubt");
    }
}
