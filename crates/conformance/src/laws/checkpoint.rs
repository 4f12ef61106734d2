//! Checkpoints: settlements and a mark, together or not at all.

use std::sync::Arc;

use semel_core::port::checkpoint::{CheckpointStore, Together};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Mark, Settled, Settlement, StateKind, Step, Store,
};

use crate::lab::{Lab, answered, gate};
use crate::steps::{complete, outcome, release};

/// A mark that was never set is absent, not zero.
pub async fn a_mark_is_absent_until_it_is_set(lab: Lab) {
    assert_eq!(mark(&lab, "out").await, None);
    assert!(applied(together(&lab, &[], "out", 0).await).is_empty());
    assert_eq!(mark(&lab, "out").await, Some(0));
}

/// All mine → all settled, and the mark with them.
pub async fn a_batch_is_settled_with_its_mark(lab: Lab) {
    let batch = claimed(&lab, 20).await;
    let answers = applied(together(&lab, &batch, "out", 4_096).await);
    assert_eq!(answers.len(), 20);
    assert!(
        answers
            .iter()
            .all(|it| matches!(it, Settled::Now(StateKind::Completed)))
    );
    assert_eq!(mark(&lab, "out").await, Some(4_096));
    for settlement in &batch {
        lab.stands(&settlement.operation, StateKind::Completed)
            .await;
    }
}

/// One of them fenced → nothing settled, and the mark where it was.
pub async fn a_batch_with_a_fenced_item_changes_nothing(lab: Lab) {
    applied(together(&lab, &[], "out", 7).await);
    for fenced in [0, 3, 6] {
        let mut batch = claimed(&lab, 7).await;
        batch[fenced].claim_id = ClaimId::from_u128(99);
        match together(&lab, &batch, "out", 8).await {
            Together::Refused(answers) => {
                assert_eq!(answers.len(), 7);
                assert!(
                    matches!(answers[fenced], Settled::Fenced { .. }),
                    "{answers:?}"
                );
            }
            Together::Applied(answers) => panic!("a fenced item was applied: {answers:?}"),
        }
        assert_eq!(mark(&lab, "out").await, Some(7));
        for settlement in &batch {
            let record = lab.stands(&settlement.operation, StateKind::Claimed).await;
            assert_eq!(record.outcome, None);
        }
    }
}

/// A refused batch can be settled without its fenced item.
pub async fn a_refused_batch_can_be_mended(lab: Lab) {
    let mut batch = claimed(&lab, 5).await;
    batch[2].claim_id = ClaimId::from_u128(99);
    assert!(matches!(
        together(&lab, &batch, "out", 8).await,
        Together::Refused(_)
    ));
    batch.remove(2);
    assert_eq!(applied(together(&lab, &batch, "out", 8).await).len(), 4);
    assert_eq!(mark(&lab, "out").await, Some(8));
}

/// The answer was lost, so everything is sent again.
pub async fn settling_together_twice_is_harmless(lab: Lab) {
    let batch = claimed(&lab, 5).await;
    applied(together(&lab, &batch, "out", 8).await);
    applied(together(&lab, &batch, "out", 8).await);
    assert_eq!(mark(&lab, "out").await, Some(8));
    lab.replays(&lab.request("pay-0", 9), &outcome("done"))
        .await;
}

/// A batch may hold every step, and one claim's steps in a row.
pub async fn a_batch_may_mix_steps(lab: Lab) {
    let mut batch = claimed(&lab, 3).await;
    batch[1].step = release();
    let started = Settlement {
        step: crate::steps::start(semel_core::Recovery::Park),
        ..batch[2].clone()
    };
    batch.insert(2, started);
    let answers = applied(together(&lab, &batch, "out", 1).await);
    let states = [
        StateKind::Completed,
        StateKind::Released,
        StateKind::Started,
        StateKind::Completed,
    ];
    for (answer, expected) in answers.iter().zip(states) {
        assert!(
            matches!(answer, Settled::Now(state) if *state == expected),
            "{answers:?}"
        );
    }
}

/// A refused batch leaves the version gate as it was.
pub async fn a_refused_batch_leaves_the_version_gate_alone(lab: Lab) {
    let gated = ClaimRequest {
        gate: Some(gate("cart", 5)),
        ..lab.request("cart at 5", 1)
    };
    let claim = lab.grant(&gated).await;
    let good = settlement(&gated, complete("done"));
    let fenced = Settlement {
        claim_id: ClaimId::from_u128(99),
        ..good.clone()
    };
    assert!(matches!(
        together(&lab, &[good.clone(), fenced], "out", 1).await,
        Together::Refused(_)
    ));
    let next = ClaimRequest {
        gate: Some(gate("cart", 6)),
        ..lab.request("cart at 6", 2)
    };
    assert_eq!(lab.busy(&next).await, claim.lease_until);
    applied(together(&lab, &[good], "out", 1).await);
    let stale = ClaimRequest {
        gate: Some(gate("cart", 5)),
        ..lab.request("another", 3)
    };
    lab.stale(&stale, 5).await;
}

/// Marks know nothing of each other, however alike their names.
pub async fn marks_are_told_apart_by_name(lab: Lab) {
    let names = ["out", "OUT", "out ", "öut", "o%", "out/1", "'", ""];
    for (value, name) in (10..).zip(names) {
        applied(together(&lab, &[], name, value).await);
    }
    for (value, name) in (10..).zip(names) {
        assert_eq!(mark(&lab, name).await, Some(value), "{name:?}");
    }
}

/// A mark is what was written last, up or down, in all 64 bits.
pub async fn a_mark_is_what_was_written_last(lab: Lab) {
    for value in [1, u64::MAX, i64::MAX as u64 + 1, 0, 42] {
        applied(together(&lab, &[], "out", value).await);
        assert_eq!(mark(&lab, "out").await, Some(value));
    }
}

/// Eight tasks settle with marks of their own at the same time.
pub async fn checkpoints_at_once_do_not_disturb_each_other(lab: Lab) {
    let lab = Arc::new(lab);
    lab.race(8, |lab, number| async move {
        let name = format!("out-{number}");
        for round in 0..5_u64 {
            let request = lab.request(&format!("pay-{number}-{round}"), u128::from(number));
            let _ = lab.grant(&request).await;
            let batch = [settlement(&request, complete("done"))];
            applied(together(&lab, &batch, &name, round).await);
            assert_eq!(mark(&lab, &name).await, Some(round));
        }
    })
    .await;
    assert_eq!(lab.stats().await.records.iter().sum::<u64>(), 40);
}

/// Mark and settlements survive reopening together.
pub async fn a_checkpoint_survives(lab: Lab) {
    let batch = claimed(&lab, 5).await;
    applied(together(&lab, &batch, "out", u64::MAX).await);
    let lab = lab.reopen().await;
    assert_eq!(mark(&lab, "out").await, Some(u64::MAX));
    for settlement in &batch {
        lab.stands(&settlement.operation, StateKind::Completed)
            .await;
    }
    applied(together(&lab, &batch, "out", 9).await);
    let lab = lab.reopen().await;
    assert_eq!(mark(&lab, "out").await, Some(9));
}

/// A refused checkpoint leaves nothing behind over reopening either.
pub async fn a_refused_checkpoint_leaves_nothing(lab: Lab) {
    let request = lab.marked("pay-1", 1, semel_core::Recovery::Park);
    let _ = lab.grant(&request).await;
    applied(together(&lab, &[], "out", 7).await);
    let good = settlement(&request, complete("done"));
    let fenced = settlement(&lab.request("absent", 9), complete("done"));
    assert!(matches!(
        together(&lab, &[good, fenced], "out", 8).await,
        Together::Refused(_)
    ));
    let lab = lab.reopen().await;
    assert_eq!(mark(&lab, "out").await, Some(7));
    lab.stands(&request.operation, StateKind::Started).await;
}

/// Completions of `count` operations that are claimed now.
async fn claimed(lab: &Lab, count: usize) -> Vec<Settlement> {
    let requests: Vec<_> = (0..count)
        .map(|number| lab.request(&format!("pay-{number}"), 1))
        .collect();
    let claims = answered(lab.store().claim(requests.clone().into()).await, "claim");
    assert!(
        claims
            .iter()
            .all(|claim| matches!(claim, Admission::Granted(_))),
        "{claims:?}"
    );
    requests
        .iter()
        .map(|request| settlement(request, complete("done")))
        .collect()
}

fn settlement(request: &ClaimRequest, step: Step) -> Settlement {
    Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step,
    }
}

async fn together(lab: &Lab, batch: &[Settlement], name: &str, value: u64) -> Together {
    let mark = Mark {
        name: name.into(),
        value,
    };
    answered(
        lab.subject()
            .checkpoint()
            .settle_with(batch.into(), &mark)
            .await,
        "settle_with",
    )
}

pub(super) async fn mark(lab: &Lab, name: &str) -> Option<u64> {
    answered(lab.subject().checkpoint().mark(name).await, "mark")
}

fn applied(together: Together) -> Vec<Settled> {
    match together {
        Together::Applied(answers) => answers,
        Together::Refused(answers) => panic!("the batch should be applied, got {answers:?}"),
    }
}
