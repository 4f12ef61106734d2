//! Durability: the answers of a durable store survive closing and opening it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::store::{Durability, ListQuery};
use semel_core::{Admission, ClaimRequest, Outcome, Recovery, State, StateKind, Store};

use crate::lab::{Lab, answered};
use crate::steps::{complete, fail, outcome, release, release_after, start};

/// A store that calls itself durable reports so in its capabilities.
pub async fn a_durable_store_says_so(lab: Lab) {
    let found = answered(lab.store().preflight().await, "preflight");
    assert!(found.durability > Durability::Process, "{found:?}");
}

/// An empty store is empty after reopening.
pub async fn an_empty_store_reopens_empty(lab: Lab) {
    let lab = lab.reopen().await.reopen().await;
    assert_eq!(lab.stats().await.records, [0; 6]);
    lab.finish(&lab.request("pay-1", 1), complete("done")).await;
}

/// A finished operation replays after reopening, and after reopening again.
pub async fn an_outcome_survives(mut lab: Lab) {
    lab.finish(&lab.request("pay-1", 1), complete("done")).await;
    for claimant in 2..5 {
        lab = lab.reopen().await;
        lab.replays(&lab.request("pay-1", claimant), &outcome("done"))
            .await;
    }
}

/// Every kind of outcome survives byte for byte.
pub async fn every_kind_of_outcome_survives(lab: Lab) {
    let large: Vec<u8> = (0..=250)
        .cycle()
        .take(Outcome::DEFAULT_LIMIT_BYTES)
        .collect();
    let outcomes = [
        Outcome::empty(),
        outcome((0..=255).collect::<Vec<u8>>()),
        outcome(large),
        Outcome::Kept {
            codec: u16::MAX,
            bytes: Bytes::from_static(b"{}"),
        },
        Outcome::TooLarge {
            len_bytes: u64::from(u32::MAX) + 9,
            digest: [0xfe; 32],
        },
    ];
    for (number, outcome) in outcomes.iter().enumerate() {
        let window = crate::steps::LONG_WINDOW;
        let step = semel_core::Step::Complete {
            outcome: outcome.clone(),
            window,
        };
        lab.finish(&lab.request(&format!("pay-{number}"), 1), step)
            .await;
    }
    let lab = lab.reopen().await;
    for (number, outcome) in outcomes.iter().enumerate() {
        lab.replays(&lab.request(&format!("pay-{number}"), 2), outcome)
            .await;
    }
}

/// A thousand finished operations are all there.
pub async fn a_thousand_records_survive(lab: Lab) {
    let requests: Vec<_> = (0..1_000)
        .map(|number| lab.request(&format!("pay-{number}"), 1))
        .collect();
    let claims = answered(lab.store().claim(requests.clone().into()).await, "claim");
    assert!(
        claims
            .iter()
            .all(|claim| matches!(claim, Admission::Granted(_)))
    );
    let settlements: Vec<_> = requests
        .iter()
        .map(|request| semel_core::Settlement {
            operation: request.operation.clone(),
            claim_id: request.claim_id,
            step: complete(request.operation.key.as_str().to_owned()),
        })
        .collect();
    let _ = answered(lab.store().settle(settlements.into()).await, "settle");
    let lab = lab.reopen().await;
    assert_eq!(
        lab.list(&ListQuery {
            limit: 300,
            ..ListQuery::default()
        })
        .await
        .len(),
        1_000
    );
    for request in requests.iter().step_by(97) {
        let expected = outcome(request.operation.key.as_str().to_owned());
        lab.replays(
            &ClaimRequest {
                claim_id: semel_core::ClaimId::from_u128(2),
                ..request.clone()
            },
            &expected,
        )
        .await;
    }
}

/// Answers that tasks got at the same time are all there.
pub async fn answers_given_at_once_survive(lab: Lab) {
    let lab = Arc::new(lab);
    lab.race(32, |lab, number| async move {
        lab.finish(&lab.request(&format!("pay-{number}"), 1), complete("done"))
            .await;
    })
    .await;
    let Ok(lab) = Arc::try_unwrap(lab) else {
        panic!("a task still holds the lab")
    };
    let lab = lab.reopen().await;
    for number in 0..32 {
        lab.replays(&lab.request(&format!("pay-{number}"), 2), &outcome("done"))
            .await;
    }
}

/// A started effect is known to be started: no crash makes it new.
pub async fn a_marked_claim_survives(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    let lab = lab.reopen().await;
    let record = lab.stands(&claim.operation, StateKind::Started).await;
    assert_eq!(
        (record.claim_id, record.token),
        (claim.claim_id, claim.token)
    );
    assert_eq!(record.first_started_at, claim.first_started_at);
    lab.outlast_lease().await;
    lab.parked(&lab.marked("pay-1", 2, Recovery::Park), StateKind::InDoubt)
        .await;
}

/// A start by step is known as well.
pub async fn a_start_survives(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, start(Recovery::Park), StateKind::Started)
        .await;
    let lab = lab.reopen().await;
    lab.stands(&claim.operation, StateKind::Started).await;
}

/// Every recovery is remembered as it is. Its lease may have ended early: a store that one process
/// opens at a time knows that no claimant is left.
pub async fn every_recovery_survives(lab: Lab) {
    let within = Recovery::RerunWithin(Duration::from_millis(86_400_123));
    let recoveries = [Recovery::Rerun, Recovery::Park, within];
    let mut started = Vec::new();
    for (number, recovery) in recoveries.into_iter().enumerate() {
        let claim = lab
            .grant(&lab.marked(&format!("pay-{number}"), 1, recovery))
            .await;
        started.push(claim);
    }
    let lab = lab.reopen().await;
    for (claim, expected) in started.into_iter().zip(recoveries) {
        let record = lab.record(&claim.operation).await;
        let State::Started {
            recovery,
            lease_until,
        } = record.state
        else {
            panic!("should be started: {record:?}");
        };
        assert_eq!(
            (recovery, record.first_started_at),
            (expected, claim.first_started_at)
        );
        assert!(lease_until <= claim.lease_until, "no lease grows by itself");
    }
}

/// A claimant that lost its answer to the crash asks again, and goes on.
pub async fn a_marked_claim_is_resumed_after_reopening(lab: Lab) {
    let request = ClaimRequest {
        lease: Duration::from_secs(3_600),
        ..lab.marked("pay-1", 1, Recovery::Park)
    };
    let claim = lab.grant(&request).await;
    let lab = lab.reopen().await;
    let again = lab.grant(&request).await;
    assert!(again.resumed && again.token == claim.token);
    lab.settles(&again, complete("done"), StateKind::Completed)
        .await;
}

/// Attempts are counted over reopening.
pub async fn attempts_survive(mut lab: Lab) {
    for attempt in 1..=5 {
        let claim = lab
            .grant(&lab.marked("pay-1", attempt, Recovery::Rerun))
            .await;
        assert_eq!(u128::from(claim.attempt), attempt);
        let state = if attempt < 5 {
            StateKind::Released
        } else {
            StateKind::Dead
        };
        lab.settles(&claim, release(), state).await;
        lab = lab.reopen().await;
    }
    lab.parked(&lab.request("pay-1", 6), StateKind::Dead).await;
}

/// A backoff goes on after reopening.
pub async fn a_backoff_survives(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(
        &claim,
        release_after(Duration::from_secs(900)),
        StateKind::Released,
    )
    .await;
    let before = lab.record(&claim.operation).await;
    let lab = lab.reopen().await;
    assert_eq!(lab.record(&claim.operation).await, before);
    lab.busy(&lab.request("pay-1", 2)).await;
}

/// A dead operation stays dead, with its reason.
pub async fn a_death_survives(lab: Lab) {
    let claim = lab.grant(&lab.request("pay-1", 1)).await;
    lab.settles(&claim, fail(), StateKind::Dead).await;
    let before = lab.record(&claim.operation).await;
    let lab = lab.reopen().await;
    assert_eq!(lab.record(&claim.operation).await, before);
    lab.parked(&lab.request("pay-1", 2), StateKind::Dead).await;
}

/// A doubt stays a doubt, and late evidence still resolves it.
pub async fn a_doubt_survives(lab: Lab) {
    let claim = lab.doubt("pay-1").await;
    let before = lab.record(&claim.operation).await;
    let lab = lab.reopen().await;
    assert_eq!(lab.record(&claim.operation).await, before);
    lab.settles(&claim, complete("late"), StateKind::Completed)
        .await;
    let lab = lab.reopen().await;
    lab.replays(&lab.request("pay-1", 2), &outcome("late"))
        .await;
}

/// A doubt that the sweep found stays found.
pub async fn a_swept_doubt_survives(lab: Lab) {
    let claim = lab.grant(&lab.marked("pay-1", 1, Recovery::Park)).await;
    lab.outlast_lease().await;
    assert_eq!(lab.sweep().await.doubted, 1);
    let lab = lab.reopen().await;
    lab.stands(&claim.operation, StateKind::InDoubt).await;
}
