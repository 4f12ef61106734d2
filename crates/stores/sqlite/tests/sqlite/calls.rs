//! Calls that nobody waits for, and calls that share a transaction.

use std::sync::Arc;
use std::time::Duration;

use semel_core::port::transactional::TransactionalStore;
use semel_core::{Admission, Code, StateKind, Store};

use crate::lab::{Lab, message, operation, request, statements, text};

#[tokio::test]
async fn an_abandoned_call_goes_on() {
    let lab = Lab::new();
    let store = lab.store();
    let other = lab.connection();
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the write lock");
    let batch = [request("pay-1", 1)];
    let call = tokio::time::timeout(Duration::from_millis(20), store.claim(batch.clone().into()));
    assert!(call.await.is_err(), "the write lock is held");
    other.execute_batch("ROLLBACK").expect("the lock back");
    // Asking again with the same claim id finds out whether it was applied.
    let answers = store.claim(batch.into()).await.expect("answers");
    assert!(matches!(&answers[..], [Admission::Granted(claim)] if claim.resumed));
}

#[tokio::test]
async fn dropping_the_store_waits_for_what_was_accepted() {
    let lab = Lab::new();
    let store = lab.store();
    let batch: Vec<_> = (0..500).map(|n| request(&format!("k{n}"), 1)).collect();
    let call = tokio::time::timeout(Duration::ZERO, store.claim(batch.into()));
    let _ = call.await;
    drop(store);
    let found = lab
        .store()
        .get([operation("k499")].into())
        .await
        .expect("answers")
        .remove(0);
    assert_eq!(
        found.map(|record| record.state.kind()),
        Some(StateKind::Claimed)
    );
}

#[tokio::test]
async fn a_failing_call_undoes_no_other_that_shares_its_transaction() {
    let lab = Lab::new();
    let store = Arc::new(lab.store());
    let other = lab.connection();
    other
        .execute_batch("CREATE TABLE payments (id TEXT)")
        .expect("a table");
    // While the lock is held, calls queue up; then they share a transaction.
    other
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the write lock");
    let mut claims = tokio::task::JoinSet::new();
    for n in 0..20_u128 {
        let store = Arc::clone(&store);
        claims.spawn(async move { store.claim([request(&format!("k{n}"), n)].into()).await });
    }
    let failing = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let gone = statements(&["INSERT INTO gone VALUES (:id)"], &["id"]);
            store
                .apply(&gone, [message("x", 1, vec![text("x")])].into())
                .await
        })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    other.execute_batch("COMMIT").expect("the lock back");
    for answer in claims.join_all().await {
        assert!(matches!(
            &answer.expect("answers")[..],
            [Admission::Granted(_)]
        ));
    }
    let error = failing.await.expect("a task").expect_err("no such table");
    assert_eq!(error.code(), Code::InvalidConfig);
}

#[tokio::test]
async fn a_page_with_a_filter_is_bounded() {
    let lab = Lab::new();
    semel_conformance::page_bounds::check(&lab.store()).await;
}
