//! A way of relays, in words for people.

use super::law::Law;
use super::steps::{Action, Fate};
use super::subject::Relay;
use super::world::World;
use crate::model::way::{self, Words};

/// One numbered sentence for each step, with the topic after it.
pub(crate) fn tell(model: &Relay, path: &[(World, Option<Action>)]) -> String {
    let words = Words {
        sentence: &sentence,
        change: &change,
        laws: Law::names,
    };
    way::tell(model.setup.name, path, &words)
}

/// Tells the topic, where there is more in it.
fn change(world: &World, next: &World) -> String {
    if next.topic == world.topic {
        return String::new();
    }
    format!(" -> topic: {:?}", next.topic)
}

fn sentence(world: &World, action: Action) -> String {
    let person = |relay: u8| format!("relay {}", relay + 1);
    let hand = |relay: u8| format!("{:?}", world.relays[usize::from(relay)].stage);
    match action {
        Action::Commit { message } => format!("message {message} is committed"),
        Action::Lease { relay } => format!("{} takes the lease", person(relay)),
        Action::Read { relay } => format!("{} reads", person(relay)),
        Action::Begin { relay } => format!("{} goes on: {}", person(relay), hand(relay)),
        Action::Record { relay } => format!("{} records: {}", person(relay), hand(relay)),
        Action::Kill { relay } => format!("{} is killed", person(relay)),
        Action::Expire => "the lease ends".to_owned(),
        Action::Land { at, fate } => {
            let message = world.flights[usize::from(at)].map_or(0, |it| it.message);
            let fate = match fate {
                Fate::Taken => "is taken",
                Fate::Unanswered => "is taken, and nobody is told",
                Fate::Failed => "fails",
            };
            format!("message {message} {fate}")
        }
    }
}
