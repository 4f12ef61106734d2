//! A way through the output class, in words for people.

use std::fmt::Write as _;

use super::Output;
use super::law::Law;
use super::steps::{Action, Came, Net};
use super::world::{Phase, World};
use crate::model::numbers::NONE;
use crate::model::way::{self, Words};

/// One numbered sentence for each step, with the files and their marks where they changed.
pub(crate) fn tell(model: &Output, path: &[(World, Option<Action>)]) -> String {
    let words = Words {
        sentence: &sentence,
        change: &change,
        laws: Law::names,
    };
    way::tell(model.setup.name, path, &words)
}

/// Tells the records, the files and their marks, where they changed.
fn change(world: &World, next: &World) -> String {
    let mut told = String::new();
    for at in 0..next.records.len() {
        if next.records[at] != world.records[at] {
            let state = crate::model::trace::standing(next.records[at]);
            let _ = write!(told, " -> operation {} {state}", at + 1);
        }
    }
    for at in 0..next.files.len() {
        let (len, mark) = (next.files[at].len, next.marks[at]);
        if (len, mark) != (world.files[at].len, world.marks[at]) {
            let _ = write!(told, " [file {}: {len} lines, ", at + 1);
            let _ = match mark {
                NONE => write!(told, "no mark]"),
                mark => write!(told, "{mark} recorded]"),
            };
        }
    }
    told
}

fn sentence(world: &World, action: Action) -> String {
    let person = |worker: u8| format!("worker {}", worker + 1);
    let message = |worker: u8, place: u8| {
        let item = world.workers[usize::from(worker)].hand[usize::from(place)];
        item.map_or_else(String::new, |item| format!("message {}", item.post + 1))
    };
    match action {
        Action::Tick => format!("time goes on to {}", world.now + 1),
        Action::Redeliver { worker, place } => {
            let (message, person) = (message(worker, place), person(worker));
            format!("the broker hands {message} of {person} out again")
        }
        Action::Take { worker, post } => format!("{} takes message {}", person(worker), post + 1),
        Action::Append { worker, came } => {
            let came = match came {
                Came::Whole => "appends",
                Came::FailsWhole => "appends, and the sync fails",
                Came::FailsHalf => "appends half, and it fails",
                Came::CrashesHalf => "appends half, and crashes",
            };
            format!("{} {came}", person(worker))
        }
        Action::Go { worker, net } => {
            let what = match world.workers[usize::from(worker)].phase {
                Phase::Opening => "reads its mark and cuts its file back",
                Phase::Ready => "claims, or has what it took admitted",
                Phase::Undoing => "cuts its file back and gives its claims back",
                Phase::Recording { asked: false, .. } => "records its lines",
                Phase::Recording { asked: true, .. } => "records its lines again",
                Phase::Marking { .. } => "sets the mark",
                Phase::Committing => "has what was admitted committed",
                Phase::Writing => "idles",
            };
            let fate = match net {
                Net::Answered => "",
                Net::AnswerLost => ", and the answer is lost",
                Net::Refused => ", and that is refused",
            };
            format!("{} {what}{fate}", person(worker))
        }
        Action::Crash { worker } => format!("{} crashes", person(worker)),
        Action::CrashAsking { worker } => {
            format!(
                "{} crashes, and its lines are on the way to be recorded",
                person(worker)
            )
        }
        Action::Land => "what a dead worker asked for arrives".to_owned(),
        Action::LandCommit { worker } => {
            format!(
                "the commit that a dead {} asked for is carried out",
                person(worker)
            )
        }
        Action::Sweep { operation } => format!("operation {} is swept", operation + 1),
        Action::Reopen => "the store is opened anew, without its claims".to_owned(),
    }
}
