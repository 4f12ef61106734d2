//! Leases: who may extend them, and until when.

use semel_core::{Recovery, StateKind};

use crate::lab::Lab;
use crate::steps::{complete, release};

/// A renewed claim outlives the lease that it began with.
pub async fn a_renewed_claim_is_not_taken_over(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    for _ in 0..4 {
        lab.advance(lab.lease() / 2).await;
        lab.extended(&claim, lab.lease()).await;
    }
    lab.busy(&lab.request("pay-1", 2)).await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
}

/// The answer is the end of the new lease, and other claimants get the same.
pub async fn a_renewal_answers_the_end_of_the_lease(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    let until = lab.extended(&claim, lab.lease() * 20).await;
    assert!(until > claim.lease_until);
    assert_eq!(lab.busy(&lab.request("pay-1", 2)).await, until);
}

/// The lease ended without a takeover: the claim lives again.
pub async fn a_renewal_revives_a_lease_that_nobody_took(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.outlast_lease().await;
    lab.extended(&claim, lab.lease() * 20).await;
    lab.busy(&lab.request("pay-1", 2)).await;
    assert_eq!(lab.record(&claim.operation).await.vanished, 0);
}

/// A renewed lease ends as well.
pub async fn a_renewed_lease_ends_too(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.extended(&claim, lab.lease()).await;
    lab.outlast_lease().await;
    assert!(lab.grant(&lab.request("pay-1", 2)).await.takeover);
    lab.lost(&claim).await;
}

/// Another claimant took over: the former claim must stop.
pub async fn a_renewal_after_a_takeover_is_lost(lab: Lab) {
    let old = lab.grant(&lab.request("pay-1", 1)).await;
    lab.outlast_lease().await;
    let new = lab.grant(&lab.request("pay-1", 2)).await;
    lab.lost(&old).await;
    lab.extended(&new, lab.lease()).await;
}

/// A finished operation has no claim to renew.
pub async fn a_renewal_of_a_finished_operation_is_lost(lab: Lab) {
    let completed = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&completed, complete("done"), StateKind::Completed)
        .await;
    lab.lost(&completed).await;
    let dead = lab.death("pay-2").await;
    lab.lost(&dead).await;
}

/// A released operation has no claim to renew.
pub async fn a_renewal_of_a_released_claim_is_lost(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, release(), StateKind::Released).await;
    lab.lost(&claim).await;
}

/// A doubt is resolved, not renewed.
pub async fn a_renewal_of_a_doubt_is_lost(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    lab.lost(&claim).await;
}

/// An absent key has nothing to renew, and no record is made.
pub async fn a_renewal_of_an_absent_key_is_lost(lab: Lab) {
    let mut claim = lab.grant(&lab.request("pay-1", 1)).await;
    claim.operation = lab.request("pay-2", 1).operation;
    lab.lost(&claim).await;
    assert_eq!(lab.get(&claim.operation).await, None);
}

/// A started effect stays started, with the same recovery, however often it is renewed.
pub async fn a_renewal_keeps_a_start_and_its_recovery(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.extended(&claim, lab.lease()).await;
    let record = lab.stands(&claim.operation, StateKind::Started).await;
    assert_eq!(record.first_started_at, claim.first_started_at);
    lab.outlast_lease().await;
    lab.parked(&lab.marked("pay-1", 2, Recovery::Park), StateKind::InDoubt)
        .await;
}

/// Renewing is no attempt and gives no token.
pub async fn a_renewal_is_no_attempt(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    for _ in 0..10 {
        lab.extended(&claim, lab.lease()).await;
    }
    let record = lab.record(&claim.operation).await;
    assert_eq!((record.attempts, record.token), (1, claim.token));
}
