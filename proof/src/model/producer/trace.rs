//! A way of producers, in words for people.

use super::law::Law;
use super::steps::Action;
use super::subject::Sender;
use super::world::World;
use crate::model::way::{self, Words};

/// One numbered sentence for each step, with what the gate has taken after it.
pub(crate) fn tell(model: &Sender, path: &[(World, Option<Action>)]) -> String {
    let words = Words {
        sentence: &sentence,
        change: &change,
        laws: Law::names,
    };
    way::tell(model.setup.name, path, &words)
}

/// Tells the messages that the gate has taken, where there are more.
fn change(world: &World, next: &World) -> String {
    if next.taken == world.taken {
        return String::new();
    }
    format!(" -> taken: {:?}", next.taken)
}

fn sentence(world: &World, action: Action) -> String {
    let person = |process: u8| format!("process {}", process + 1);
    let request = |at: u8| match world.requests[usize::from(at)] {
        Some(it) => format!("{} from {} of epoch {}", it.count, it.first, it.epoch),
        None => "nothing".to_owned(),
    };
    match action {
        Action::Open { process } => {
            let epoch = world.journal.epoch + 1;
            format!("{} opens the producer: epoch {epoch}", person(process))
        }
        Action::Append { process } => format!("{} appends {}", person(process), world.journal.next),
        Action::Send {
            process,
            first,
            count,
        } => format!("{} sends {count} from {first}", person(process)),
        Action::Arrive {
            at,
            is_answered,
            stays,
        } => {
            let lost = if is_answered {
                ""
            } else {
                ", and the answer is lost"
            };
            let stays = if stays { ", and comes again later" } else { "" };
            format!("{} arrive{lost}{stays}", request(at))
        }
        Action::Lose { at } => format!("{} are lost", request(at)),
        Action::Confirm { process } => format!("{} confirms", person(process)),
        Action::Kill { process } => format!("{} is killed", person(process)),
    }
}
