//! Statements that fail: alone, without a trace but their record.

use std::sync::Arc;

use semel_core::port::transactional::{Applied, TransactionalStore, Value};
use semel_core::{Admission, Backoff, ErrorKind, StateKind};

use super::ledger::{
    INSERT, INSERT_ONE, apply, apply_one, completed, failed, is_dead, number, payment, payments,
    rows, statements,
};
use crate::lab::{Lab, answered};
use crate::steps::limits_of;

/// One message fails: its statements are undone, the others stay.
pub async fn a_failing_message_fails_alone(lab: Lab) {
    lab.subject().make_table().await;
    for failing in 0..3 {
        let mut batch: Vec<_> = (0..3)
            .map(|at| payment(&lab, &format!("pay-{failing}-{at}"), 1, at))
            .collect();
        Arc::make_mut(&mut batch[failing].values)[1] = Value::Null;
        let answers = apply(&lab, &batch).await;
        for (at, answer) in answers.iter().enumerate() {
            if at == failing {
                let record = lab.stands(&batch[at].claim.operation, failed(answer)).await;
                assert!(record.last_error.is_some());
                assert_eq!((record.attempts, record.outcome), (1, None));
            } else {
                completed(answer);
            }
        }
    }
    assert_eq!(rows(&lab).await.len(), 6);
    // A message that is to be given back uses up no attempt, however it fails.
    let mut bad = payment(&lab, "given-back", 1, 1);
    Arc::make_mut(&mut bad.values)[1] = Value::Null;
    bad.gives_back = true;
    let state = failed(&apply_one(&lab, &bad).await);
    assert_eq!(state, StateKind::Released);
    assert_eq!(lab.stands(&bad.claim.operation, state).await.attempts, 0);
    let mended = payment(&lab, "given-back", 2, 1);
    completed(&apply_one(&lab, &mended).await);
}

/// The second statement fails: the first one is undone.
pub async fn a_failing_statement_undoes_those_before_it(lab: Lab) {
    lab.subject().make_table().await;
    let both = statements(&[INSERT_ONE, INSERT], &["account", "amount"]);
    let mut bad = payment(&lab, "bad", 1, 10);
    Arc::make_mut(&mut bad.values)[1] = Value::Null;
    let batch = [payment(&lab, "good", 1, 10), bad];
    let answers = answered(
        lab.subject()
            .transactional()
            .apply(&both, batch.clone().into())
            .await,
        "apply",
    );
    completed(&answers[0]);
    lab.stands(&batch[1].claim.operation, failed(&answers[1]))
        .await;
    let expected = [("good".to_owned(), 1), ("good".to_owned(), 10)];
    assert_eq!(rows(&lab).await, expected);
}

/// A failed message is dead at once if no other attempt can succeed, else tried again after its
/// backoff. The store decides which of the two a violated constraint is.
pub async fn a_failed_message_is_dead_or_tried_again_after_its_backoff(lab: Lab) {
    lab.subject().make_table().await;
    let mut message = payment(&lab, "pay-1", 1, 10);
    Arc::make_mut(&mut message.values)[1] = Value::Null;
    message.backoff = Backoff {
        first: lab.lease() * 2,
        most: lab.lease() * 2,
    };
    let answer = apply_one(&lab, &message).await;
    let state = failed(&answer);
    if let Applied::Failed {
        not_before,
        now,
        error,
        ..
    } = answer
    {
        assert!(
            state == StateKind::Dead || not_before > now,
            "the backoff lies ahead"
        );
        assert!(
            !error.is_empty() && !error.contains('\n'),
            "{error:?} is one line"
        );
    }
    Arc::make_mut(&mut message.values)[1] = number(10);
    let again = apply_one(&lab, &message).await;
    if state == StateKind::Dead {
        assert!(is_dead(&again), "{again:?}");
        return;
    }
    assert!(
        matches!(again, Applied::NotGranted(Admission::Busy { .. })),
        "{again:?}"
    );
    lab.advance(lab.lease() * 3).await;
    completed(&apply_one(&lab, &message).await);
    assert_eq!(lab.record(&message.claim.operation).await.attempts, 2);
    assert_eq!(rows(&lab).await.len(), 1);
}

/// At its cap, at the latest, a failing message is dead, and leaves no row.
pub async fn a_message_that_keeps_failing_is_dead(lab: Lab) {
    lab.subject().make_table().await;
    let mut message = payment(&lab, "pay-1", 1, 10);
    Arc::make_mut(&mut message.values)[1] = Value::Null;
    message.claim.limits = limits_of(2, 20);
    if failed(&apply_one(&lab, &message).await) == StateKind::Released {
        assert_eq!(failed(&apply_one(&lab, &message).await), StateKind::Dead);
    }
    let answer = apply_one(&lab, &message).await;
    assert!(is_dead(&answer), "{answer:?}");
    assert_eq!(rows(&lab).await.len(), 0);
}

/// Mistakes in statements are found before work begins.
pub async fn mistakes_are_found_before_work_begins(lab: Lab) {
    lab.subject().make_table().await;
    let store = lab.subject().transactional();
    answered(store.prepare(&payments()).await, "prepare");
    for wrong in [
        statements(&["INSRT INTO semel_laws_ledger VALUES (1, 2)"], &[]),
        statements(
            &["INSERT INTO semel_laws_no_such_table VALUES (:account)"],
            &["account"],
        ),
        statements(
            &["INSERT INTO semel_laws_ledger (account, amount) VALUES (:account, :amont)"],
            &["account", "amount"],
        ),
    ] {
        match store.prepare(&wrong).await {
            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}"),
            Ok(()) => panic!("{:?} should be refused", wrong.sql),
        }
    }
    assert_eq!(rows(&lab).await.len(), 0, "preparing runs nothing");
}
