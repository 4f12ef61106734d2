//! The table of the transactional laws, and messages that insert into it.

use std::time::Duration;

use semel_core::port::transactional::{
    Application, Applied, Statements, TransactionalStore, Value,
};
use semel_core::{Admission, Backoff, StateKind};

use crate::lab::{Lab, answered};
use crate::steps::LONG_WINDOW;

pub(super) async fn apply(lab: &Lab, batch: &[Application]) -> Vec<Applied> {
    answered(
        lab.subject()
            .transactional()
            .apply(&payments(), batch.into())
            .await,
        "apply",
    )
}

pub(super) async fn apply_one(lab: &Lab, message: &Application) -> Applied {
    let mut answers = apply(lab, std::slice::from_ref(message)).await;
    assert_eq!(answers.len(), 1, "one message, one answer");
    answers.remove(0)
}

/// The rows in the order of their names.
pub(super) async fn rows(lab: &Lab) -> Vec<(String, i64)> {
    let mut rows = lab.subject().rows().await;
    rows.sort();
    rows
}

pub(super) fn completed(answer: &Applied) {
    assert!(
        matches!(answer, Applied::Completed { .. }),
        "should be applied, got {answer:?}"
    );
}

pub(super) fn is_dead(answer: &Applied) -> bool {
    matches!(
        answer,
        Applied::NotGranted(Admission::Parked {
            state: StateKind::Dead,
            ..
        })
    )
}

pub(super) fn failed(answer: &Applied) -> StateKind {
    match answer {
        Applied::Failed {
            state: state @ (StateKind::Released | StateKind::Dead),
            ..
        } => *state,
        other => panic!("should fail, got {other:?}"),
    }
}

/// A message that inserts its own key and `amount`.
pub(super) fn payment(lab: &Lab, key: &str, claimant: u128, amount: i64) -> Application {
    Application {
        claim: lab.request(key, claimant),
        values: vec![Value::Text(key.into()), number(amount)].into(),
        window: LONG_WINDOW,
        backoff: Backoff {
            first: Duration::ZERO,
            most: Duration::ZERO,
        },
        gives_back: false,
    }
}

pub(super) fn number(number: i64) -> Value {
    Value::Number(number.to_string().into())
}

pub(super) fn payments() -> Statements {
    statements(&[INSERT], &["account", "amount"])
}

pub(super) fn statements(sql: &[&str], params: &[&str]) -> Statements {
    let shared = |texts: &[&str]| texts.iter().map(|&text| Box::from(text)).collect();
    Statements {
        sql: shared(sql),
        params: shared(params),
    }
}

pub(super) const INSERT: &str =
    "INSERT INTO semel_laws_ledger (account, amount) VALUES (:account, :amount)";
pub(super) const INSERT_MIRROR: &str =
    "INSERT INTO semel_laws_ledger (account, amount) VALUES ('mirror', :amount)";
pub(super) const INSERT_ONE: &str =
    "INSERT INTO semel_laws_ledger (account, amount) VALUES (:account, 1)";
