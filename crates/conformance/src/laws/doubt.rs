//! Doubt: effects that were started and whose result nobody knows.

use std::time::Duration;

use semel_core::{Claim, ClaimRequest, Recovery, State, StateKind};

use crate::lab::Lab;
use crate::steps::{
    complete, fail, fail_decisively, give_back, outcome, release, release_unsure, start,
};

/// Started, park, lease over → in doubt, and no further attempt.
pub async fn a_vanished_park_is_in_doubt(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    lab.parked(&lab.marked("pay-1", 2, Recovery::Park), StateKind::InDoubt)
        .await;
    let record = lab.stands(&claim.operation, StateKind::InDoubt).await;
    assert_eq!(
        record.claim_id, claim.claim_id,
        "the doubt is about the first claim"
    );
    assert_eq!((record.attempts, record.vanished), (1, 1));
}

/// A start by step counts as much as a marked claim.
pub async fn a_park_that_started_later_is_in_doubt(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, start(Recovery::Park), StateKind::Started)
        .await;
    lab.outlast_lease().await;
    lab.parked(&lab.request("pay-1", 2), StateKind::InDoubt)
        .await;
}

/// The recovery is the one that the effect was started with, whatever recovery the next claimant
/// has.
pub async fn the_stored_recovery_decides(lab: Lab) {
    let _ = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    lab.parked(&lab.marked("pay-1", 2, Recovery::Rerun), StateKind::InDoubt)
        .await;
}

/// Starting again sets what a takeover does from then on.
pub async fn a_second_start_changes_the_recovery(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.settles(&claim, start(Recovery::Rerun), StateKind::Started)
        .await;
    let record = lab.record(&claim.operation).await;
    assert_eq!(
        record.first_started_at, claim.first_started_at,
        "the first start stands"
    );
    lab.outlast_lease().await;
    assert!(
        lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun))
            .await
            .possible_repeat
    );
}

/// Time does not resolve a doubt, and neither do duplicates.
pub async fn a_doubt_stays_a_doubt(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    for claimant in [1, 2, 3] {
        lab.outlast_lease().await;
        lab.parked(
            &lab.marked("pay-1", claimant, Recovery::Rerun),
            StateKind::InDoubt,
        )
        .await;
        lab.parked(&lab.request("pay-1", claimant), StateKind::InDoubt)
            .await;
    }
    assert_eq!(lab.record(&claim.operation).await.attempts, 1);
}

/// Started, park, no answer → in doubt at once.
pub async fn an_unsure_release_of_a_park_is_in_doubt(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    let record = lab.stands(&claim.operation, StateKind::InDoubt).await;
    assert_eq!(record.doubt, Some(Recovery::Park));
    assert!(record.last_error.is_some());
    lab.parked(&lab.request("pay-1", 2), StateKind::InDoubt)
        .await;
}

/// Started, park, surely not applied → released.
pub async fn a_sure_release_of_a_park_is_attempted_again(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.settles(&claim, release(), StateKind::Released).await;
    let again = lab.grant(&lab.marked("pay-1", 2, Recovery::Park)).await;
    assert!(!again.possible_repeat);
}

/// Nothing was started, so nothing can have happened.
pub async fn an_unsure_release_before_the_start_is_no_doubt(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, release_unsure(), StateKind::Released)
        .await;
    assert!(!lab.grant(&lab.request("pay-1", 2)).await.possible_repeat);
}

/// Work given back after a start that surely came to nothing leaves no doubt.
pub async fn work_given_back_after_a_start_is_no_doubt(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.settles(&claim, give_back(), StateKind::Released).await;
    let again = lab.grant(&lab.marked("pay-1", 2, Recovery::Park)).await;
    assert_eq!((again.attempt, again.possible_repeat), (1, false));
}

/// A claim that never started and vanished leaves no doubt.
pub async fn a_vanished_claim_before_the_start_is_no_doubt(lab: Lab) {
    let _ = lab.grant(&lab.request("pay-1", 1)).await;
    lab.outlast_lease().await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(second.takeover && !second.possible_repeat);
    assert_eq!(lab.record(&second.operation).await.possible_repeats, 0);
}

/// A surely failed effect of a park is dead, not in doubt.
pub async fn a_failed_park_is_dead(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.settles(&claim, fail(), StateKind::Dead).await;
}

/// The paused worker comes back with its result.
pub async fn a_late_completion_resolves_the_doubt(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    lab.parked(&lab.marked("pay-1", 2, Recovery::Park), StateKind::InDoubt)
        .await;
    lab.settles(&claim, complete("late"), StateKind::Completed)
        .await;
    lab.replays(&lab.request("pay-1", 3), &outcome("late"))
        .await;
    assert_eq!(lab.record(&claim.operation).await.doubt, None);
}

/// The same after the sweep found the doubt, and after an unsure release.
pub async fn a_late_completion_resolves_every_kind_of_doubt(lab: Lab) {
    let swept = lab.grant(&lab.marked("swept", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    assert_eq!(lab.sweep().await.doubted, 1);
    lab.settles(&swept, complete("late"), StateKind::Completed)
        .await;
    let unsure = lab.doubt("unsure").await;
    lab.settles(&unsure, complete("late"), StateKind::Completed)
        .await;
}

/// The paused worker comes back with an answer that speaks for every attempt: it did not happen, and will not.
pub async fn a_late_decisive_failure_resolves_the_doubt(lab: Lab) {
    let vanished = lab.grant(&lab.marked("vanished", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    let other = lab.marked("vanished", 2, Recovery::Park);
    lab.parked(&other, StateKind::InDoubt).await;
    let before = lab.record(&vanished.operation).await;
    // A failure that speaks for its own attempt alone leaves it in doubt.
    lab.settles(&vanished, fail(), StateKind::InDoubt).await;
    assert_eq!(lab.record(&vanished.operation).await, before);
    lab.fenced(&vanished.operation, other.claim_id, fail_decisively())
        .await;
    lab.settles(&vanished, fail_decisively(), StateKind::Dead)
        .await;
    let record = lab.stands(&vanished.operation, StateKind::Dead).await;
    assert_eq!((record.doubt, record.past), (None, before.past));
    lab.parked(&other, StateKind::Dead).await;
    // The same report again changes nothing, and what happened after all comes too late.
    lab.settles(&vanished, fail_decisively(), StateKind::Dead)
        .await;
    lab.fenced(&vanished.operation, vanished.claim_id, complete("later"))
        .await;
    let unsure = lab.doubt("unsure").await;
    lab.settles(&unsure, fail_decisively(), StateKind::Dead)
        .await;
}

/// Only the claim in doubt resolves it.
pub async fn a_completion_of_another_claim_does_not_resolve_the_doubt(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    lab.fenced(
        &claim.operation,
        semel_core::ClaimId::from_u128(2),
        complete("other"),
    )
    .await;
}

/// Of several claims, the doubt belongs to the last.
pub async fn a_doubt_belongs_to_the_last_claim(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.outlast_lease().await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Park)).await;
    lab.outlast_lease().await;
    lab.parked(&lab.marked("pay-1", 3, Recovery::Park), StateKind::InDoubt)
        .await;
    lab.fenced(&first.operation, first.claim_id, complete("of the first"))
        .await;
    lab.settles(&second, complete("of the second"), StateKind::Completed)
        .await;
}

/// Reporting the same doubt again, as a release or a failure, changes nothing.
pub async fn a_doubt_reported_twice_is_harmless(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    let before = lab.record(&claim.operation).await;
    lab.settles(&claim, release_unsure(), StateKind::InDoubt)
        .await;
    lab.settles(&claim, release(), StateKind::InDoubt).await;
    lab.settles(&claim, fail(), StateKind::InDoubt).await;
    assert_eq!(lab.record(&claim.operation).await, before);
}

/// Started, repeat, lease over → granted, marked as a possible repeat.
pub async fn a_vanished_rerun_is_a_possible_repeat(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    assert!(!first.possible_repeat);
    lab.outlast_lease().await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    assert!(second.takeover && second.possible_repeat);
    assert_eq!(lab.record(&second.operation).await.possible_repeats, 1);
}

/// Each attempt after the first unsure one is counted.
pub async fn possible_repeats_are_counted(lab: Lab) {
    let mut operation = None;
    for claimant in 1..=4 {
        let claim = lab
            .grant(&lab.marked("pay-1", claimant, Recovery::Rerun))
            .await;
        assert_eq!(claim.possible_repeat, claimant > 1);
        lab.settles(&claim, release_unsure(), StateKind::Released)
            .await;
        operation = Some(claim.operation);
    }
    let Some(operation) = operation else { return };
    assert_eq!(lab.record(&operation).await.possible_repeats, 3);
    lab.finish(&lab.marked("pay-1", 9, Recovery::Rerun), complete("done"))
        .await;
    assert_eq!(
        lab.record(&operation).await.possible_repeats,
        4,
        "the count outlives success"
    );
}

/// A doubt of an earlier attempt is not washed away by a sure failure of a later one.
pub async fn a_possible_repeat_is_remembered_over_a_sure_failure(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    lab.settles(&second, release(), StateKind::Released).await;
    assert!(
        lab.grant(&lab.marked("pay-1", 3, Recovery::Rerun))
            .await
            .possible_repeat
    );
}

/// An effect that surely did not happen is not repeated.
pub async fn a_sure_release_of_a_rerun_is_no_possible_repeat(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    assert!(!second.possible_repeat);
    assert_eq!(lab.record(&second.operation).await.possible_repeats, 0);
}

/// A resumed claim is not counted again.
pub async fn a_resumed_repeat_is_counted_once(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    let request = lab.marked("pay-1", 2, Recovery::Rerun);
    let _ = lab.grant(&request).await;
    let again = lab.grant(&request).await;
    assert!(again.resumed && again.possible_repeat);
    assert_eq!(lab.record(&again.operation).await.possible_repeats, 1);
}

/// Inside the provider's window the provider recognises the key: run again, no repeat.
pub async fn a_vanished_keyed_effect_is_rerun_inside_the_window(lab: Lab) {
    let first = lab.grant(&keyed(&lab, 1, LONG)).await;
    lab.outlast_lease().await;
    let second = lab.grant(&keyed(&lab, 2, LONG)).await;
    assert!(second.takeover && !second.possible_repeat);
    assert_eq!(
        second.first_started_at, first.first_started_at,
        "the first start stands"
    );
}

/// Past the provider's window the provider no longer recognises the key: in doubt.
pub async fn a_vanished_keyed_effect_is_in_doubt_past_the_window(lab: Lab) {
    let claim = lab.grant(&keyed(&lab, 1, lab.lease())).await;
    lab.outlast_lease().await;
    lab.parked(&keyed(&lab, 2, lab.lease()), StateKind::InDoubt)
        .await;
    lab.stands(&claim.operation, StateKind::InDoubt).await;
}

/// The provider's window begins with the first start, over however many takeovers.
pub async fn the_provider_window_begins_with_the_first_start(lab: Lab) {
    let window = lab.lease() * 5;
    let first = lab.grant(&keyed(&lab, 1, window)).await;
    for claimant in 2..=3 {
        lab.outlast_lease().await;
        let claim = lab.grant(&keyed(&lab, claimant, window)).await;
        assert_eq!(claim.first_started_at, first.first_started_at);
    }
    lab.advance(lab.lease() * 3).await;
    lab.parked(&keyed(&lab, 4, window), StateKind::InDoubt)
        .await;
}

/// A sure failure in between does not begin the window anew.
pub async fn a_sure_release_does_not_renew_the_provider_window(lab: Lab) {
    let window = lab.lease() * 3;
    let first = lab.grant(&keyed(&lab, 1, window)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    lab.advance(window + lab.lease()).await;
    let second = lab.grant(&keyed(&lab, 2, window)).await;
    assert_eq!(second.first_started_at, first.first_started_at);
    lab.settles(&second, release_unsure(), StateKind::InDoubt)
        .await;
}

/// No answer, inside the provider's window → released, to be run again.
pub async fn an_unsure_keyed_release_is_attempted_again(lab: Lab) {
    let first = lab.grant(&keyed(&lab, 1, LONG)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    let second = lab.grant(&keyed(&lab, 2, LONG)).await;
    assert!(!second.takeover && !second.possible_repeat);
    assert_eq!(lab.record(&second.operation).await.possible_repeats, 0);
}

/// No answer, and the next attempt comes past the provider's window → in doubt at the claim.
pub async fn an_unsure_keyed_release_is_in_doubt_past_the_window(lab: Lab) {
    let window = lab.lease() * 3;
    let first = lab.grant(&keyed(&lab, 1, window)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    lab.advance(window + lab.lease()).await;
    lab.parked(&keyed(&lab, 2, window), StateKind::InDoubt)
        .await;
}

/// A provider that says no from behind its look-up of the key speaks for the earlier attempts, too.
pub async fn a_decisive_failure_after_a_doubt_is_dead(lab: Lab) {
    let within = Recovery::RerunWithin(LONG);
    for (key, recovery) in [("keyed", within), ("repeated", Recovery::Rerun)] {
        let second = doubted(&lab, key, recovery).await;
        lab.settles(&second, fail_decisively(), StateKind::Dead)
            .await;
        assert_eq!(lab.record(&second.operation).await.doubt, None);
    }
}

/// Any other refusal, an expired token for example, does not say what became of an earlier attempt.
pub async fn a_failure_after_a_doubt_is_in_doubt(lab: Lab) {
    let within = Recovery::RerunWithin(LONG);
    for (key, recovery) in [("keyed", within), ("repeated", Recovery::Rerun)] {
        let second = doubted(&lab, key, recovery).await;
        lab.settles(&second, fail(), StateKind::InDoubt).await;
        let record = lab.record(&second.operation).await;
        assert_eq!(record.doubt, Some(recovery));
        lab.settles(&second, fail(), StateKind::InDoubt).await;
    }
}

/// Nor does the refusal that a takeover meets say what became of the attempt that vanished.
pub async fn a_failure_after_a_takeover_is_in_doubt(lab: Lab) {
    let _vanished = lab.grant(&keyed(&lab, 1, LONG)).await;
    lab.outlast_lease().await;
    let second = lab.grant(&keyed(&lab, 2, LONG)).await;
    assert!(second.takeover);
    lab.settles(&second, fail(), StateKind::InDoubt).await;
    lab.settles(&second, complete("late"), StateKind::Completed)
        .await;
}

/// The second claim of `key`, after a first one that may have applied the effect.
async fn doubted(lab: &Lab, key: &str, recovery: Recovery) -> Claim {
    let first = lab.grant(&lab.marked(key, 1, recovery)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    lab.grant(&lab.marked(key, 2, recovery)).await
}

/// A doubt has the time at which it began.
pub async fn a_doubt_says_since_when(lab: Lab) {
    let before = lab.now().await;
    lab.outlast_lease().await;
    let claim = lab.doubt("pay-1").await;
    let record = lab.record(&claim.operation).await;
    let State::InDoubt { since } = record.state else {
        panic!("not in doubt: {record:?}")
    };
    assert!(since > before);
}

fn keyed(lab: &Lab, claimant: u128, window: Duration) -> ClaimRequest {
    lab.marked("pay-1", claimant, Recovery::RerunWithin(window))
}

const LONG: Duration = Duration::from_secs(86_400);
