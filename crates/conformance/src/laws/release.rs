//! The order to release: a wait ends for the next claim, and for no other.

use std::sync::Arc;
use std::time::Duration;

use semel_core::decide::{Directed, Order, Refusal};
use semel_core::{Admission, Claim, ClaimRequest, Record, Recovery, State, StateKind};

use crate::lab::{Lab, gate};
use crate::steps::{complete, outcome, release_after};

/// A lease ends: the next claimant takes over, at once.
pub async fn a_released_lease_is_taken_over_at_once(lab: Lab) {
    let claims = [
        lab.grant(&long(lab.request("claimed", 1))).await,
        lab.grant(&long(lab.marked("started", 1, Recovery::Rerun)))
            .await,
    ];
    for (claim, state) in claims.iter().zip([StateKind::Claimed, StateKind::Started]) {
        lab.busy(&lab.request(claim.operation.key.as_str(), 2))
            .await;
        lab.ordered(&claim.operation, Order::Release, Some(state))
            .await;
        let second = lab
            .grant(&lab.request(claim.operation.key.as_str(), 2))
            .await;
        assert!(second.takeover && second.attempt == 2 && second.token > claim.token);
        let record = lab.record(&claim.operation).await;
        assert_eq!((record.vanished, record.past.len()), (1, 1));
        assert_eq!(
            second.possible_repeat,
            state == StateKind::Started,
            "a started effect may have been applied"
        );
    }
}

/// A backoff ends: the next claimant is granted, at once.
pub async fn a_released_backoff_ends_at_once(lab: Lab) {
    let claim = backing_off(&lab, "pay-1").await;
    lab.busy(&lab.request("pay-1", 2)).await;
    lab.ordered(&claim.operation, Order::Release, Some(StateKind::Released))
        .await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    assert!(!second.takeover && second.attempt == 2);
    assert_eq!(lab.record(&claim.operation).await.vanished, 0);
}

/// An effect that must not run again is in doubt at the next claim, and at the next sweep.
pub async fn a_released_park_is_in_doubt(lab: Lab) {
    let mut claims = Vec::new();
    for key in ["claimed", "swept"] {
        let claim = lab.grant(&long(lab.marked(key, 1, Recovery::Park))).await;
        lab.ordered(&claim.operation, Order::Release, Some(StateKind::Started))
            .await;
        claims.push(claim);
    }
    lab.parked(&lab.request("claimed", 2), StateKind::InDoubt)
        .await;
    assert_eq!(lab.sweep().await.doubted, 1);
    for claim in claims {
        lab.stands(&claim.operation, StateKind::InDoubt).await;
        lab.settles(&claim, complete("late"), StateKind::Completed)
            .await;
    }
}

/// No other claim exists yet, so the claimant goes on, and its result counts.
pub async fn a_claimant_goes_on_until_somebody_claims(lab: Lab) {
    let request = long(lab.request("pay-1", 1));
    let claim = lab.grant(&request).await;
    lab.ordered(&claim.operation, Order::Release, Some(StateKind::Claimed))
        .await;
    assert!(lab.grant(&request).await.resumed);
    lab.settles(
        &claim,
        crate::steps::start(Recovery::Park),
        StateKind::Started,
    )
    .await;
    lab.settles(&claim, complete("done"), StateKind::Completed)
        .await;
    lab.replays(&lab.request("pay-1", 2), &outcome("done"))
        .await;
}

/// A claimant that renews after the order has its lease back.
pub async fn a_renewal_after_the_order_extends_the_lease(lab: Lab) {
    let claim = lab.grant(&long(lab.request("pay-1", 1))).await;
    lab.ordered(&claim.operation, Order::Release, Some(StateKind::Claimed))
        .await;
    let until = lab.extended(&claim, LONG).await;
    assert_eq!(lab.busy(&lab.request("pay-1", 2)).await, until);
}

/// Another claim exists, so the former claimant is fenced.
pub async fn a_claimant_is_fenced_once_somebody_claimed(lab: Lab) {
    let first = lab.grant(&long(lab.request("pay-1", 1))).await;
    lab.ordered(&first.operation, Order::Release, Some(StateKind::Claimed))
        .await;
    let second = lab.grant(&lab.request("pay-1", 2)).await;
    lab.fenced(&first.operation, first.claim_id, complete("stale"))
        .await;
    lab.lost(&first).await;
    lab.settles(&second, complete("done"), StateKind::Completed)
        .await;
    lab.replays(&lab.request("pay-1", 3), &outcome("done"))
        .await;
}

/// The order ends the wait and changes nothing else of the record.
pub async fn a_release_order_changes_nothing_else(lab: Lab) {
    let claims = [
        lab.grant(&long(lab.request("claimed", 1))).await,
        lab.grant(&long(lab.marked("started", 1, Recovery::Park)))
            .await,
        backing_off(&lab, "released").await,
    ];
    for claim in claims {
        let before = lab.record(&claim.operation).await;
        let kind = before.state.kind();
        lab.ordered(&claim.operation, Order::Release, Some(kind))
            .await;
        let after = lab.record(&claim.operation).await;
        let ended = waits_until(&after);
        assert!(ended < waits_until(&before) && ended >= before.created_at);
        let expected = Record {
            state: after.state,
            ..before
        };
        assert_eq!((after.state.kind(), &after), (kind, &expected));
    }
}

/// A wait that is already over stays as it is: the order moves no wait to a later time.
pub async fn releasing_twice_changes_nothing(lab: Lab) {
    let claims = [
        lab.grant(&lab.request("claimed", 1)).await,
        lab.grant(&lab.marked("started", 1, Recovery::Park)).await,
        backing_off(&lab, "released").await,
    ];
    for claim in &claims {
        let state = lab.record(&claim.operation).await.state.kind();
        lab.ordered(&claim.operation, Order::Release, Some(state))
            .await;
    }
    lab.outlast_lease().await;
    for claim in &claims {
        let before = lab.record(&claim.operation).await;
        lab.ordered(&claim.operation, Order::Release, Some(before.state.kind()))
            .await;
        assert_eq!(lab.record(&claim.operation).await, before);
    }
}

/// The entity that the claim holds is free for the next version, too.
pub async fn a_released_claim_frees_its_entity(lab: Lab) {
    let first = lab.grant(&long(versioned(&lab, "first", 1))).await;
    lab.busy(&versioned(&lab, "second", 2)).await;
    lab.ordered(&first.operation, Order::Release, Some(StateKind::Claimed))
        .await;
    let second = lab.grant(&versioned(&lab, "second", 2)).await;
    lab.lost(&first).await;
    lab.settles(&second, complete("done"), StateKind::Completed)
        .await;
    lab.stale(&versioned(&lab, "third", 1), 2).await;
}

/// An entity that another claim holds stays held.
pub async fn a_release_order_leaves_the_entity_of_another_alone(lab: Lab) {
    let first = lab.grant(&versioned(&lab, "first", 1)).await;
    lab.outlast_lease().await;
    let second = lab.grant(&long(versioned(&lab, "second", 2))).await;
    lab.ordered(&first.operation, Order::Release, Some(StateKind::Claimed))
        .await;
    assert_eq!(
        lab.busy(&versioned(&lab, "third", 3)).await,
        second.lease_until
    );
    lab.settles(&second, complete("done"), StateKind::Completed)
        .await;
}

/// No claim waits for an operation that is finished or in doubt.
pub async fn releasing_what_nobody_waits_for_is_refused(lab: Lab) {
    let request = lab.request("completed", 1);
    lab.finish(&request, complete("done")).await;
    let dead = lab.death("dead").await.operation;
    let doubt = lab.doubt("doubt").await.operation;
    let absent = lab.request("absent", 1).operation;
    for (operation, refusal) in [
        (request.operation, Refusal::State(StateKind::Completed)),
        (dead, Refusal::State(StateKind::Dead)),
        (doubt, Refusal::State(StateKind::InDoubt)),
        (absent, Refusal::Absent),
    ] {
        let before = lab.get(&operation).await;
        match lab.order(&operation, Order::Release).await {
            Directed::Refused(found) => assert_eq!(found, refusal),
            other => panic!("{} should be refused, got {other:?}", operation.key),
        }
        assert_eq!(lab.get(&operation).await, before);
    }
}

/// However many claimants wait for the order, one is granted.
pub async fn of_16_claimants_after_the_order_one_is_granted(lab: Lab) {
    let first = lab.grant(&long(lab.request("pay-1", 99))).await;
    lab.ordered(&first.operation, Order::Release, Some(StateKind::Claimed))
        .await;
    let lab = Arc::new(lab);
    let answers = lab
        .race(16, |lab, claimant| async move {
            lab.claim(&long(lab.request("pay-1", u128::from(claimant))))
                .await
        })
        .await;
    let granted = answers
        .iter()
        .filter(|answer| matches!(answer, Admission::Granted(_)));
    assert_eq!(granted.count(), 1);
}

/// A request whose lease does not end in a case.
fn long(request: ClaimRequest) -> ClaimRequest {
    ClaimRequest {
        lease: LONG,
        ..request
    }
}

/// A request for a version of the entity that these cases share.
fn versioned(lab: &Lab, key: &str, version: u64) -> ClaimRequest {
    ClaimRequest {
        gate: Some(gate("cart", version)),
        ..lab.request(key, u128::from(version))
    }
}

/// An operation that may not be attempted for an hour.
async fn backing_off(lab: &Lab, key: &str) -> Claim {
    let claim = lab.grant(&lab.request(key, 1)).await;
    lab.settles(&claim, release_after(LONG), StateKind::Released)
        .await;
    claim
}

fn waits_until(record: &Record) -> semel_core::Timestamp {
    match record.state {
        State::Claimed { lease_until: until }
        | State::Started {
            lease_until: until, ..
        }
        | State::Released { not_before: until } => until,
        State::Completed { .. } | State::Dead { .. } | State::InDoubt { .. } => {
            panic!("nobody waits for {record:?}")
        }
    }
}

const LONG: Duration = Duration::from_secs(3_600);
