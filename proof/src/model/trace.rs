//! A way through the model, in words for people.

use std::fmt::Write as _;

use super::law::Law;
use super::record::{Rec, Stands};
use super::setup::Wish;
use super::steps::{Action, Came, Net};
use super::subject::Protocol;
use super::way::{self, Words};
use super::world::{Late, Phase, World};

/// One numbered sentence for each step, with the store's record of the operation after it.
pub(crate) fn tell(protocol: &Protocol, path: &[(World, Option<Action>)]) -> String {
    let words = Words {
        sentence: &sentence,
        change: &change,
        laws: Law::names,
    };
    way::tell(protocol.setup.name, path, &words)
}

/// Tells the records and the effects, where they changed.
fn change(world: &World, next: &World) -> String {
    let mut told = String::new();
    for at in 0..next.records.len() {
        if next.records[at] != world.records[at] {
            let _ = write!(told, " -> {}", standing(next.records[at]));
        }
        if next.lives[at].effects > world.lives[at].effects {
            let _ = write!(told, " [effect {}]", next.lives[at].effects);
        }
    }
    told
}

fn sentence(world: &World, action: Action) -> String {
    let person = |worker: u8| format!("worker {}", worker + 1);
    let fate = |net| match net {
        Net::Answered => "",
        Net::AnswerLost => ", and the answer is lost",
        Net::Delayed => ", and the request is on its way",
    };
    match action {
        Action::Tick => format!("time goes on to {}", world.now + 1),
        Action::Publish { post } => format!("message {} is published", post + 1),
        Action::Redeliver { worker } => {
            format!(
                "the broker hands the message of {} out again",
                person(worker)
            )
        }
        Action::Take { worker, post } => format!("{} takes message {}", person(worker), post + 1),
        Action::Go { worker, net } => {
            let what = match world.workers[usize::from(worker)].phase {
                Phase::Asking { asked: false } => "claims",
                Phase::Asking { asked: true } => "claims again with the same id",
                Phase::Starting => "marks its start",
                Phase::Granted => "commits effect and completion",
                Phase::Called { .. } => "completes",
                Phase::Failed { maybe: true } => "releases, maybe applied",
                Phase::Failed { maybe: false } => "releases, not applied",
                Phase::Refused { decisive: true } => "fails for good, for the earlier attempts too",
                Phase::Refused { decisive: false } => "fails for good",
                Phase::Probing { .. } => "looks what became of the effect",
                Phase::Finding { applied: true, .. } => "says that it found it applied",
                Phase::Finding { applied: false, .. } => "says that it found it not applied",
                Phase::Acknowledging { .. } => "acknowledges",
                Phase::HandingBack => "hands its delivery back",
                Phase::Idle => "idles",
            };
            format!("{} {what}{}", person(worker), fate(net))
        }
        Action::Call { worker, came } => {
            let came = match came {
                Came::Answered => "calls",
                Came::AnswerLost => "calls, and the answer is lost",
                Came::Delayed => "calls, and the call is on its way",
                Came::NotApplied => "calls, and it is surely not applied",
                Came::Refused => "calls, and it is refused for good",
                Came::TurnedAway => "calls, and it is turned away on the way",
            };
            format!("{} {came}", person(worker))
        }
        Action::Begin { worker } => format!(
            "{} says that it has begun, and the rest is lost",
            person(worker)
        ),
        Action::Renew { worker, net } => format!("{} renews{}", person(worker), fate(net)),
        Action::GiveBack { worker, net } => {
            format!("{} gives its claim back{}", person(worker), fate(net))
        }
        Action::HandBack { worker } => format!("{} hands its delivery back", person(worker)),
        Action::Crash { worker } => format!("{} crashes", person(worker)),
        Action::Land => {
            let what = match world.late {
                Some(Late::Claim { .. }) => "claim",
                Some(Late::Start { .. }) => "start",
                Some(Late::Commit { .. }) => "commit",
                Some(Late::Complete { .. }) => "completion",
                Some(Late::Release { .. }) => "release",
                Some(Late::Call { .. }) => "call",
                None => "nothing",
            };
            format!("the late {what} arrives")
        }
        Action::Sweep { operation } => format!("operation {} is swept", operation + 1),
        Action::Order { operation, wish } => {
            let wish = match wish {
                Wish::Applied => "found applied",
                Wish::NotApplied => "found not applied",
                Wish::Abandon => "abandoned",
                Wish::Release => "released by an operator",
                Wish::Requeue => "requeued",
                Wish::Retry => "retried",
                Wish::Hold => "held",
                Wish::Unhold => "held no longer",
                Wish::Forget => "forgotten by an operator",
            };
            format!("operation {} is {wish}", operation + 1)
        }
        Action::Forget => "the store forgets its newest write".to_owned(),
    }
}

pub(crate) fn standing(record: Option<Rec>) -> String {
    let Some(record) = record else {
        return "absent".to_owned();
    };
    let Rec { claim, token, .. } = record;
    match record.state {
        Stands::Claimed { until } => {
            format!("claimed until {until} (claim {claim}, token {token})")
        }
        Stands::Started { until, .. } => {
            format!("started until {until} (claim {claim}, token {token})")
        }
        Stands::Released { not_before } => format!("released until {not_before}"),
        Stands::Completed { at } => format!("completed at {at}"),
        Stands::Dead { at } => format!("dead at {at}"),
        Stands::InDoubt { since } => format!("in doubt since {since}"),
    }
}
