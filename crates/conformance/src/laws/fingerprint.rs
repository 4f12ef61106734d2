//! Reused keys: another request under the same key is a conflict, never a duplicate.

use bytes::Bytes;
use semel_core::{ClaimRequest, Duplicate, Fingerprint, Operation, Recovery, StateKind};

use crate::lab::Lab;
use crate::steps::{complete, complete_for, outcome, release};

/// Another request while the first one runs.
pub async fn a_claimed_key_conflicts(lab: Lab) {
    let claim = lab.grant(&printed(&lab, 1, 10)).await;
    conflicts_unchanged(&lab, &claim.operation).await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
}

/// Another request while the first effect is out.
pub async fn a_started_key_conflicts(lab: Lab) {
    let request = ClaimRequest {
        fingerprint: Some(fingerprint(1, 10)),
        ..lab.marked("pay-1", 1, Recovery::Park)
    };
    let claim = lab.grant(&request).await;
    conflicts_unchanged(&lab, &claim.operation).await;
}

/// Another request while the first one waits for its next attempt.
pub async fn a_released_key_conflicts(lab: Lab) {
    let claim = lab.grant(&printed(&lab, 1, 10)).await;
    lab.settles(&claim, release(), StateKind::Released).await;
    conflicts_unchanged(&lab, &claim.operation).await;
}

/// Another request after the first one is completed: its outcome is not shown.
pub async fn a_completed_key_conflicts(lab: Lab) {
    let request = printed(&lab, 1, 10);
    lab.finish(&request, complete("done")).await;
    conflicts_unchanged(&lab, &request.operation).await;
}

/// Another request after the first one is dead or in doubt.
pub async fn a_parked_key_conflicts(lab: Lab) {
    let claim = lab.grant(&printed(&lab, 1, 10)).await;
    lab.settles(&claim, crate::steps::fail(), StateKind::Dead)
        .await;
    conflicts_unchanged(&lab, &claim.operation).await;
}

/// Another request whose lease is over is a conflict before it is a takeover.
pub async fn a_vanished_key_conflicts(lab: Lab) {
    let claim = lab.grant(&printed(&lab, 1, 10)).await;
    lab.outlast_lease().await;
    conflicts_unchanged(&lab, &claim.operation).await;
}

/// The claim id does not excuse another request.
pub async fn the_same_claim_with_another_request_conflicts(lab: Lab) {
    let claim = lab.grant(&printed(&lab, 1, 10)).await;
    lab.conflicts(&printed(&lab, 1, 11)).await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
}

/// A conflict says whether the broker handed the same message over again.
pub async fn a_conflict_names_the_duplicate(lab: Lab) {
    let sent = |transport: Option<&'static str>, claimant, digest| ClaimRequest {
        transport: transport.map(Bytes::from),
        ..printed(&lab, claimant, digest)
    };
    lab.finish(&sent(Some("event-1"), 1, 10), complete("done"))
        .await;
    let redelivery = lab.conflicts(&sent(Some("event-1"), 2, 11)).await;
    let republish = lab.conflicts(&sent(Some("event-2"), 2, 11)).await;
    let unknown = lab.conflicts(&sent(None, 2, 11)).await;
    let all = [redelivery, republish, unknown];
    assert_eq!(
        all,
        [
            Duplicate::Redelivery,
            Duplicate::Republish,
            Duplicate::Unknown
        ]
    );
}

/// The same request is a duplicate.
pub async fn the_same_request_replays(lab: Lab) {
    lab.finish(&printed(&lab, 1, 10), complete("done")).await;
    lab.replays(&printed(&lab, 2, 10), &outcome("done")).await;
}

/// Once the record is forgotten the key is free for another request.
pub async fn a_forgotten_key_conflicts_with_nothing(lab: Lab) {
    lab.finish(&printed(&lab, 1, 10), complete_for("done", lab.window()))
        .await;
    lab.outlast_grace().await;
    let claim = lab.grant(&printed(&lab, 2, 11)).await;
    assert_eq!(
        lab.record(&claim.operation).await.fingerprint,
        Some(fingerprint(1, 11))
    );
}

/// Fingerprints of two schemes cannot be compared.
pub async fn another_scheme_is_no_conflict(lab: Lab) {
    lab.finish(&printed(&lab, 1, 10), complete("done")).await;
    let other = ClaimRequest {
        fingerprint: Some(fingerprint(2, 11)),
        ..lab.request("pay-1", 2)
    };
    lab.replays(&other, &outcome("done")).await;
}

/// A request without a fingerprint is not checked, and neither is a record without one.
pub async fn no_fingerprint_is_no_conflict(lab: Lab) {
    lab.finish(&printed(&lab, 1, 10), complete("done")).await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
    let bare = lab.request("pay-2", 3);
    lab.finish(&bare, complete("done")).await;
    let printed = ClaimRequest {
        fingerprint: Some(fingerprint(1, 10)),
        ..bare
    };
    lab.replays(&printed, &outcome("done")).await;
}

/// The first digest byte, the last and the scheme all count.
pub async fn every_byte_of_a_fingerprint_counts(lab: Lab) {
    let base = Fingerprint {
        scheme: u32::MAX,
        digest: [0; 16],
    };
    lab.finish(
        &ClaimRequest {
            fingerprint: Some(base),
            ..lab.request("pay-1", 1)
        },
        complete(""),
    )
    .await;
    for byte in 0..16 {
        let mut other = base;
        other.digest[byte] = 0x80;
        lab.conflicts(&ClaimRequest {
            fingerprint: Some(other),
            ..lab.request("pay-1", 2)
        })
        .await;
    }
}

fn fingerprint(scheme: u32, digest: u8) -> Fingerprint {
    Fingerprint {
        scheme,
        digest: [digest; 16],
    }
}

fn printed(lab: &Lab, claimant: u128, digest: u8) -> ClaimRequest {
    ClaimRequest {
        fingerprint: Some(fingerprint(1, digest)),
        ..lab.request("pay-1", claimant)
    }
}

/// Checks that another request conflicts with the key, and leaves its record as it is.
async fn conflicts_unchanged(lab: &Lab, operation: &Operation) {
    let before = lab.record(operation).await;
    lab.conflicts(&printed(lab, 99, 99)).await;
    assert_eq!(
        lab.record(operation).await,
        before,
        "a conflict changes nothing"
    );
}
