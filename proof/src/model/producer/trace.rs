//! A way of producers, in words for people.

use std::fmt::Write as _;

use super::law::Law;
use super::steps::Action;
use super::subject::Sender;
use super::world::World;

/// One numbered sentence for each step, with what the gate has taken after it.
pub(crate) fn tell(model: &Sender, path: &[(World, Option<Action>)]) -> String {
    let mut told = model.setup.name.to_owned();
    let mut worlds = path.iter().map(|(world, _)| world).skip(1);
    for (step, (world, action)) in path.iter().enumerate() {
        let Some(action) = action else { continue };
        let _ = write!(told, "\n  {:>2}. {}", step + 1, sentence(world, *action));
        let Some(next) = worlds.next() else { continue };
        if next.taken != world.taken {
            let _ = write!(told, " -> taken: {:?}", next.taken);
        }
        for &law in Law::ALL {
            if next.broken & law.bit() != 0 {
                let _ = write!(told, " <- breaks {}", law.name());
            }
        }
    }
    told
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
