//! A mark is read when everybody who was about to set it has, or has not.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_core::port::checkpoint::CheckpointStore;
use tokio::time::timeout;

use crate::lab::Lab;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_reads_a_mark_waits_for_a_commit_that_is_under_way() {
    let lab = Lab::new().await;
    let store = lab.store().await;
    let mut other = lab.database.connect().await;
    // The first as well as any other.
    for (value, set) in [
        (1, "INSERT INTO semel_marks (name, value) VALUES ('out', 1)"),
        (2, "UPDATE semel_marks SET value = 2 WHERE name = 'out'"),
    ] {
        other
            .query_drop("START TRANSACTION")
            .await
            .expect("a transaction");
        other.query_drop(set).await.expect("a mark");
        let (found, ()) = tokio::join!(store.mark("out"), async {
            // It does not wait where it reads without a lock.
            let _ = timeout(Duration::from_secs(5), lab.waiting_session()).await;
            other.query_drop("COMMIT").await.expect("a commit");
        });
        assert_eq!(found.expect("a mark"), Some(value));
    }
}
