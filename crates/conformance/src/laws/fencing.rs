//! Fencing: a claim that is not the latest changes nothing, whatever it reports.

use std::sync::Arc;

use semel_core::decide::Order;
use semel_core::{Admission, Claim, ClaimId, Recovery, Settled, StateKind, Step};

use crate::lab::Lab;
use crate::steps::{complete, fail, give_back, outcome, release, release_unsure, start};

/// The taken-over claim is about to send its effect.
pub async fn a_superseded_start_is_fenced(lab: Lab) {
    let (old, _) = superseded(&lab).await;
    lab.fenced(&old.operation, old.claim_id, start(Recovery::Park))
        .await;
}

/// The taken-over claim wakes up and has a result.
pub async fn a_superseded_completion_is_fenced(lab: Lab) {
    let (old, new) = superseded(&lab).await;
    lab.fenced(&old.operation, old.claim_id, complete("of the paused one"))
        .await;
    lab.settles(&new, complete("of the taker"), StateKind::Completed)
        .await;
    lab.fenced(&old.operation, old.claim_id, complete("of the paused one"))
        .await;
    lab.replays(&lab.request("pay-1", 3), &outcome("of the taker"))
        .await;
}

/// The taken-over claim gives up.
pub async fn a_superseded_release_is_fenced(lab: Lab) {
    let (old, _) = superseded(&lab).await;
    for step in [release(), release_unsure(), give_back()] {
        lab.fenced(&old.operation, old.claim_id, step).await;
    }
}

/// The taken-over claim failed for good.
pub async fn a_superseded_failure_is_fenced(lab: Lab) {
    let (old, new) = superseded(&lab).await;
    lab.fenced(&old.operation, old.claim_id, fail()).await;
    lab.settles(&new, complete("done"), StateKind::Completed)
        .await;
}

/// A started effect whose claim was taken over is fenced as well.
pub async fn a_superseded_started_claim_is_fenced(lab: Lab) {
    let old = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.outlast_lease().await;
    let new = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    for step in every_step() {
        lab.fenced(&old.operation, old.claim_id, step).await;
    }
    lab.settles(&new, complete("done"), StateKind::Completed)
        .await;
}

/// No claim ever existed for this key.
pub async fn every_step_on_an_absent_key_is_fenced(lab: Lab) {
    let operation = lab.request("pay-1", 1).operation;
    for step in every_step() {
        lab.fenced(&operation, ClaimId::from_u128(1), step).await;
    }
    assert_eq!(
        lab.get(&operation).await,
        None,
        "a fenced settlement leaves no record"
    );
}

/// Another claimant holds the claim, in any state.
pub async fn every_step_of_a_stranger_is_fenced(lab: Lab) {
    let stranger = ClaimId::from_u128(77);
    let claimed = lab.grant(&lab.request("claimed", 1)).await;
    let started = lab.grant(&lab.marked("started", 1, Recovery::Park)).await;
    let released = lab.grant(&lab.request("released", 1)).await;
    lab.settles(&released, release(), StateKind::Released).await;
    let completed = lab.grant(&lab.request("completed", 1)).await;
    lab.settles(&completed, complete("done"), StateKind::Completed)
        .await;
    let dead = lab.death("dead").await;
    let in_doubt = lab.doubt("in doubt").await;
    for claim in [claimed, started, released, completed, dead, in_doubt] {
        for step in every_step() {
            lab.fenced(&claim.operation, stranger, step).await;
        }
    }
}

/// A claim id counts for its own key only.
pub async fn a_claim_id_counts_for_its_own_key_only(lab: Lab) {
    let one = lab.grant(&lab.request("pay-1", 1)).await;
    let two = lab.grant(&lab.request("pay-2", 2)).await;
    lab.fenced(&two.operation, one.claim_id, complete("done"))
        .await;
    lab.fenced(&one.operation, two.claim_id, complete("done"))
        .await;
}

/// A released operation belongs to no claim, not even to its former one.
pub async fn a_released_claim_cannot_complete(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, release(), StateKind::Released).await;
    for step in [start(Recovery::Park), complete("late"), fail()] {
        lab.fenced(&claim.operation, claim.claim_id, step).await;
    }
}

/// A completion cannot be taken back by its own claim.
pub async fn a_completed_claim_cannot_release_or_fail(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    for step in [
        start(Recovery::Park),
        release(),
        release_unsure(),
        give_back(),
        fail(),
    ] {
        lab.fenced(&claim.operation, claim.claim_id, step).await;
    }
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
}

/// A dead operation stays dead, whatever its last claim says later.
pub async fn a_dead_claim_cannot_start_or_complete(lab: Lab) {
    let claim = lab.death("pay-1").await;
    lab.fenced(&claim.operation, claim.claim_id, start(Recovery::Park))
        .await;
    lab.fenced(&claim.operation, claim.claim_id, complete("late"))
        .await;
}

/// An operator let it run again: the former claim is over.
pub async fn a_requeued_claim_cannot_complete(lab: Lab) {
    let claim = lab.death("pay-1").await;
    lab.ordered(&claim.operation, Order::Requeue, Some(StateKind::Released))
        .await;
    lab.fenced(&claim.operation, claim.claim_id, complete("late"))
        .await;
}

/// The owner completes while others take over: one of them wins, and the record shows which.
pub async fn a_completion_racing_a_takeover_has_one_winner(lab: Lab) {
    let lab = Arc::new(lab);
    for round in 0..20 {
        let key = format!("pay-{round}");
        let owner = lab.grant(&lab.request(&key, 1)).await;
        lab.outlast_lease().await;
        let completes = Arc::clone(&lab);
        let completion =
            tokio::spawn(async move { completes.settle(&owner, complete("of the owner")).await });
        let taken = lab.claim(&lab.request(&key, 2)).await;
        let Ok(completion) = completion.await else {
            panic!("the completion panicked")
        };
        match (completion, taken) {
            (Settled::Now(StateKind::Completed), Admission::Replay { outcome: found, .. }) => {
                assert_eq!(found, Some(outcome("of the owner")));
            }
            (Settled::Fenced { .. }, Admission::Granted(claim)) => assert!(claim.takeover),
            both => panic!("both won or both lost: {both:?}"),
        }
    }
}

/// A claim that was taken over, and the one that took over.
async fn superseded(lab: &Lab) -> (Claim, Claim) {
    let old = lab.grant(&lab.request("pay-1", 1)).await;
    lab.outlast_lease().await;
    let new = lab.grant(&lab.request("pay-1", 2)).await;
    (old, new)
}

fn every_step() -> Vec<Step> {
    vec![
        start(Recovery::Park),
        complete("late"),
        release(),
        release_unsure(),
        give_back(),
        fail(),
    ]
}
