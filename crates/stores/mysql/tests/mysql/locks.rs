//! Locks that users' own transactions hold, and calls that meet them.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::{Admission, Certainty, Code, Store};
use semel_store_mysql::MysqlStore;

use crate::lab::{Lab, claim, grant, id_of, in_lock_order, record, request};
use crate::proxy::Proxy;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_tried_again_and_reaches_nobody() {
    let lab = Lab::new().await;
    let url = lab.database.url();
    let proxy = Proxy::before(&url, |_| ());
    let store = Arc::new(lab.store_at(&proxy.url(&url)).await);
    let keys = in_lock_order(&["a", "b"]);
    for key in &keys {
        let _ = grant(&store, &request(key, 9)).await;
    }
    // A transaction that has done much is not the one that is undone.
    let mut other = lab.database.connect().await;
    other
        .query_drop("CREATE TABLE much (a INT) ENGINE=InnoDB")
        .await
        .expect("a table");
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    let much = format!("INSERT INTO much VALUES {}", ["(1)"; 300].join(","));
    other.query_drop(much).await.expect("rows");
    let lock = |key| {
        format!(
            "SELECT 1 FROM semel_records WHERE id = {} FOR UPDATE",
            id_of(key)
        )
    };
    other.query_drop(lock(keys[1])).await.expect("a lock");
    let batch = [request(keys[0], 1), request(keys[1], 1)];
    let calling = Arc::clone(&store);
    let call = tokio::spawn(async move { calling.claim(batch.into()).await });
    lab.waiting_session().await;
    // Each holds what the other wants.
    other
        .query_drop(lock(keys[0]))
        .await
        .expect("the other one is undone");
    tokio::task::block_in_place(|| proxy.wait_for_error(DEADLOCK));
    other.query_drop("COMMIT").await.expect("a commit");
    let answers = call.await.expect("a task").expect("answers");
    assert!(
        answers
            .iter()
            .all(|it| matches!(it, Admission::Busy { .. })),
        "{answers:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_comes_free_late_is_waited_for_again() {
    let lab = Lab::new().await;
    let url = lab.database.url();
    let proxy = Proxy::before(&url, |_| ());
    let store = Arc::new(impatient(&lab, &proxy.url(&url)).await);
    let _ = grant(&store, &request("a", 9)).await;
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    other
        .query_drop("UPDATE semel_records SET error = 'x'")
        .await
        .expect("a lock");
    let calling = Arc::clone(&store);
    let call =
        tokio::spawn(async move { calling.settle([crate::lab::complete("a", 9)].into()).await });
    tokio::task::block_in_place(|| proxy.wait_for_error(LOCK_WAIT));
    other.query_drop("ROLLBACK").await.expect("the lock back");
    let answers = call.await.expect("a task").expect("answers");
    assert!(
        matches!(answers[..], [semel_core::Settled::Now(_)]),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_lock_that_never_comes_free_is_told_as_not_applied() {
    let lab = Lab::new().await;
    let store = impatient(&lab, &lab.database.url()).await;
    let _ = grant(&store, &request("a", 9)).await;
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    other
        .query_drop("UPDATE semel_records SET error = 'x'")
        .await
        .expect("a lock");
    let error = store
        .claim([request("a", 1), request("b", 1)].into())
        .await
        .expect_err("no lock");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::Throttled, Certainty::NotApplied)
    );
    assert_eq!(
        record(&store, "b").await,
        None,
        "its neighbour is undone with it"
    );
    other.query_drop("ROLLBACK").await.expect("the lock back");
    assert!(matches!(
        claim(&store, &request("b", 1)).await,
        Admission::Granted(_)
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_claimants_of_ten_keys_get_an_answer_each_and_ten_a_grant() {
    const CLAIMANTS: u32 = 200;
    let lab = Lab::new().await;
    let mut options = lab.options();
    options.connections = 20;
    options.patience = Duration::from_secs(60);
    let store = MysqlStore::connect(&lab.database.url(), options)
        .await
        .expect("a store");
    let store = Arc::new(store);
    let mut claimants = tokio::task::JoinSet::new();
    for claimant in 0..CLAIMANTS {
        let store = Arc::clone(&store);
        claimants.spawn(async move {
            // Each claimant in an order of its own.
            let key = |at: u32| format!("k{}", (at * 7 + claimant) % 10);
            let batch: Vec<_> = (0..10)
                .map(|at| request(&key(at), claimant.into()))
                .collect();
            let answers = store.claim(batch.into()).await.expect("answers");
            answers
                .into_iter()
                .map(|answer| match answer {
                    Admission::Granted(_) => 1,
                    Admission::Busy { .. } => 0,
                    other => panic!("neither granted nor busy: {other:?}"),
                })
                .sum::<u32>()
        });
    }
    let granted: u32 = claimants.join_all().await.into_iter().sum();
    assert_eq!(granted, 10);
}

/// A store that waits for a lock only a second at a time.
async fn impatient(lab: &Lab, url: &str) -> MysqlStore {
    let mut options = lab.options();
    options.lock_wait = Duration::from_secs(1);
    MysqlStore::connect(url, options).await.expect("a store")
}

const LOCK_WAIT: u16 = 1205;
const DEADLOCK: u16 = 1213;
