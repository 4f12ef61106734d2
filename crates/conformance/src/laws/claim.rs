//! Claims: who may attempt the effect, one at a time.

use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::Order;
use semel_core::{Admission, Claim, ClaimId, ClaimRequest, Recovery, StateKind, Store};

use crate::lab::{Lab, answered};
use crate::steps::{complete, outcome, release, release_after};

/// Absent → granted.
pub async fn a_fresh_key_is_granted_as_the_first_attempt(lab: Lab) {
    let request = lab.request("pay-1", 1);
    let claim = lab.grant(&request).await;
    assert_eq!(claim.operation, request.operation);
    assert_eq!(claim.claim_id, request.claim_id);
    assert_eq!(claim.attempt, 1);
    let marks = [
        claim.takeover,
        claim.resumed,
        claim.formerly_expired,
        claim.possible_repeat,
    ];
    assert_eq!(marks, [false; 4], "a first claim carries no marks");
    assert_eq!(claim.first_started_at, None);
    let record = lab.stands(&request.operation, StateKind::Claimed).await;
    assert_eq!(
        (record.claim_id, record.token),
        (claim.claim_id, claim.token)
    );
}

/// A marked claim is started before its answer.
pub async fn a_marked_claim_is_started_at_once(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    let record = lab.stands(&claim.operation, StateKind::Started).await;
    assert!(record.first_started_at.is_some());
    assert_eq!(claim.first_started_at, record.first_started_at);
}

/// Claimed by another → busy, until the lease ends.
pub async fn a_claimed_key_is_busy_until_the_lease_ends(lab: Lab) {
    let held = lab.grant(&lab.request("pay-1", 1)).await;
    assert_eq!(lab.busy(&lab.request("pay-1", 2)).await, held.lease_until);
}

/// Started by another → busy, until the lease ends.
pub async fn a_started_key_is_busy_until_the_lease_ends(lab: Lab) {
    let held = lab.grant(&lab.marked("pay-1", 1, Recovery::Rerun)).await;
    let until = lab.busy(&lab.marked("pay-1", 2, Recovery::Rerun)).await;
    assert_eq!(until, held.lease_until);
}

/// 64 tasks, one key, one claim.
pub async fn of_64_claimants_at_once_exactly_one_is_granted(lab: Lab) {
    let answers = claim_at_once(Arc::new(lab), 64, 0).await;
    assert_eq!(granted(&answers).len(), 1);
    let busy = answers
        .iter()
        .filter(|answer| matches!(answer, Admission::Busy { .. }));
    assert_eq!(busy.count(), 63);
}

/// Sixteen tasks, one key whose lease ended, one takeover.
pub async fn of_16_takers_at_once_exactly_one_takes_over(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 999)).await;
    lab.outlast_lease().await;
    let answers = claim_at_once(Arc::new(lab), 16, 0).await;
    let granted = granted(&answers);
    assert_eq!(granted.len(), 1);
    assert!(granted[0].takeover && granted[0].token > first.token);
}

/// Sixteen tasks, one released key, one grant.
pub async fn of_16_claimants_of_a_released_key_one_is_granted(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 999)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let answers = claim_at_once(Arc::new(lab), 16, 0).await;
    let granted = granted(&answers);
    assert_eq!(granted.len(), 1);
    assert_eq!(granted[0].attempt, 2);
}

/// Eight tasks claim the same fifty keys in batches, in opposite orders.
pub async fn racing_batches_grant_each_key_once(lab: Lab) {
    let lab = Arc::new(lab);
    let answers = lab
        .race(8, |lab, claimant| async move {
            let claim = |key: u32| held(&lab, &format!("pay-{key}"), u128::from(claimant));
            let mut batch: Vec<_> = (0..50).map(claim).collect();
            if claimant % 2 == 1 {
                batch.reverse();
            }
            answered(lab.store().claim(batch.into()).await, "claim")
        })
        .await;
    let answers = answers.concat();
    let granted = granted(&answers);
    let mut keys: Vec<_> = granted
        .iter()
        .map(|claim| claim.operation.key.clone())
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), granted.len()), (50, 50));
}

/// Tokens compare across keys, too.
pub async fn tokens_rise_from_claim_to_claim_and_key_to_key(lab: Lab) {
    let mut last = None;
    for number in 0..5_u32 {
        let request = lab.request(&format!("pay-{number}"), u128::from(number));
        let token = Some(lab.grant(&request).await.token);
        assert!(token > last, "{token:?} after {last:?}");
        last = token;
    }
}

/// Forgetting a record does not restart its tokens.
pub async fn tokens_rise_over_the_removal_of_a_record(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, complete("done"), StateKind::Completed)
        .await;
    lab.ordered(&first.operation, Order::Forget, None).await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(second.token > first.token);
    assert_eq!(second.attempt, 1, "a forgotten key begins anew");
}

/// No token is given out twice.
pub async fn tokens_of_claims_at_once_differ(lab: Lab) {
    let lab = Arc::new(lab);
    let mut tokens = lab
        .race(32, |lab, number| async move {
            lab.grant(&lab.request(&format!("pay-{number}"), u128::from(number)))
                .await
                .token
        })
        .await;
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 32);
}

/// A lost answer is asked for again.
pub async fn asking_again_resumes_the_same_claim(lab: Lab) {
    let request = lab.request("pay-1", 1);
    let first = lab.grant(&request).await;
    let again = lab.grant(&request).await;
    assert!(
        again.resumed,
        "the second answer says that the claim was there"
    );
    assert_eq!((again.token, again.attempt), (first.token, 1));
    assert_eq!(
        again.lease_until, first.lease_until,
        "asking again does not renew"
    );
    lab.settles(&again, complete("done"), StateKind::Completed)
        .await;
}

/// A lost answer to a marked claim is asked for again, and the effect still counts as started.
pub async fn asking_again_resumes_a_started_claim(lab: Lab) {
    let request = lab.marked("pay-1", 1, Recovery::Park);
    let first = lab.grant(&request).await;
    let again = lab.grant(&request).await;
    assert!(again.resumed);
    assert_eq!(
        (again.token, again.first_started_at),
        (first.token, first.first_started_at)
    );
    lab.stands(&request.operation, StateKind::Started).await;
}

/// As long as nobody took over, the claim is still there to be resumed.
pub async fn asking_again_after_the_lease_resumes_if_nobody_took_over(lab: Lab) {
    let request = lab.request("pay-1", 1);
    let first = lab.grant(&request).await;
    lab.outlast_lease().await;
    let again = lab.grant(&request).await;
    assert!(again.resumed && !again.takeover);
    assert_eq!((again.token, again.attempt), (first.token, 1));
}

/// After a takeover the former claim id counts like any other.
pub async fn asking_again_after_a_takeover_is_busy(lab: Lab) {
    let request = lab.request("pay-1", 1);
    let first = lab.grant(&request).await;
    lab.outlast_lease().await;
    let second = lab.grant(&held(&lab, "pay-1", 2)).await;
    assert!(second.token > first.token);
    lab.busy(&request).await;
}

/// Its token was superseded for good: asked for again, even when no other claim is left, it is a claim like
/// any other, with a token above all that were granted since.
pub async fn a_claim_that_was_taken_over_is_never_resumed(lab: Lab) {
    for (key, old, new) in [
        (
            "claimed",
            lab.request("claimed", 1),
            lab.request("claimed", 2),
        ),
        (
            "started",
            lab.marked("started", 3, Recovery::Rerun),
            lab.marked("started", 4, Recovery::Rerun),
        ),
    ] {
        let first = lab.grant(&old).await;
        assert!(lab.grant(&old).await.resumed, "{key}: nobody took over yet");
        lab.outlast_lease().await;
        let second = lab.grant(&new).await;
        lab.busy(&old).await;
        lab.lost(&first).await;
        lab.fenced(&first.operation, first.claim_id, complete("late"))
            .await;
        let record = lab.record(&second.operation).await;
        assert_eq!(
            (record.claim_id, record.token),
            (second.claim_id, second.token),
            "{key}: asking left no trace"
        );
        lab.outlast_lease().await;
        let third = lab.grant(&old).await;
        assert!(third.takeover && !third.resumed, "{key}: {third:?}");
        assert!(third.token > second.token, "{key}: {third:?}");
        assert_eq!(third.attempt, 3, "{key}");
        lab.fenced(&second.operation, second.claim_id, complete("late"))
            .await;
    }
}

/// A claimant that asks again gets the lease that counts now, and shortens nothing of it.
pub async fn a_resumption_keeps_a_renewed_lease(lab: Lab) {
    for (request, other) in [
        (lab.request("claimed", 1), lab.request("claimed", 2)),
        (
            lab.marked("started", 1, Recovery::Park),
            lab.marked("started", 2, Recovery::Park),
        ),
    ] {
        let first = lab.grant(&request).await;
        let until = lab.extended(&first, lab.lease() * 20).await;
        let again = lab.grant(&request).await;
        assert!(again.resumed);
        assert_eq!((again.token, again.attempt), (first.token, 1));
        assert_eq!(again.lease_until, until);
        lab.outlast_lease().await;
        assert_eq!(lab.busy(&other).await, until);
        assert_eq!(lab.record(&request.operation).await.vanished, 0);
    }
}

/// The answer to the claim was lost, the one to the completion was not.
pub async fn asking_again_after_completion_replays(lab: Lab) {
    let request = lab.request("pay-1", 1);
    lab.finish(&request, complete("done")).await;
    lab.replays(&request, &outcome("done")).await;
}

/// The same request in 32 tasks is one claim.
pub async fn asking_32_times_at_once_is_one_claim(lab: Lab) {
    let lab = Arc::new(lab);
    let claims = lab
        .race(32, |lab, _| async move {
            lab.grant(&held(&lab, "pay-1", 1)).await
        })
        .await;
    assert_eq!(claims.iter().filter(|claim| !claim.resumed).count(), 1);
    assert!(
        claims
            .iter()
            .all(|claim| claim.token == claims[0].token && claim.attempt == 1)
    );
}

/// Claimed, lease not over → never granted to another.
pub async fn a_claim_is_not_taken_over_within_its_lease(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.advance(lab.lease() / 2).await;
    lab.busy(&lab.request("pay-1", 2)).await;
    lab.settles(&first, complete("done"), StateKind::Completed)
        .await;
}

/// Claimed, lease over → granted to the next.
pub async fn a_claim_is_taken_over_after_its_lease(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.outlast_lease().await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(second.takeover && !second.resumed);
    assert!(second.token > first.token);
    assert_eq!(second.claim_id, ClaimId::from_u128(2));
    assert_eq!(second.attempt, 2);
    assert_eq!(lab.record(&second.operation).await.vanished, 1);
}

/// A lease of nothing is over at once.
pub async fn a_claim_without_a_lease_is_taken_over_at_once(lab: Lab) {
    let first = ClaimRequest {
        lease: Duration::ZERO,
        ..lab.request("pay-1", 1)
    };
    let first = lab.grant(&first).await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(second.takeover && second.token > first.token);
}

/// Data that the claimant passes downstream is kept apart per lease: the second lease is its own.
pub async fn a_takeover_gets_a_lease_of_its_own(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.outlast_lease().await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(second.lease_until > first.lease_until);
    assert_eq!(lab.busy(&lab.request("pay-1", 3)).await, second.lease_until);
}

/// Released, no backoff → granted at once, and not as a takeover.
pub async fn a_released_key_is_granted_again(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&first, release(), StateKind::Released).await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(!second.takeover && second.token > first.token);
    assert_eq!(second.attempt, 2);
}

/// Released, backoff not over → busy until it is, for every claimant.
pub async fn a_released_key_is_busy_until_its_backoff_ends(lab: Lab) {
    let first = lab.grant(&lab.request("pay-1", 1)).await;
    let backoff = lab.lease() * 2;
    lab.settles(&first, release_after(backoff), StateKind::Released)
        .await;
    let until = lab.busy(&lab.request("pay-1", 2)).await;
    assert_eq!(lab.busy(&lab.request("pay-1", 1)).await, until);
    lab.advance(backoff + lab.lease() / 2).await;
    assert_eq!(lab.grant(&lab.request("pay-1", 2)).await.attempt, 2);
}

/// A report of a release whose answer was lost does not prolong the backoff.
pub async fn releasing_twice_is_harmless(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, release(), StateKind::Released).await;
    lab.settles(
        &claim,
        release_after(Duration::from_secs(900)),
        StateKind::Released,
    )
    .await;
    assert_eq!(lab.grant(&lab.request("pay-1", 2)).await.attempt, 2);
}

async fn claim_at_once(lab: Arc<Lab>, count: u32, from: u128) -> Vec<Admission> {
    lab.race(count, |lab, number| async move {
        lab.claim(&held(&lab, "pay-1", from + u128::from(number)))
            .await
    })
    .await
}

/// A request whose lease outlasts the case.
fn held(lab: &Lab, key: &str, claimant: u128) -> ClaimRequest {
    ClaimRequest {
        lease: Duration::from_secs(3_600),
        ..lab.request(key, claimant)
    }
}

fn granted(answers: &[Admission]) -> Vec<&Claim> {
    let claims = answers.iter().filter_map(|answer| match answer {
        Admission::Granted(claim) => Some(claim),
        _ => None,
    });
    claims.collect()
}
