//! Transactions: effect and record together, one message's failure alone.

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::transactional::{Applied, TransactionalStore};
use semel_core::{Admission, Fingerprint, StateKind, Timestamp};

use super::ledger::{
    INSERT, INSERT_MIRROR, apply, apply_one, completed, payment, payments, rows, statements,
};
use crate::lab::{Lab, answered, gate};

/// One message, one row, one record.
pub async fn an_effect_commits_with_its_record(lab: Lab) {
    lab.subject().make_table().await;
    completed(&apply_one(&lab, &payment(&lab, "pay-1", 1, 10)).await);
    assert_eq!(rows(&lab).await, [("pay-1".to_owned(), 10)]);
    let record = lab
        .stands(&lab.request("pay-1", 1).operation, StateKind::Completed)
        .await;
    assert_eq!(record.attempts, 1);
}

/// A duplicate changes nothing.
pub async fn a_duplicate_is_not_applied_again(lab: Lab) {
    lab.subject().make_table().await;
    completed(&apply_one(&lab, &payment(&lab, "pay-1", 1, 10)).await);
    for claimant in [1, 2] {
        let answer = apply_one(&lab, &payment(&lab, "pay-1", claimant, 10)).await;
        assert!(
            matches!(answer, Applied::NotGranted(Admission::Replay { .. })),
            "{answer:?}"
        );
    }
    assert_eq!(rows(&lab).await.len(), 1);
}

/// Several statements of one message commit together.
pub async fn all_statements_of_a_message_commit_together(lab: Lab) {
    lab.subject().make_table().await;
    let transfer = statements(&[INSERT, INSERT_MIRROR], &["account", "amount"]);
    let batch = [payment(&lab, "pay-1", 1, 10)];
    let answers = answered(
        lab.subject()
            .transactional()
            .apply(&transfer, batch.into())
            .await,
        "apply",
    );
    completed(&answers[0]);
    let expected = [("mirror".to_owned(), 10), ("pay-1".to_owned(), 10)];
    assert_eq!(rows(&lab).await, expected);
}

/// A batch is one transaction with as many rows as messages.
pub async fn a_batch_is_applied_in_one_call(lab: Lab) {
    lab.subject().make_table().await;
    let batch: Vec<_> = (0..200)
        .map(|at| payment(&lab, &format!("pay-{at:03}"), 1, at))
        .collect();
    let answers = apply(&lab, &batch).await;
    assert_eq!(answers.len(), 200);
    answers.iter().for_each(completed);
    let rows = rows(&lab).await;
    assert_eq!(rows.len(), 200);
    assert!(
        (0..)
            .zip(&rows)
            .all(|(at, (name, amount))| { *amount == at && *name == format!("pay-{at:03}") })
    );
}

/// One key twice in a batch is applied once.
pub async fn a_key_twice_in_a_batch_is_applied_once(lab: Lab) {
    lab.subject().make_table().await;
    let batch = [
        payment(&lab, "pay-1", 1, 10),
        payment(&lab, "pay-2", 1, 20),
        payment(&lab, "pay-1", 2, 10),
    ];
    let answers = apply(&lab, &batch).await;
    completed(&answers[0]);
    completed(&answers[1]);
    assert!(
        matches!(&answers[2], Applied::NotGranted(Admission::Replay { .. })),
        "{answers:?}"
    );
    assert_eq!(rows(&lab).await.len(), 2);
}

/// Sixteen workers apply the same message at once.
pub async fn a_message_applied_16_times_at_once_is_applied_once(lab: Lab) {
    lab.subject().make_table().await;
    let lab = Arc::new(lab);
    let answers = lab
        .race(16, |lab, number| async move {
            apply_one(&lab, &payment(&lab, "pay-1", u128::from(number), 10)).await
        })
        .await;
    let completed = answers
        .iter()
        .filter(|it| matches!(it, Applied::Completed { .. }));
    assert_eq!(completed.count(), 1, "{answers:?}");
    assert_eq!(rows(&lab).await.len(), 1);
}

/// Workers that apply overlapping batches in opposite orders do each message once.
pub async fn overlapping_batches_are_applied_once(lab: Lab) {
    lab.subject().make_table().await;
    let lab = Arc::new(lab);
    lab.race(4, |lab, number| async move {
        let one = |at| payment(&lab, &format!("pay-{at:02}"), u128::from(number), at);
        let mut batch: Vec<_> = (0..30).map(one).collect();
        if number % 2 == 1 {
            batch.reverse();
        }
        // A server may answer one of them with a deadlock; the case then asks again.
        for _ in 0..20 {
            if lab
                .subject()
                .transactional()
                .apply(&payments(), batch.clone().into())
                .await
                .is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the batch could not be applied in 20 tries");
    })
    .await;
    assert_eq!(rows(&lab).await.len(), 30);
}

/// A key that is claimed by a worker outside is busy inside.
pub async fn a_claimed_key_is_not_applied(lab: Lab) {
    lab.subject().make_table().await;
    let _ = lab.grant(&lab.request("pay-1", 9)).await;
    let answer = apply_one(&lab, &payment(&lab, "pay-1", 1, 10)).await;
    assert!(
        matches!(answer, Applied::NotGranted(Admission::Busy { .. })),
        "{answer:?}"
    );
    assert_eq!(rows(&lab).await.len(), 0);
}

/// A lease that ended outside is taken over inside.
pub async fn a_vanished_claim_is_taken_over(lab: Lab) {
    lab.subject().make_table().await;
    let _ = lab.grant(&lab.request("pay-1", 9)).await;
    lab.outlast_lease().await;
    let answer = apply_one(&lab, &payment(&lab, "pay-1", 1, 10)).await;
    assert!(
        matches!(answer, Applied::Completed { takeover: true }),
        "{answer:?}"
    );
}

/// Another request under the same key, and a message that is too old, run nothing.
pub async fn conflicts_and_old_messages_run_nothing(lab: Lab) {
    lab.subject().make_table().await;
    let printed = |claimant: u8| {
        let mut payment = payment(&lab, "pay-1", u128::from(claimant), 10);
        payment.claim.fingerprint = Some(Fingerprint {
            scheme: 1,
            digest: [claimant; 16],
        });
        payment
    };
    let mut old = payment(&lab, "pay-2", 1, 10);
    old.claim.birth = Some(Timestamp::EPOCH);
    let answers = apply(&lab, &[printed(1), printed(2), old]).await;
    completed(&answers[0]);
    assert!(
        matches!(&answers[1], Applied::NotGranted(Admission::Conflict { .. })),
        "{answers:?}"
    );
    assert!(
        matches!(&answers[2], Applied::NotGranted(Admission::TooOld)),
        "{answers:?}"
    );
    assert_eq!(rows(&lab).await.len(), 1);
}

/// An older version of an entity runs nothing.
pub async fn a_stale_version_runs_nothing(lab: Lab) {
    lab.subject().make_table().await;
    let gated = |version: u64| {
        let key = format!("cart at {version}");
        let mut payment = payment(&lab, &key, u128::from(version), 10);
        payment.claim.gate = Some(gate("cart", version));
        payment
    };
    let answers = apply(&lab, &[gated(2), gated(1), gated(3)]).await;
    completed(&answers[0]);
    let stale = Applied::NotGranted(Admission::Stale { applied: 2 });
    assert_eq!(format!("{:?}", answers[1]), format!("{stale:?}"));
    completed(&answers[2]);
    assert_eq!(rows(&lab).await.len(), 2);
}

/// Values are values, whatever characters they have.
pub async fn values_are_never_code(lab: Lab) {
    lab.subject().make_table().await;
    let names = [
        "it's",
        "\"x\"",
        "a:account",
        "'; DROP TABLE semel_laws_ledger; --",
        "ä\u{1f4a5}",
    ];
    for name in names {
        completed(&apply_one(&lab, &payment(&lab, name, 1, i64::MIN + 1)).await);
    }
    let mut expected = names.map(|name| (name.to_owned(), i64::MIN + 1));
    expected.sort();
    assert_eq!(rows(&lab).await, expected);
}

/// Nothing to apply, nothing applied.
pub async fn an_empty_batch_applies_nothing(lab: Lab) {
    lab.subject().make_table().await;
    assert!(apply(&lab, &[]).await.is_empty());
    assert_eq!(lab.stats().await.records, [0; 6]);
}

/// Effect and record survive reopening together.
pub async fn an_applied_effect_survives(lab: Lab) {
    lab.subject().make_table().await;
    let batch: Vec<_> = (0..10)
        .map(|at| payment(&lab, &format!("pay-{at}"), 1, at))
        .collect();
    apply(&lab, &batch).await.iter().for_each(completed);
    let lab = lab.reopen().await;
    let answers = apply(&lab, &batch).await;
    let replayed = |it: &&Applied| matches!(it, Applied::NotGranted(Admission::Replay { .. }));
    assert_eq!(answers.iter().filter(replayed).count(), 10);
    assert_eq!(rows(&lab).await.len(), 10);
}
