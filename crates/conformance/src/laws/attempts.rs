//! Attempts: counted by the store, capped, and counted only if they ran.

use std::time::Duration;

use semel_core::{Claim, ClaimRequest, Recovery, StateKind};

use crate::lab::Lab;
use crate::steps::{
    capped, complete, fail, give_back, limits_of, release, release_after, release_unsure,
};

/// Five calls are five attempts; the fifth failure is the end.
pub async fn the_last_failed_attempt_is_dead(lab: Lab) {
    for attempt in 1..=5 {
        let claim = lab.grant(&lab.request("pay-1", attempt)).await;
        assert_eq!(u128::from(claim.attempt), attempt);
        let state = if attempt < 5 {
            StateKind::Released
        } else {
            StateKind::Dead
        };
        lab.settles(&claim, release(), state).await;
    }
    lab.parked(&lab.request("pay-1", 6), StateKind::Dead).await;
}

/// A cap of one means no second try.
pub async fn a_cap_of_one_is_dead_after_one_failure(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, capped(release(), 1), StateKind::Dead)
        .await;
    let record = lab.record(&claim.operation).await;
    assert_eq!(record.last_error.as_deref(), Some("503 from the provider"));
}

/// A claimant whose cap is lower than the releaser's finds the operation spent.
pub async fn a_lower_cap_is_seen_by_the_next_claim(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let strict = ClaimRequest {
        limits: limits_of(1, 20),
        ..lab.request("pay-1", 2)
    };
    lab.parked(&strict, StateKind::Dead).await;
    lab.stands(&first.operation, StateKind::Dead).await;
}

/// A worker that dies of its message each time ends as dead.
pub async fn vanished_claims_are_capped(lab: Lab) {
    let (first, last) = vanish(&lab, |lab, claimant| lab.request("pay-1", claimant)).await;
    assert_eq!((first.attempt, last), (1, StateKind::Dead));
}

/// A rerun that dies each time may have been applied: in doubt, not dead.
pub async fn vanished_reruns_end_in_doubt(lab: Lab) {
    let marked = |lab: &Lab, claimant| lab.marked("pay-1", claimant, Recovery::Rerun);
    let (_, last) = vanish(&lab, marked).await;
    assert_eq!(last, StateKind::InDoubt);
}

/// A keyed effect that dies each time may have been applied: in doubt, not dead.
pub async fn vanished_keyed_effects_end_in_doubt(lab: Lab) {
    let within = Recovery::RerunWithin(Duration::from_secs(86_400));
    let (_, last) = vanish(&lab, |lab, claimant| lab.marked("pay-1", claimant, within)).await;
    assert_eq!(last, StateKind::InDoubt);
}

/// The last failure is unsure: in doubt, not dead.
pub async fn an_unsure_last_attempt_ends_in_doubt(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.settles(&claim, capped(release_unsure(), 1), StateKind::InDoubt)
        .await;
    let within = Recovery::RerunWithin(Duration::from_secs(86_400));
    let claim = lab.grant(&lab.marked("pay-2", 1, within)).await;
    lab.settles(&claim, capped(release_unsure(), 1), StateKind::InDoubt)
        .await;
}

/// The last failure is sure, and so was every one before: dead.
pub async fn a_sure_last_attempt_of_a_started_effect_is_dead(lab: Lab) {
    for recovery in [Recovery::Rerun, Recovery::Park] {
        let key = format!("{recovery:?}");
        let claim = lab.grant(&lab.marked(&key, 1, recovery)).await;
        lab.settles(&claim, capped(release(), 1), StateKind::Dead)
            .await;
    }
}

/// The last failure is sure, an earlier one was not: in doubt.
pub async fn a_sure_last_attempt_after_an_unsure_one_ends_in_doubt(lab: Lab) {
    let first = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    lab.settles(&first, release_unsure(), StateKind::Released)
        .await;
    let second = lab.grant(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    lab.settles(&second, capped(release(), 2), StateKind::InDoubt)
        .await;
}

/// Vanished attempts do not use up the failed ones.
pub async fn vanished_attempts_are_no_failed_ones(lab: Lab) {
    for claimant in 1..=3 {
        let claim = lab.grant(&lab.request("pay-1", claimant)).await;
        assert_eq!(claim.takeover, claimant > 1);
        lab.outlast_lease().await;
    }
    let claim = lab.grant(&lab.request("pay-1", 4)).await;
    lab.settles(&claim, capped(release(), 2), StateKind::Released)
        .await;
    let record = lab.record(&claim.operation).await;
    assert_eq!((record.attempts, record.vanished), (4, 3));
    let claim = lab.grant(&lab.request("pay-1", 5)).await;
    lab.settles(&claim, capped(release(), 2), StateKind::Dead)
        .await;
}

/// A dead operation is parked for every duplicate, and reporting it again is harmless.
pub async fn a_dead_operation_stays_dead(lab: Lab) {
    let claim = lab.death("pay-1").await;
    let before = lab.record(&claim.operation).await;
    lab.settles(&claim, fail(), StateKind::Dead).await;
    lab.settles(&claim, release(), StateKind::Dead).await;
    lab.parked(&lab.request("pay-1", 1), StateKind::Dead).await;
    lab.parked(&lab.marked("pay-1", 2, Recovery::Rerun), StateKind::Dead)
        .await;
    assert_eq!(lab.record(&claim.operation).await, before);
}

/// A failure says why, and gives no further attempt.
pub async fn a_failure_for_good_is_dead_at_once(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, fail(), StateKind::Dead).await;
    let record = lab.record(&claim.operation).await;
    assert_eq!(record.last_error.as_deref(), Some("400 from the provider"));
    assert_eq!((record.attempts, record.outcome), (1, None));
}

/// The reason of the latest failure is kept, whatever characters it has.
pub async fn the_last_error_is_kept_as_it_is(lab: Lab) {
    let words = "it's \"50%\" über\\ \u{1f4a5} {}; DROP TABLE records --";
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    let mut step = release();
    if let semel_core::Step::Release { error, .. } = &mut step {
        *error = words.into();
    }
    lab.settles(&second, step, StateKind::Released).await;
    let record = lab.record(&first.operation).await;
    assert_eq!(record.last_error.as_deref(), Some(words));
}

/// Asking a busy key costs nothing.
pub async fn a_busy_answer_is_no_attempt(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    for claimant in 2..10 {
        lab.busy(&lab.request("pay-1", claimant)).await;
    }
    lab.settles(&claim, release_after(lab.lease()), StateKind::Released)
        .await;
    for claimant in 2..10 {
        lab.busy(&lab.request("pay-1", claimant)).await;
    }
    lab.outlast_lease().await;
    assert_eq!(lab.grant(&lab.request("pay-1", 99)).await.attempt, 2);
}

/// Resuming a claim is the same attempt.
pub async fn a_resumed_claim_is_no_attempt(lab: Lab) {
    let request = ClaimRequest {
        limits: limits_of(1, 1),
        ..lab.request("pay-1", 1)
    };
    for _ in 0..5 {
        assert_eq!(lab.grant(&request).await.attempt, 1);
    }
    assert_eq!(lab.record(&request.operation).await.attempts, 1);
}

/// Work given back at shutdown is as if never begun, even at the cap.
pub async fn work_given_back_is_no_attempt(lab: Lab) {
    for claimant in 1..=10 {
        let request = ClaimRequest {
            limits: limits_of(1, 1),
            ..lab.request("pay-1", claimant)
        };
        let claim = lab.grant(&request).await;
        assert_eq!(claim.attempt, 1);
        lab.settles(&claim, capped(give_back(), 1), StateKind::Released)
            .await;
    }
    lab.finish(&lab.request("pay-1", 99), complete("done"))
        .await;
}

/// Giving back the same work twice counts once.
pub async fn work_given_back_twice_is_given_back_once(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    lab.settles(&second, give_back(), StateKind::Released).await;
    lab.settles(&second, give_back(), StateKind::Released).await;
    assert_eq!(lab.record(&second.operation).await.attempts, 1);
}

/// Lets claims vanish until the cap of three. Returns the first claim, and the final state of the
/// operation.
async fn vanish(
    lab: &Lab,
    request: impl Fn(&Lab, u128) -> ClaimRequest + Send + Sync,
) -> (Claim, StateKind) {
    let limited = |claimant| ClaimRequest {
        limits: limits_of(5, 3),
        ..request(lab, claimant)
    };
    let first = lab.grant(&limited(1)).await;
    for claimant in 2..=3 {
        lab.outlast_lease().await;
        assert!(lab.grant(&limited(claimant)).await.takeover);
    }
    lab.outlast_lease().await;
    let last = lab.claim(&limited(4)).await;
    let record = lab.record(&first.operation).await;
    assert_eq!(record.vanished, 3);
    match last {
        semel_core::Admission::Parked { state, .. } => {
            assert_eq!(record.state.kind(), state);
            (first, state)
        }
        other => panic!("the third vanished claim should be the last, got {other:?}"),
    }
}
