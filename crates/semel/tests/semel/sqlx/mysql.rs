//! On a MySQL or MariaDB server.

use semel::mysql::{MysqlStore, Options};
use semel::sqlx::{MysqlInbox, MysqlOutbox};
use semel::{
    Admission, Certainty, Claim, ClaimRequest, Error, ErrorKind, OnceError, OutboxMessage, Outcome,
    Receipt, Settled, Store, Window,
};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, Connection, MySql, Pool, Transaction};

use super::laws::{Bank, Served, keeps, server_of};
use super::{granted, is_complete, overtaken, request, state};
use crate::server::Place;

type Tx<'t> = Transaction<'t, MySql>;

keeps! { Mysql:
    effect_and_record_commit_together_and_a_duplicate_replays,
    one_call_has_one_effect_and_a_failure_leaves_nothing,
    nobody_sees_a_record_before_the_commit,
    every_column_of_a_record_is_written_and_read,
    rolling_back_leaves_neither,
    a_savepoint_takes_back_what_was_admitted_behind_it,
    a_completion_whose_claim_was_lost_is_fenced,
    whatever_bytes_there_are_come_back_as_they_were,
    of_two_in_a_deadlock_one_is_told_to_begin_again,
    a_commit_whose_answer_is_lost_is_asked_for_again_and_has_one_effect,
    a_lost_connection_is_told,
}

#[tokio::test]
async fn an_old_snapshot_decides_nothing() {
    let bank = Mysql::new().await;
    for level in ["REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"] {
        let key = format!("pay-{level}");
        let mut connection = bank.pool.acquire().await.expect("a connection");
        let order = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        let order = sqlx::raw_sql(AssertSqlSafe(order));
        order.execute(&mut *connection).await.expect("a level");
        let mut tx = connection.begin().await.expect("a transaction");
        // Its view of the world begins here.
        let seen: i64 = sqlx::query_scalar(bank.sql("SELECT count(*) FROM payments"))
            .fetch_one(&mut *tx)
            .await
            .expect("a count");
        assert_eq!(seen, 0);
        let taken = bank.store.claim([request(&key, 7)].into()).await;
        let _ = granted(taken.expect("an answer").remove(0));
        let answer = bank.ask(&mut tx, &request(&key, 1)).await;
        let answer = answer.expect("an answer");
        assert!(
            matches!(answer, Admission::Busy { .. }),
            "{level}: {answer:?}"
        );
        tx.rollback().await.expect("a rollback");
    }
}

#[tokio::test]
async fn missing_tables_are_told() {
    let bank = Mysql::new().await;
    let mut tx = bank.begin().await;
    let nowhere = MysqlInbox::with_prefix("nowhere_").expect("a prefix");
    let error = nowhere.admit(&mut tx, &request("a", 1)).await;
    let error = error.expect_err("no tables");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    assert!(error.to_string().contains("nowhere_"), "{error}");
    tx.rollback().await.expect("a rollback");
    let error = MysqlInbox::with_prefix("x; DROP TABLE y").expect_err("code");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
}

#[tokio::test]
async fn a_lock_that_does_not_come_free_asks_for_a_rollback() {
    let bank = Mysql::new().await;
    let (mut holder, mut tx) = (bank.begin().await, bank.begin().await);
    bank.effect(&mut holder, "pay-1").await;
    let order = sqlx::raw_sql("SET innodb_lock_wait_timeout = 1");
    order.execute(&mut *tx).await.expect("a setting");
    let error = bank.ask(&mut tx, &request("pay-1", 2)).await;
    overtaken(&error.expect_err("no lock"));
    tx.rollback().await.expect("a rollback");
    holder.commit().await.expect("a commit");
    let mut tx = bank.begin().await;
    let answer = bank.ask(&mut tx, &request("pay-1", 2)).await;
    let answer = answer.expect("an answer");
    assert!(matches!(answer, Admission::Replay { .. }), "{answer:?}");
    tx.rollback().await.expect("a rollback");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_rolled_back() {
    let bank = Mysql::new().await;
    let (mut holder, mut tx) = (bank.begin().await, bank.begin().await);
    let claim = bank.admit(&mut holder, "pay-1", 1).await;
    let asked = request("pay-1", 2);
    tokio::select! {
        biased;
        answer = bank.ask(&mut tx, &asked) => panic!("{answer:?}"),
        // It is sent, and its answers are still to come.
        () = std::future::ready(()) => {}
    }
    let settled = bank.complete(&mut holder, &claim).await;
    assert!(is_complete(&settled));
    holder.commit().await.expect("a commit");
    let mut savepoint = tx.begin().await.expect("a connection in order");
    bank.effect(&mut savepoint, "pay-2").await;
    savepoint.commit().await.expect("a savepoint");
    tx.rollback().await.expect("a rollback");
    assert_eq!(state(bank.store(), "pay-2").await, None);
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-2").await;
    tx.commit().await.expect("a commit");
    assert_eq!(bank.payments().await, ["pay-2"]);
}

#[tokio::test]
async fn a_message_is_in_the_outbox_if_its_transaction_commits() {
    let place = Place::on("mysql").expect("a server");
    let url = server_of(&place.url()).to_owned();
    let server = pool_of(&url).await;
    let name = format!("semel_sqlx_outbox_{}", std::process::id());
    let statement = AssertSqlSafe(format!("CREATE DATABASE {name}"));
    let made = sqlx::raw_sql(statement).execute(&server).await;
    made.expect("a database");
    let (before, _) = url.rsplit_once('/').expect("a database");
    let url = format!("{before}/{name}");
    let made = semel_store_mysql::migrate(&url, Options::default()).await;
    made.expect("an outbox");
    let pool = pool_of(&url).await;
    for commits in [false, true] {
        let mut tx = pool.begin().await.expect("a transaction");
        let paid = OutboxMessage::new("orders", "paid").ordered_by("o-1");
        let id = MysqlOutbox::publish(&mut tx, &paid).await.expect("an id");
        let ended = if commits {
            tx.commit().await
        } else {
            tx.rollback().await
        };
        ended.expect("an end");
        let ids: Vec<Vec<u8>> = sqlx::query_scalar("SELECT id FROM semel_outbox")
            .fetch_all(&pool)
            .await
            .expect("ids");
        let expected = [id.as_u128().to_be_bytes().to_vec()];
        assert_eq!(ids, expected[..usize::from(commits)]);
    }
    pool.close().await;
    let drop = AssertSqlSafe(format!("DROP DATABASE {name}"));
    let dropped = sqlx::raw_sql(drop).execute(&server).await;
    dropped.expect("dropped");
}

struct Mysql {
    store: MysqlStore,
    inbox: MysqlInbox,
    pool: Pool<MySql>,
    place: Place,
}

impl Mysql {
    /// The statement for a table of payments of this bank's own.
    fn sql(&self, statement: &str) -> AssertSqlSafe<String> {
        let url = self.place.url();
        let (_, prefix) = url.split_once("prefix=").expect("a prefix");
        AssertSqlSafe(statement.replace("payments", &format!("{prefix}payments")))
    }
}

impl Bank for Mysql {
    type Db = MySql;
    type Store = MysqlStore;

    async fn new() -> Self {
        let place = Place::on("mysql").expect("a server");
        let store = MysqlStore::connect(&place.url(), Options::default()).await;
        let store = store.expect("a store");
        let pool = pool_of(server_of(&place.url())).await;
        // Claims once, so that no transaction has to wait for another's first use of the scope.
        let first = store.claim([request("first", 1)].into()).await;
        let _ = granted(first.expect("an answer").remove(0));
        let bank = Self {
            inbox: store.inbox().into(),
            store,
            pool,
            place,
        };
        let table = bank.sql("CREATE TABLE payments (id VARCHAR(40)) ENGINE=InnoDB");
        let made = sqlx::raw_sql(table).execute(&bank.pool).await;
        made.expect("a table");
        bank
    }

    fn store(&self) -> &MysqlStore {
        &self.store
    }

    fn pool(&self) -> &Pool<MySql> {
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
        let insert = sqlx::query(self.sql("INSERT INTO payments VALUES (?)")).bind(key);
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
        let keys = sqlx::query_scalar(self.sql("SELECT id FROM payments"));
        keys.fetch_all(&self.pool).await.expect("the payments")
    }

    async fn disturb(&self, tx: &mut Tx<'_>) {
        let settings = "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', time_zone = '+09:30', \
                        NAMES latin1";
        let order = sqlx::raw_sql(settings).execute(&mut **tx).await;
        order.expect("settings");
    }
}

impl Served for Mysql {
    fn place(&self) -> &Place {
        &self.place
    }

    async fn pool_at(&self, server: &str) -> Pool<MySql> {
        pool_of(server).await
    }
}

async fn pool_of(server: &str) -> Pool<MySql> {
    let pool = MySqlPoolOptions::new().max_connections(4);
    let pool = pool.connect(&format!("{server}?ssl-mode=DISABLED")).await;
    pool.expect("a pool")
}
