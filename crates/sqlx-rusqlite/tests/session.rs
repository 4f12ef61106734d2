//! Two drivers on one session.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use semel_sqlx_rusqlite::lend;
use sqlx::{Connection, SqliteConnection};

async fn session() -> SqliteConnection {
    let mut connection = SqliteConnection::connect("sqlite::memory:")
        .await
        .expect("a connection");
    run(&mut connection, "CREATE TABLE t (a INTEGER)").await;
    connection
}

async fn run(connection: &mut SqliteConnection, sql: &'static str) {
    sqlx::query(sql).execute(connection).await.expect(sql);
}

async fn count(connection: &mut SqliteConnection) -> i64 {
    let count = sqlx::query_scalar("SELECT count(*) FROM t");
    count.fetch_one(connection).await.expect("a count")
}

fn insert(connection: &rusqlite::Connection) -> usize {
    let mut insert = connection
        .prepare_cached("INSERT INTO t VALUES (1)")
        .expect("a statement");
    insert.execute([]).expect("a row")
}

#[tokio::test]
async fn both_are_in_one_transaction() {
    let mut connection = session().await;
    let mut tx = connection.begin().await.expect("a transaction");
    run(&mut tx, "INSERT INTO t VALUES (1)").await;
    let seen = lend(&mut tx, |lent| {
        assert!(!lent.is_autocommit());
        insert(lent);
        lent.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))
    });
    assert_eq!(seen.await.expect("a session"), Ok(2));
    tx.rollback().await.expect("a rollback");
    assert_eq!(count(&mut connection).await, 0);
    assert_eq!(lend(&mut connection, insert).await.expect("a session"), 1);
    assert_eq!(count(&mut connection).await, 1);
}

#[tokio::test]
async fn a_savepoint_takes_back_what_was_done_behind_it() {
    let mut connection = session().await;
    let mut tx = connection.begin().await.expect("a transaction");
    assert_eq!(lend(&mut tx, insert).await.expect("a session"), 1);
    let mut savepoint = tx.begin().await.expect("a savepoint");
    assert_eq!(lend(&mut savepoint, insert).await.expect("a session"), 1);
    savepoint.rollback().await.expect("a rollback");
    tx.commit().await.expect("a commit");
    assert_eq!(count(&mut connection).await, 1);
}

#[tokio::test]
async fn a_panic_gives_the_session_back() {
    let mut connection = session().await;
    let mut work = Box::pin(lend(&mut connection, |lent| -> usize {
        let rows = insert(lent);
        panic!("as planned, after {rows} row");
    }));
    // Polled until it panics, as a task would be, whose runtime catches it.
    let panicked = poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| {
            work.as_mut().poll(context).is_pending()
        }));
        match polled {
            Ok(true) => Poll::Pending,
            Ok(false) => Poll::Ready(false),
            Err(_) => Poll::Ready(true),
        }
    });
    assert!(panicked.await);
    drop(work);
    assert_eq!(count(&mut connection).await, 1);
    // Its statement is finished, or this would be refused.
    run(&mut connection, "DROP TABLE t").await;
    connection.close().await.expect("an end");
}

#[tokio::test]
async fn a_call_that_is_dropped_before_it_began_changes_nothing() {
    let mut connection = session().await;
    drop(lend(&mut connection, insert));
    assert_eq!(count(&mut connection).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_lent_at_once_from_several_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}?mode=rwc", folder.path().join("t.db").display());
    let mut first = SqliteConnection::connect(&url).await.expect("a connection");
    run(&mut first, "CREATE TABLE t (a INTEGER)").await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let url = url.clone();
        tasks.spawn(async move {
            let mut own = SqliteConnection::connect(&url).await.expect("a connection");
            for _ in 0..25 {
                run(&mut own, "BEGIN IMMEDIATE").await;
                assert_eq!(lend(&mut own, insert).await.expect("a session"), 1);
                run(&mut own, "COMMIT").await;
            }
        });
    }
    let ended = tasks.join_all().await;
    assert_eq!(ended.len(), 4);
    assert_eq!(count(&mut first).await, 100);
}
