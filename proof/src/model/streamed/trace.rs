//! A way through class E, in words for people.

use super::Streamed;
use super::law::Law;
use super::steps::{Action, Came, Net};
use super::world::{Restore, Stage, Work, World};
use crate::model::way::{self, Words};

/// One numbered sentence for each step, with the position of the input after it.
pub(crate) fn tell(model: &Streamed, path: &[(World, Option<Action>)]) -> String {
    let words = Words {
        sentence: &sentence,
        change: &change,
        laws: Law::names,
    };
    way::tell(model.setup.name, path, &words)
}

/// Tells how far the input is read, where that changed.
fn change(world: &World, next: &World) -> String {
    if next.group.committed == world.group.committed {
        return String::new();
    }
    format!(" -> read up to {}", next.group.committed)
}

fn sentence(world: &World, action: Action) -> String {
    let person = |member: u8| format!("member {}", member + 1);
    let number = |at: u8| format!("transaction {}", at + 1);
    match action {
        Action::Tick => format!("time goes on to {}", world.now + 1),
        Action::Take { member, came } => {
            let came = match came {
                Came::Done => "",
                Came::Fails => ", and the first one fails",
                Came::Refused => ", and the first one fails for good",
            };
            format!("{} takes a batch{came}", person(member))
        }
        Action::Go { member, net } => {
            let work = world.members[usize::from(member)].work;
            let what = match work.map(|work| work.stage) {
                Some(Stage::Ready) => "begins".to_owned(),
                Some(Stage::Wrote { at }) => format!("reads its generation for {}", number(at)),
                Some(Stage::Knows { at, .. }) => {
                    format!("looks at its assignment for {}", number(at))
                }
                Some(Stage::Looked { at, behind, .. }) => {
                    format!("offers {behind} in {}", number(at))
                }
                Some(Stage::Offered { at }) => format!("asks for the commit of {}", number(at)),
                None => "idles".to_owned(),
            };
            let fate = match net {
                Net::Answered => "",
                Net::AnswerLost => ", and the answer is lost",
                Net::Delayed => ", and the request is on its way",
            };
            format!("{} {what}{fate}", person(member))
        }
        Action::Ahead { member } => {
            let ahead = world.members[usize::from(member)].ahead;
            let what = match ahead.and_then(Work::transaction) {
                Some(at) => format!("takes back {}", number(at)),
                None => "begins behind that".to_owned(),
            };
            format!("{} {what}", person(member))
        }
        Action::Again { member } => format!("{} is asked again", person(member)),
        Action::Restore { member } => {
            let own = world.members[usize::from(member)].assignment;
            let what = match own.map(|own| own.restore) {
                Some(Restore::Position) => "is told where to read on",
                Some(Restore::Offsets) => "is told the committed offsets",
                Some(Restore::End) => "looks up the end of the changelog",
                Some(Restore::Until { .. }) => "has read the changelog",
                Some(Restore::Done) | None => "idles",
            };
            format!("{} {what}", person(member))
        }
        Action::Ack { member } => format!("{} commits its offsets alone", person(member)),
        Action::Rebalance { to } => format!("the partition goes to {}", person(to)),
        Action::ThrownOut { member } => format!("{} hears that it is out", person(member)),
        Action::Rejoin { member } => format!("{} is in the group again", person(member)),
        Action::Crash { member } => format!("{} crashes", person(member)),
        Action::TimeOut { at } => format!("the time of {} is over", number(at)),
        Action::Mark {
            at,
            changelog: true,
        } => format!("the changelog hears of {}", number(at)),
        Action::Mark {
            at,
            changelog: false,
        } => format!("the offsets of {} count", number(at)),
        Action::Land => "the late commit arrives".to_owned(),
    }
}
