//! All pairs of faults: to one worker, to one after the other, to two at once. No page could print
//! them; each must keep the promise of its class.

use std::time::Duration;

use semel_core::StateKind;
use semel_simulation::on_cue::broker::OnAcknowledge;
use semel_simulation::on_cue::fault::Fault;
use semel_simulation::on_cue::stage::Kind;

use super::deal::{Deal, LONG, Moment};
use super::scene::{Played, Scene};

/// Every fault that a pair is made of.
pub(crate) fn deals() -> Vec<Deal> {
    let store = [
        Fault::Cut,
        Fault::CrashBefore,
        Fault::LoseAnswer,
        Fault::CrashAfter,
        Fault::Items,
        Fault::Full,
        Fault::DelayBefore(LONG),
        Fault::DelayAfter(LONG),
    ];
    let moments = [
        Moment::Before,
        Moment::Refused,
        Moment::InFlight(Duration::from_secs(5)),
        Moment::InFlight(Duration::from_secs(45)),
        Moment::Cut,
        Moment::Applied,
        Moment::Known,
        Moment::SlowBefore,
        Moment::SlowAfter,
        Moment::Long,
    ];
    let renewals = [
        Fault::Cut,
        Fault::CrashBefore,
        Fault::LoseAnswer,
        Fault::CrashAfter,
    ];
    let acknowledgements = [
        OnAcknowledge::Crash,
        OnAcknowledge::Lose,
        OnAcknowledge::LoseAnswer,
        OnAcknowledge::CrashAfter,
        OnAcknowledge::Delay(LONG),
    ];
    let outages = [Fault::Cut, Fault::Full];
    let mut deals = vec![Deal::Fetch];
    deals.extend(store.map(Deal::Claim));
    deals.extend(moments.map(Deal::Effect));
    deals.extend(renewals.map(Deal::Renewal));
    deals.extend(store.map(Deal::Settle));
    deals.extend(acknowledgements.map(Deal::Acknowledge));
    deals.extend(outages.map(Deal::ClaimOutage));
    deals.extend(outages.map(Deal::SettleOutage));
    deals
}

/// The way in which two faults come together.
type Way = fn(Deal, Deal) -> Scene;

const WAYS: [Way; 3] = [Scene::Twice, Scene::InTurn, Scene::AtOnce];

/// Every pair that can hit this kind of effect.
pub(crate) fn all(kind: Kind) -> impl Iterator<Item = Scene> {
    let deals = deals();
    let firsts = deals.clone().into_iter();
    firsts
        .flat_map(move |one| deals.clone().into_iter().map(move |other| (one, other)))
        .flat_map(|(one, other)| WAYS.map(|way| way(one, other)))
        .filter(move |scene| scene.can_be_played(kind).is_ok())
}

/// Returns whether a claim was granted that its worker does not know of, or no longer relies on,
/// before it dies: to others that is a worker that died with the grant in its hands.
pub(crate) fn leaves_a_grant(scene: Scene) -> bool {
    matches!(
        scene,
        Scene::Twice(
            Deal::Claim(Fault::LoseAnswer | Fault::DelayBefore(_)),
            Deal::Claim(Fault::CrashBefore),
        )
    )
}

/// The part of its class's promise that was broken; nothing if it was kept.
pub(crate) fn broken(kind: Kind, played: &Played) -> Option<String> {
    let outcome = &played.outcome;
    let completed = outcome.state == Some(StateKind::Completed);
    let in_doubt = outcome.state == Some(StateKind::InDoubt);
    let is_kept = match kind {
        Kind::Output | Kind::Transaction | Kind::Keyed | Kind::Gated => {
            completed && outcome.effects == 1 && outcome.listed.is_empty()
        }
        Kind::Repeat | Kind::Stream => {
            let is_told = outcome.effects == 1 || outcome.is("possible-repeat");
            completed && outcome.effects >= 1 && is_told && !outcome.is("in-doubt")
        }
        Kind::Park => {
            let is_told = completed || (in_doubt && outcome.is("in-doubt"));
            // A completed effect did happen.
            let happened = outcome.effects == 1 || (in_doubt && outcome.effects == 0);
            is_told && happened
        }
    };
    if is_kept && played.unacknowledged == 0 {
        return None;
    }
    let left = played.unacknowledged;
    Some(format!(
        "{}, {left} unacknowledged",
        outcome.words().join(" | ")
    ))
}
