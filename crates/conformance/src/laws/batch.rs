//! Batches: answers in order, each item on its own.

use semel_core::decide::{Directed, Directive, Order, Refusal};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Fingerprint, Operation, Recovery, Renewal, Renewed, Settled,
    Settlement, StateKind, Step, Store,
};

use crate::lab::{Lab, answered, gate};
use crate::steps::{complete, outcome, release};

/// Nothing asked, nothing answered, nothing done.
pub async fn an_empty_batch_is_answered_empty(lab: Lab) {
    let store = lab.store();
    assert_eq!(answered(store.claim([].into()).await, "claim").len(), 0);
    assert_eq!(answered(store.settle([].into()).await, "settle").len(), 0);
    assert_eq!(answered(store.renew([].into()).await, "renew").len(), 0);
    assert_eq!(answered(store.park([].into()).await, "park").len(), 0);
    assert_eq!(
        answered(store.drop_parked([].into(), None).await, "drop_parked").len(),
        0
    );
    assert_eq!(answered(store.get([].into()).await, "get").len(), 0);
    assert_eq!(answered(store.operate([].into()).await, "operate").len(), 0);
    assert_eq!(lab.stats().await.records, [0; 6]);
}

/// A thousand keys are claimed, settled and read in one call each.
pub async fn a_batch_of_1000_is_answered_in_order(lab: Lab) {
    let requests: Vec<_> = (0..1_000_u32)
        .map(|number| ClaimRequest {
            lease: std::time::Duration::from_secs(3_600),
            ..lab.request(
                &format!("pay-{}", number * 7_919 % 1_000),
                u128::from(number),
            )
        })
        .collect();
    let claims = answered(lab.store().claim(requests.clone().into()).await, "claim");
    assert_eq!(claims.len(), 1_000);
    for (request, claim) in requests.iter().zip(&claims) {
        match claim {
            Admission::Granted(claim) => assert_eq!(claim.operation, request.operation),
            other => panic!("a fresh key should be granted, got {other:?}"),
        }
    }
    let settlements: Vec<_> = requests
        .iter()
        .map(|it| completion(it, &own_outcome(it)))
        .collect();
    let settled = answered(lab.store().settle(settlements.into()).await, "settle");
    assert_eq!(settled.len(), 1_000);
    assert!(
        settled
            .iter()
            .all(|it| matches!(it, Settled::Now(StateKind::Completed)))
    );
    let operations: Vec<_> = requests.iter().map(|it| it.operation.clone()).collect();
    let records = answered(lab.store().get(operations.into()).await, "get");
    for (request, record) in requests.iter().zip(records) {
        let found = record.and_then(|record| record.outcome);
        assert_eq!(found, Some(outcome(own_outcome(request))));
    }
}

/// Every kind of answer in one batch, each in its place.
pub async fn a_mixed_batch_is_answered_in_order(lab: Lab) {
    lab.finish(&lab.request("completed", 1), complete("done"))
        .await;
    let dead = lab.death("dead").await;
    let held = lab.grant(&lab.request("held", 1)).await;
    let printed = Some(Fingerprint {
        scheme: 1,
        digest: [1; 16],
    });
    let taken = ClaimRequest {
        fingerprint: printed,
        ..lab.request("printed", 1)
    };
    lab.finish(&taken, complete("done")).await;
    let other = Some(Fingerprint {
        scheme: 1,
        digest: [2; 16],
    });
    let batch = [
        lab.request("fresh", 2),
        lab.request("completed", 2),
        lab.request("dead", 2),
        ClaimRequest {
            fingerprint: other,
            ..lab.request("printed", 2)
        },
        lab.request("held", 2),
        lab.request("fresh too", 2),
    ];
    let answers = answered(lab.store().claim(batch.clone().into()).await, "claim");
    assert_eq!(answers.len(), 6);
    assert!(matches!(&answers[0], Admission::Granted(it) if it.operation == batch[0].operation));
    assert!(matches!(&answers[1], Admission::Replay { .. }));
    assert!(matches!(
        &answers[2],
        Admission::Parked {
            state: StateKind::Dead,
            ..
        }
    ));
    assert!(matches!(&answers[3], Admission::Conflict { .. }));
    assert!(matches!(&answers[4], Admission::Busy { until, .. } if *until == held.lease_until));
    assert!(matches!(&answers[5], Admission::Granted(it) if it.operation == batch[5].operation));
    lab.stands(&dead.operation, StateKind::Dead).await;
}

/// One stale claim among many fences itself alone.
pub async fn one_fenced_settlement_fences_itself_alone(lab: Lab) {
    let requests: Vec<_> = (0..9)
        .map(|number| lab.request(&format!("pay-{number}"), 1))
        .collect();
    let _ = answered(lab.store().claim(requests.clone().into()).await, "claim");
    let mut batch: Vec<_> = requests.iter().map(|it| completion(it, "done")).collect();
    batch[4].claim_id = ClaimId::from_u128(2);
    let answers = answered(lab.store().settle(batch.into()).await, "settle");
    for (number, (answer, request)) in answers.iter().zip(&requests).enumerate() {
        if number == 4 {
            assert!(matches!(
                answer,
                Settled::Fenced {
                    found: Some(StateKind::Claimed)
                }
            ));
            lab.stands(&request.operation, StateKind::Claimed).await;
        } else {
            assert!(matches!(answer, Settled::Now(StateKind::Completed)));
            lab.stands(&request.operation, StateKind::Completed).await;
        }
    }
}

/// One lost claim among renewals is lost alone.
pub async fn one_lost_renewal_is_lost_alone(lab: Lab) {
    let requests: Vec<_> = (0..5)
        .map(|number| lab.request(&format!("pay-{number}"), 1))
        .collect();
    let _ = answered(lab.store().claim(requests.clone().into()).await, "claim");
    let renewal = |(number, request): (usize, &ClaimRequest)| Renewal {
        operation: request.operation.clone(),
        claim_id: ClaimId::from_u128(if number == 2 { 9 } else { 1 }),
        lease: lab.lease(),
    };
    let batch: Vec<_> = requests.iter().enumerate().map(renewal).collect();
    let answers = answered(lab.store().renew(batch.into()).await, "renew");
    let lost: Vec<_> = answers
        .iter()
        .map(|it| matches!(it, Renewed::Lost { .. }))
        .collect();
    assert_eq!(lost, [false, false, true, false, false]);
}

/// Reading keeps its order, with absent keys and repeats in between.
pub async fn a_mixed_read_is_answered_in_order(lab: Lab) {
    for key in ["a", "b"] {
        lab.finish(&lab.request(key, 1), complete(key)).await;
    }
    let operations = ["b", "absent", "a", "b"].map(|key| lab.request(key, 1).operation);
    let found = answered(lab.store().get(operations.into()).await, "get");
    let found: Vec<_> = found
        .into_iter()
        .map(|it| it.and_then(|it| it.outcome))
        .collect();
    assert_eq!(
        found,
        [
            Some(outcome("b")),
            None,
            Some(outcome("a")),
            Some(outcome("b"))
        ]
    );
}

/// Orders keep their order, with refused ones in between.
pub async fn mixed_orders_are_answered_in_order(lab: Lab) {
    lab.finish(&lab.request("completed", 1), complete("done"))
        .await;
    let _ = lab.grant(&lab.request("claimed", 1)).await;
    let forget = |key| Directive {
        operation: lab.request(key, 1).operation,
        order: Order::Forget,
        note: None,
    };
    let batch = [
        forget("absent"),
        forget("completed"),
        forget("claimed"),
        forget("completed"),
    ];
    let answers = answered(lab.store().operate(batch.into()).await, "operate");
    assert!(matches!(answers[0], Directed::Refused(Refusal::Absent)));
    assert!(matches!(answers[1], Directed::Now(None)));
    assert!(matches!(
        answers[2],
        Directed::Refused(Refusal::State(StateKind::Claimed))
    ));
    assert!(matches!(answers[3], Directed::Refused(Refusal::Absent)));
}

/// The first of two claimants in a batch is granted, the second finds it busy.
pub async fn a_key_twice_in_a_batch_is_granted_once(lab: Lab) {
    let batch = [
        lab.request("pay-1", 1),
        lab.request("pay-2", 1),
        lab.request("pay-1", 2),
    ];
    let answers = answered(lab.store().claim(batch.clone().into()).await, "claim");
    assert!(matches!(&answers[0], Admission::Granted(claim) if !claim.resumed));
    assert!(matches!(&answers[1], Admission::Granted(_)));
    assert!(matches!(&answers[2], Admission::Busy { .. }));
    let record = lab.record(&batch[0].operation).await;
    assert_eq!(
        (record.claim_id, record.attempts),
        (ClaimId::from_u128(1), 1)
    );
}

/// The same request twice in a batch is one claim.
pub async fn a_request_twice_in_a_batch_is_resumed(lab: Lab) {
    let batch = [lab.request("pay-1", 1), lab.request("pay-1", 1)];
    let answers = answered(lab.store().claim(batch.clone().into()).await, "claim");
    let [Admission::Granted(first), Admission::Granted(second)] = &answers[..] else {
        panic!("both should be granted, got {answers:?}");
    };
    assert!(!first.resumed && second.resumed);
    assert_eq!(first.token, second.token);
    assert_eq!(lab.record(&batch[0].operation).await.attempts, 1);
}

/// Two requests under one key in a batch: the first one wins, the second is a conflict.
pub async fn a_reused_key_in_a_batch_conflicts(lab: Lab) {
    let printed = |claimant: u8| ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 1,
            digest: [claimant; 16],
        }),
        ..lab.request("pay-1", u128::from(claimant))
    };
    let answers = answered(
        lab.store().claim([printed(1), printed(2)].into()).await,
        "claim",
    );
    assert!(matches!(answers[0], Admission::Granted(_)));
    assert!(matches!(answers[1], Admission::Conflict { .. }));
}

/// Two versions of one entity in a batch: the first one works, the second waits.
pub async fn an_entity_twice_in_a_batch_is_busy(lab: Lab) {
    let gated = |key, version| ClaimRequest {
        gate: Some(gate("cart", version)),
        ..lab.request(key, u128::from(version))
    };
    let batch = [gated("first", 1), gated("second", 2)];
    let answers = answered(lab.store().claim(batch.into()).await, "claim");
    assert!(matches!(answers[0], Admission::Granted(_)));
    assert!(matches!(answers[1], Admission::Busy { .. }));
}

/// Two completions of one claim in a batch: the first outcome stays.
pub async fn a_completion_twice_in_a_batch_is_harmless(lab: Lab) {
    let request = lab.request("pay-1", 1);
    let _ = lab.grant(&request).await;
    let batch = [
        completion(&request, "first"),
        completion(&request, "second"),
    ];
    let answers = answered(lab.store().settle(batch.into()).await, "settle");
    assert!(
        answers
            .iter()
            .all(|it| matches!(it, Settled::Now(StateKind::Completed)))
    );
    assert_eq!(
        lab.record(&request.operation).await.outcome,
        Some(outcome("first"))
    );
}

/// Steps of one claim in a batch happen one after the other.
pub async fn steps_of_one_claim_in_a_batch_follow_each_other(lab: Lab) {
    let request = lab.request("pay-1", 1);
    let _ = lab.grant(&request).await;
    let steps = [
        crate::steps::start(Recovery::Park),
        complete("done"),
        release(),
    ];
    let batch = steps.map(|step| settlement(&request.operation, request.claim_id, step));
    let answers = answered(lab.store().settle(batch.into()).await, "settle");
    assert!(matches!(answers[0], Settled::Now(StateKind::Started)));
    assert!(matches!(answers[1], Settled::Now(StateKind::Completed)));
    assert!(matches!(
        answers[2],
        Settled::Fenced {
            found: Some(StateKind::Completed)
        }
    ));
}

/// A version that was applied by the first of two settlements counts for later claims.
pub async fn settlements_of_one_entity_in_a_batch_add_up(lab: Lab) {
    let gated = |version: u64| ClaimRequest {
        gate: Some(gate("cart", version)),
        lease: std::time::Duration::ZERO,
        ..lab.request(&format!("cart at {version}"), u128::from(version))
    };
    let requests = [gated(3), gated(2)];
    let claims = answered(lab.store().claim(requests.clone().into()).await, "claim");
    assert!(
        claims.iter().all(|it| matches!(it, Admission::Granted(_))),
        "{claims:?}"
    );
    let batch: Vec<_> = requests.iter().map(|it| completion(it, "done")).collect();
    let settled = answered(lab.store().settle(batch.into()).await, "settle");
    assert!(
        settled
            .iter()
            .all(|it| matches!(it, Settled::Now(StateKind::Completed)))
    );
    lab.stale(
        &ClaimRequest {
            gate: Some(gate("cart", 3)),
            ..lab.request("late", 9)
        },
        3,
    )
    .await;
}

fn settlement(operation: &Operation, claim_id: ClaimId, step: Step) -> Settlement {
    Settlement {
        operation: operation.clone(),
        claim_id,
        step,
    }
}

fn completion(request: &ClaimRequest, bytes: &str) -> Settlement {
    settlement(
        &request.operation,
        request.claim_id,
        complete(bytes.to_owned()),
    )
}

fn own_outcome(request: &ClaimRequest) -> String {
    format!("outcome of {}", request.operation.key)
}
