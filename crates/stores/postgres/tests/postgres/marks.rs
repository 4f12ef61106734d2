//! A mark is read only after every session that was about to set it has done so, or has not.

use semel_core::port::checkpoint::CheckpointStore;

use crate::lab::Lab;

#[tokio::test]
async fn whoever_reads_a_mark_waits_for_a_commit_that_is_under_way() {
    let lab = Lab::new();
    let store = lab.store().await;
    let mut other = lab.client().await;
    other
        .batch_execute("INSERT INTO marks (name, value) VALUES ('out', 1)")
        .await
        .expect("a mark");
    assert_eq!(store.mark("out").await.expect("a mark"), Some(1));
    let watcher = lab.client().await;
    let pid: i32 = other
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .expect("a number")
        .get(0);
    let tx = other.transaction().await.expect("a transaction");
    tx.batch_execute("UPDATE marks SET value = 2 WHERE name = 'out'")
        .await
        .expect("another value");
    let (found, ()) = tokio::join!(store.mark("out"), async {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
        for _ in 0..1_000 {
            let row = watcher.query_one(waits, &[&pid]).await.expect("a count");
            if row.get::<_, i64>(0) > 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        tx.commit().await.expect("a commit");
    });
    assert_eq!(found.expect("a mark"), Some(2));
}
