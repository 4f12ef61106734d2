//! Members of requests: kept with their fingerprint, and handed out with every conflict.

use semel_core::{Admission, ClaimRequest, Fingerprint, Members, Recovery, StateKind, Store as _};

use crate::lab::Lab;
use crate::steps::{complete, complete_for, fail, release};

/// A claim keeps the members of its request.
pub async fn a_claim_keeps_its_members(lab: Lab) {
    let claimed = lab.grant(&printed(&lab, "pay-1", 1, 10)).await;
    let started = ClaimRequest {
        operation: lab.request("pay-2", 1).operation,
        ..printed(&lab, "pay-1", 2, 11)
    };
    let started = lab.grant(&marked(started)).await;
    for (claim, digest) in [(claimed, 10), (started, 11)] {
        let record = lab.record(&claim.operation).await;
        assert_eq!(record.members, members(digest));
        assert_eq!(record.fingerprint, Some(fingerprint(digest)));
    }
}

/// The longest form is kept, and one of a single byte.
pub async fn members_of_any_length_are_kept(lab: Lab) {
    for (number, len) in (1..).zip([1, 2, 128, 129, Members::MAX_BYTES]) {
        let bytes: Vec<u8> = (0..=u8::MAX).rev().take(len).collect();
        let request = ClaimRequest {
            members: Members::from_bytes(&bytes),
            ..printed(&lab, &format!("pay-{number}"), number, 10)
        };
        lab.finish(&request, complete("done")).await;
        let record = lab.record(&request.operation).await;
        assert_eq!(
            record.members.as_ref().map(Members::as_bytes),
            Some(&bytes[..])
        );
    }
}

/// The members of an operation stay those of the first request, whatever happens to it.
pub async fn members_stay_whatever_happens(lab: Lab) {
    let first = printed(&lab, "pay-1", 1, 10);
    let stay = async |when: &str| {
        let record = lab.record(&first.operation).await;
        assert_eq!(record.members, members(10), "after {when}");
    };
    let claim = lab.grant(&first).await;
    let _ = lab.renew(&claim, lab_lease()).await;
    stay("a renewal").await;
    lab.settles(&claim, release(), StateKind::Released).await;
    stay("a release").await;
    let again = ClaimRequest {
        members: members(99),
        ..printed(&lab, "pay-1", 2, 10)
    };
    let claim = lab.grant(&again).await;
    stay("a second claim").await;
    lab.outlast_lease().await;
    let third = printed(&lab, "pay-1", 3, 10);
    assert!(lab.grant(&third).await.attempt > claim.attempt);
    stay("a takeover").await;
    let claim = lab.claim(&third).await;
    let Admission::Granted(claim) = claim else {
        panic!("its own claim should be resumed, got {claim:?}");
    };
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    stay("a completion").await;
    let dead = printed(&lab, "pay-2", 1, 11);
    let claim = lab.grant(&dead).await;
    lab.settles(&claim, fail(), StateKind::Dead).await;
    assert_eq!(lab.record(&dead.operation).await.members, members(11));
}

/// A conflict hands out the members of the first request, not its own.
pub async fn a_conflict_hands_out_the_first_members(lab: Lab) {
    let first = printed(&lab, "pay-1", 1, 10);
    let claim = lab.grant(&first).await;
    let other = printed(&lab, "pay-1", 2, 11);
    assert_eq!(first_of(&lab.claim(&other).await), members(10), "claimed");
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    assert_eq!(first_of(&lab.claim(&other).await), members(10), "completed");
    let without = ClaimRequest {
        members: None,
        ..other
    };
    assert_eq!(first_of(&lab.claim(&without).await), members(10));
}

/// Members that were not kept are not made up.
pub async fn absent_members_stay_absent(lab: Lab) {
    let first = ClaimRequest {
        members: None,
        ..printed(&lab, "pay-1", 1, 10)
    };
    let claim = lab.grant(&first).await;
    let other = printed(&lab, "pay-1", 2, 11);
    assert_eq!(first_of(&lab.claim(&other).await), None);
    lab.settles(&claim, release(), StateKind::Released).await;
    lab.finish(&printed(&lab, "pay-1", 3, 10), complete("done"))
        .await;
    assert_eq!(lab.record(&first.operation).await.members, None);
    assert_eq!(first_of(&lab.claim(&other).await), None);
}

/// Members without a fingerprint are of no use, and are not kept.
pub async fn members_alone_are_not_kept(lab: Lab) {
    let request = ClaimRequest {
        fingerprint: None,
        ..printed(&lab, "pay-1", 1, 10)
    };
    lab.finish(&request, complete("done")).await;
    assert_eq!(lab.record(&request.operation).await.members, None);
}

/// Each request of a batch has its own members, some none.
pub async fn a_batch_keeps_the_members_of_each(lab: Lab) {
    let batch: Vec<_> = (0..40)
        .map(|number: u8| ClaimRequest {
            members: members(number).filter(|_| !number.is_multiple_of(3)),
            ..printed(&lab, &format!("pay-{number}"), number.into(), number)
        })
        .chain([
            printed(&lab, "pay-1", 77, 99),
            printed(&lab, "pay-3", 77, 99),
        ])
        .collect();
    let answers = lab
        .store()
        .claim(batch.clone().into())
        .await
        .expect("claims are answered");
    let (granted, conflicts) = answers.split_last_chunk::<2>().expect("42 answers");
    for (number, answer) in (0..).zip(granted) {
        assert!(matches!(answer, Admission::Granted(_)), "{answer:?}");
        let record = lab.record(&batch[usize::from(number)].operation).await;
        let kept = members(number).filter(|_| !number.is_multiple_of(3));
        assert_eq!(record.members, kept, "of {number}");
    }
    assert_eq!(first_of(&conflicts[0]), members(1));
    assert_eq!(first_of(&conflicts[1]), None);
}

/// Once a record is forgotten, the members are those of its next life.
pub async fn members_are_forgotten_with_their_record(lab: Lab) {
    let request = printed(&lab, "pay-1", 1, 10);
    lab.finish(&request, complete_for("done", lab.window()))
        .await;
    lab.outlast_grace().await;
    let other = printed(&lab, "pay-1", 2, 11);
    let _ = lab.grant(&other).await;
    assert_eq!(lab.record(&other.operation).await.members, members(11));
    let bare = ClaimRequest {
        members: None,
        ..printed(&lab, "pay-2", 1, 10)
    };
    lab.finish(&bare, complete("done")).await;
    assert_eq!(lab.record(&bare.operation).await.members, None);
}

/// The members of the first request that a conflict hands out.
#[track_caller]
pub(super) fn first_of(admission: &Admission) -> Option<Members> {
    match admission {
        Admission::Conflict { first, .. } => first.clone(),
        other => panic!("it should be a conflict, got {other:?}"),
    }
}

pub(super) fn marked(request: ClaimRequest) -> ClaimRequest {
    ClaimRequest {
        start: semel_core::Start::Marked(Recovery::Park),
        ..request
    }
}

fn lab_lease() -> std::time::Duration {
    std::time::Duration::from_secs(5)
}

fn fingerprint(digest: u8) -> Fingerprint {
    Fingerprint {
        scheme: 1,
        digest: [digest; 16],
    }
}

/// Two members with this digest.
pub(super) fn members(digest: u8) -> Option<Members> {
    Members::from_bytes(&[1, 0, 255, digest, 7, 3, 0, 0, digest])
}

pub(super) fn printed(lab: &Lab, key: &str, claimant: u128, digest: u8) -> ClaimRequest {
    ClaimRequest {
        fingerprint: Some(fingerprint(digest)),
        members: members(digest),
        ..lab.request(key, claimant)
    }
}
