//! The inbox: effect and record in the user's own transaction.

use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use semel_core::{Admission, Certainty, Claim, Outcome, Settled, StateKind, Store, Window};

use crate::lab::{Lab, operation, request};

fn begin(connection: &mut Connection) -> Transaction<'_> {
    connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .expect("a transaction")
}

fn granted(admission: Admission) -> Claim {
    match admission {
        Admission::Granted(claim) => claim,
        other => panic!("not granted: {other:?}"),
    }
}

fn pay(transaction: &Transaction<'_>) {
    transaction
        .execute("INSERT INTO payments VALUES ('pay-1')", [])
        .expect("an effect");
}

fn payments(connection: &Connection) -> i64 {
    let count = "SELECT count(*) FROM payments";
    connection
        .query_row(count, [], |row| row.get(0))
        .expect("a count")
}

fn lab() -> (Lab, Connection) {
    let lab = Lab::new();
    let connection = lab.connection();
    connection
        .execute_batch("CREATE TABLE payments (id TEXT)")
        .expect("a table");
    (lab, connection)
}

#[tokio::test]
async fn effect_and_record_commit_together() {
    let (lab, mut connection) = lab();
    let store = lab.store();
    let inbox = store.inbox();
    let tx = begin(&mut connection);
    let claim = granted(inbox.admit(&tx, &request("pay-1", 1)).expect("an answer"));
    pay(&tx);
    let outcome = Outcome::raw("paid".into(), 100);
    let settled = inbox
        .complete(&tx, &claim, outcome.clone(), Window::DEFAULT)
        .expect("an answer");
    assert!(matches!(settled, Settled::Now(StateKind::Completed)));
    tx.commit().expect("a commit");

    let answers = store
        .claim([request("pay-1", 2)].into())
        .await
        .expect("answers");
    assert!(
        matches!(&answers[..], [Admission::Replay { outcome: Some(it), .. }] if *it == outcome)
    );
    let tx = begin(&mut connection);
    let second = inbox.admit(&tx, &request("pay-1", 3)).expect("an answer");
    assert!(matches!(second, Admission::Replay { .. }));
    tx.commit().expect("a commit");
    assert_eq!(payments(&connection), 1);
}

#[tokio::test]
async fn rolling_back_leaves_neither() {
    let (lab, mut connection) = lab();
    let store = lab.store();
    let inbox = store.inbox();
    for _ in 0..2 {
        let tx = begin(&mut connection);
        let claim = granted(inbox.admit(&tx, &request("pay-1", 1)).expect("an answer"));
        pay(&tx);
        let settled = inbox.complete(&tx, &claim, Outcome::empty(), Window::DEFAULT);
        assert!(matches!(settled, Ok(Settled::Now(_))));
        // A crash comes to the same: nothing of an open transaction is in the file.
        drop(tx);
        assert_eq!(payments(&connection), 0);
        assert_eq!(
            store
                .get([operation("pay-1")].into())
                .await
                .expect("answers"),
            [None]
        );
    }
}

#[tokio::test]
async fn a_completion_whose_claim_was_lost_is_fenced_and_touches_nothing() {
    let (lab, mut connection) = lab();
    let store = lab.store();
    let inbox = store.inbox();
    let tx = begin(&mut connection);
    let slow = granted(inbox.admit(&tx, &request("pay-1", 1)).expect("an answer"));
    tx.commit().expect("a commit");

    lab.clock.advance(Duration::from_secs(31));
    let answers = store
        .claim([request("pay-1", 2)].into())
        .await
        .expect("answers");
    let [Admission::Granted(fast)] = &answers[..] else {
        panic!("no takeover: {answers:?}")
    };
    assert!(fast.takeover && fast.token > slow.token);

    let tx = begin(&mut connection);
    pay(&tx);
    let before = tx.total_changes();
    let settled = inbox
        .complete(&tx, &slow, Outcome::empty(), Window::DEFAULT)
        .expect("an answer");
    assert!(matches!(
        settled,
        Settled::Fenced {
            found: Some(StateKind::Claimed)
        }
    ));
    assert_eq!(tx.total_changes(), before);
    tx.rollback().expect("a rollback");
    assert_eq!(payments(&connection), 0);

    let tx = begin(&mut connection);
    pay(&tx);
    let settled = inbox
        .complete(&tx, fast, Outcome::empty(), Window::DEFAULT)
        .expect("an answer");
    assert!(matches!(settled, Settled::Now(StateKind::Completed)));
    tx.commit().expect("a commit");
    assert_eq!(payments(&connection), 1);
}

#[tokio::test]
async fn a_deferred_transaction_writes_before_it_reads() {
    let (lab, mut connection) = lab();
    let store = lab.store();
    let inbox = store.inbox();
    let tx = connection.transaction().expect("a transaction");
    let claim = granted(inbox.admit(&tx, &request("pay-1", 1)).expect("an answer"));
    pay(&tx);
    let settled = inbox.complete(&tx, &claim, Outcome::empty(), Window::DEFAULT);
    assert!(matches!(settled, Ok(Settled::Now(_))));
    tx.commit().expect("a commit");

    // A transaction that read before another wrote can only roll back, and gets an error.
    let tx = connection.transaction().expect("a transaction");
    assert_eq!(payments(&tx), 1);
    let answers = store
        .claim([request("pay-2", 2)].into())
        .await
        .expect("answers");
    assert_eq!(answers.len(), 1);
    let error = inbox
        .admit(&tx, &request("pay-2", 3))
        .expect_err("an old snapshot");
    assert_eq!(error.certainty(), Certainty::NotApplied);
}
