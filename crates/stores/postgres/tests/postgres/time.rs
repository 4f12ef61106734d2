//! Decisions take the server's time, as it is when they are made. In a transaction `now()` stands still.

use std::time::Duration;

use semel_core::{Admission, Store, Timestamp};
use tokio_postgres::GenericClient;

use crate::lab::{Lab, gated, granted, request, take};

#[tokio::test]
async fn a_lease_in_a_users_transaction_begins_when_it_is_granted() {
    let lab = Lab::new();
    let store = lab.store().await;
    let mut user = lab.client().await;
    let tx = user.transaction().await.expect("a transaction");
    tx.batch_execute("SELECT pg_sleep(0.3)")
        .await
        .expect("a nap");
    let before = time(&tx).await;
    let mut late = request("late", 1);
    late.lease = Duration::from_millis(200);
    let claim = granted(store.inbox().admit(&tx, &late).await.expect("an answer"));
    // First, for a test that fails waits for the sessions that are in its schema.
    tx.commit().await.expect("a commit");
    assert!(claim.lease_until >= before.plus(late.lease));
}

#[tokio::test]
async fn whoever_waited_for_a_lock_longer_than_its_lease_has_all_of_it() {
    let lab = Lab::new();
    let store = lab.store().await;
    let mut first = gated("one", 1, "cart", 1);
    first.lease = Duration::ZERO;
    take(&store, &first).await;
    let mut user = lab.client().await;
    let watcher = lab.client().await;
    let pid: i32 = user
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .expect("a number")
        .get(0);
    let held = user.transaction().await.expect("a transaction");
    held.batch_execute("SELECT id FROM records FOR UPDATE")
        .await
        .expect("a lock");
    // There is a row to wait for, and it may be taken over.
    let mut second = gated("one", 2, "cart", 1);
    second.lease = Duration::from_millis(200);
    let batch = [second.clone()];
    let (answers, before) = tokio::join!(store.claim(batch.into()), async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
        while watcher
            .query_one(waits, &[&pid])
            .await
            .expect("a count")
            .get::<_, i64>(0)
            == 0
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        tokio::time::sleep(second.lease * 2).await;
        let before = time(&watcher).await;
        held.commit().await.expect("an end");
        before
    });
    let [Admission::Granted(claim)] = &answers.expect("an answer")[..] else {
        panic!("not granted")
    };
    assert!(claim.lease_until >= before.plus(second.lease));
}

/// Returns the server's time.
async fn time(client: &(impl GenericClient + Sync)) -> Timestamp {
    let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let row = client.query_one(now, &[]).await.expect("the time");
    Timestamp::from_millis(row.get::<_, i64>(0).cast_unsigned())
}
