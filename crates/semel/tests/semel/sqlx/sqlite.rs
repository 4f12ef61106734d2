//! In an SQLite file.

use std::sync::Arc;
use std::time::Duration;

use semel::sqlite::{Options, SqliteStore};
use semel::sqlx::SqliteInbox;
use semel::{
    Admission, Advice, Certainty, Claim, ClaimRequest, Error, ErrorKind, OnceError, Outcome,
    Receipt, Settled, Store, SystemClock, Window,
};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use sqlx::{Pool, Sqlite, Transaction};
use tempfile::TempDir;

use super::laws::{Bank, keeps};
use super::{granted, request, state};

type Tx<'t> = Transaction<'t, Sqlite>;

keeps! { File:
    effect_and_record_commit_together_and_a_duplicate_replays,
    one_call_has_one_effect_and_a_failure_leaves_nothing,
    nobody_sees_a_record_before_the_commit,
    every_column_of_a_record_is_written_and_read,
    rolling_back_leaves_neither,
    a_savepoint_takes_back_what_was_admitted_behind_it,
    a_completion_whose_claim_was_lost_is_fenced,
    whatever_bytes_there_are_come_back_as_they_were,
}

/// Checks that the answer was not applied, and that the whole transaction may be begun again.
fn busy(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    assert!(matches!(error.advice(), Advice::Retry { .. }), "{error:?}");
}

#[tokio::test]
async fn an_old_view_is_told_to_begin_again() {
    let bank = File::new().await;
    let mut tx = bank.pool.begin().await.expect("a deferred transaction");
    let count = sqlx::query_scalar("SELECT count(*) FROM payments");
    let count: i64 = count.fetch_one(&mut *tx).await.expect("a count");
    assert_eq!(count, 0);
    let taken = bank.store.claim([request("pay-1", 7)].into()).await;
    let _ = granted(taken.expect("an answer").remove(0));
    let error = bank.ask(&mut tx, &request("pay-2", 1)).await;
    busy(&error.expect_err("an old view"));
    tx.rollback().await.expect("a rollback");
    let mut tx = bank.begin().await;
    let again = bank.ask(&mut tx, &request("pay-1", 1)).await;
    let again = again.expect("an answer");
    assert!(matches!(again, Admission::Busy { .. }), "{again:?}");
    tx.rollback().await.expect("a rollback");
}

#[tokio::test]
async fn waiting_for_another_writer_holds_up_no_other_task() {
    let bank = File::new().await;
    let holder = bank.begin().await;
    let mut tx = bank.pool.begin().await.expect("a deferred transaction");
    // All on one thread: if it blocked, no task would release the lock.
    let waiting = bank.admit(&mut tx, "pay-1", 1);
    let letting_go = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        holder.rollback().await.expect("a rollback");
    };
    let (_claim, ()) = tokio::join!(waiting, letting_go);
    tx.commit().await.expect("a commit");
    assert!(state(&bank.store, "pay-1").await.is_some());
}

#[tokio::test]
async fn a_writer_that_does_not_end_is_told() {
    let bank = File::new().await;
    let holder = bank.begin().await;
    let options = bank.options().busy_timeout(Duration::from_millis(20));
    let impatient = SqlitePoolOptions::new().connect_with(options).await;
    let impatient = impatient.expect("a pool");
    let mut tx = impatient.begin().await.expect("a deferred transaction");
    let error = bank.ask(&mut tx, &request("pay-1", 1)).await;
    busy(&error.expect_err("a lock"));
    tx.rollback().await.expect("a rollback");
    holder.rollback().await.expect("a rollback");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_rolled_back() {
    let bank = File::new().await;
    let mut tx = bank.begin().await;
    let asked = request("pay-1", 1);
    tokio::select! {
        biased;
        answer = bank.ask(&mut tx, &asked) => panic!("{answer:?}"),
        // It is sent, and its answers are still to come.
        () = std::future::ready(()) => {}
    }
    bank.effect(&mut tx, "pay-2").await;
    tx.rollback().await.expect("a rollback");
    for key in ["pay-1", "pay-2"] {
        assert_eq!(state(&bank.store, key).await, None, "{key}");
    }
}

#[tokio::test]
async fn tables_are_made_where_there_are_none_and_never_within_a_transaction() {
    let bank = File::new().await;
    let folder = tempfile::tempdir().expect("a folder");
    let other = SqliteConnectOptions::new()
        .filename(folder.path().join("other.db"))
        .create_if_missing(true);
    let other = SqlitePoolOptions::new().connect_with(other).await;
    let other = other.expect("a pool");
    let mut tx = other.begin().await.expect("a transaction");
    let error = bank.ask(&mut tx, &request("a", 1)).await;
    let error = error.expect_err("no tables");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    let clock = Arc::new(SystemClock::new());
    let error = SqliteInbox::open(&mut tx, clock.clone()).await;
    let error = error.expect_err("a transaction");
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error:?}");
    tx.rollback().await.expect("a rollback");

    let mut connection = other.acquire().await.expect("a connection");
    for _ in 0..2 {
        let opened = SqliteInbox::open(&mut connection, clock.clone()).await;
        let _ = opened.expect("an inbox");
    }
    drop(connection);
    let mut tx = other.begin().await.expect("a transaction");
    let _ = bank.admit(&mut tx, "a", 1).await;
    tx.commit().await.expect("a commit");
}

/// A store of a file, and a user's pool of connections to it.
struct File {
    store: SqliteStore,
    inbox: SqliteInbox,
    pool: Pool<Sqlite>,
    folder: TempDir,
}

impl File {
    fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new().filename(self.folder.path().join("semel.db"))
    }
}

impl Bank for File {
    type Db = Sqlite;
    type Store = SqliteStore;

    async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("semel.db");
        let clock = Arc::new(SystemClock::new());
        let store = SqliteStore::open(&path, clock, Options::default()).expect("a store");
        let pool = SqlitePoolOptions::new().max_connections(4);
        let pool = pool.connect_with(SqliteConnectOptions::new().filename(&path));
        let pool = pool.await.expect("a pool");
        let table = "CREATE TABLE payments (id TEXT)";
        sqlx::query(table).execute(&pool).await.expect("a table");
        Self {
            inbox: store.inbox().into(),
            store,
            pool,
            folder,
        }
    }

    async fn begin(&self) -> Tx<'static> {
        let begun = self.pool.begin_with("BEGIN IMMEDIATE").await;
        begun.expect("a transaction")
    }

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    fn pool(&self) -> &Pool<Sqlite> {
        &self.pool
    }

    async fn ask(&self, tx: &mut Tx<'_>, request: &ClaimRequest) -> Result<Admission, Error> {
        self.inbox.admit(tx, request).await
    }

    async fn report(
        &self,
        tx: &mut Tx<'_>,
        claim: &Claim,
        outcome: Outcome,
    ) -> Result<Settled, Error> {
        let inbox = &self.inbox;
        inbox.complete(tx, claim, outcome, Window::DEFAULT).await
    }

    async fn try_pay(&self, tx: &mut Tx<'_>, key: &str) -> sqlx::Result<()> {
        let insert = sqlx::query("INSERT INTO payments VALUES ($1)").bind(key);
        insert.execute(&mut **tx).await.map(drop)
    }

    async fn once(
        &self,
        tx: &mut Tx<'_>,
        key: &str,
        fail: bool,
    ) -> Result<Receipt<usize>, OnceError> {
        self.inbox
            .once(tx, "payments", key, async |tx| {
                self.try_pay(tx, key).await?;
                if fail {
                    sqlx::raw_sql("SELECT no_such_column")
                        .execute(&mut **tx)
                        .await?;
                }
                Ok(key.len())
            })
            .await
    }

    async fn payments(&self) -> Vec<String> {
        let keys = sqlx::query_scalar("SELECT id FROM payments");
        keys.fetch_all(&self.pool).await.expect("the payments")
    }
}
