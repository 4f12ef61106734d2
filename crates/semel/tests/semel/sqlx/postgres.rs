//! On a PostgreSQL server.

use semel::postgres::{Options, PostgresStore};
use semel::sqlx::PostgresInbox;
use semel::{
    Admission, Certainty, Claim, ClaimRequest, Error, ErrorKind, OnceError, Outcome, Receipt,
    Settled, Store, Window,
};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Pool, Transaction};

use super::laws::{Bank, Served, keeps, server_of};
use super::{granted, overtaken, request};
use crate::server::Place;

type Tx<'t> = Transaction<'t, sqlx::Postgres>;

keeps! { Postgres:
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
async fn a_stricter_transaction_that_was_overtaken_is_told_to_begin_again() {
    let bank = Postgres::new().await;
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        let key = format!("pay-{level}");
        let mut tx = bank.begin().await;
        let order = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        let order = sqlx::query(sqlx::AssertSqlSafe(order));
        order.execute(&mut *tx).await.expect("a level");
        // Its view of the world begins here.
        let seen: i64 = sqlx::query_scalar("SELECT count(*) FROM payments")
            .fetch_one(&mut *tx)
            .await
            .expect("a count");
        assert_eq!(seen, 0);
        let taken = bank.store.claim([request(&key, 7)].into()).await;
        let _ = granted(taken.expect("an answer").remove(0));
        let error = bank.ask(&mut tx, &request(&key, 1)).await;
        overtaken(&error.expect_err("an old view"));
        // The transaction accepts nothing but a rollback from here on.
        let refused = bank.ask(&mut tx, &request("another", 1)).await;
        let refused = refused.expect_err("a failed transaction");
        assert_eq!(
            (refused.kind(), refused.certainty()),
            (ErrorKind::InvalidInput, Certainty::NotApplied),
            "{refused:?}"
        );
        tx.rollback().await.expect("a rollback");
        let mut tx = bank.begin().await;
        let again = bank.ask(&mut tx, &request(&key, 1)).await;
        let again = again.expect("an answer");
        assert!(matches!(again, Admission::Busy { .. }), "{again:?}");
        tx.commit().await.expect("a commit");
    }
}

#[tokio::test]
async fn missing_tables_are_told() {
    let bank = Postgres::new().await;
    let mut tx = bank.begin().await;
    let nowhere = PostgresInbox::in_schema("nowhere");
    let error = nowhere.admit(&mut tx, &request("a", 1)).await;
    let error = error.expect_err("no tables");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
    tx.rollback().await.expect("a rollback");
}

struct Postgres {
    store: PostgresStore,
    inbox: PostgresInbox,
    pool: Pool<sqlx::Postgres>,
    place: Place,
}

impl Bank for Postgres {
    type Db = sqlx::Postgres;
    type Store = PostgresStore;

    async fn new() -> Self {
        let place = Place::on("postgres").expect("a server");
        let store = PostgresStore::connect(&place.url(), Options::default()).await;
        let store = store.expect("a store");
        let pool = pool_of(&place, server_of(&place.url())).await;
        // Claims once, so that no transaction has to wait for another's first use of the scope.
        let first = store.claim([request("first", 1)].into()).await;
        let _ = granted(first.expect("an answer").remove(0));
        let table = "CREATE TABLE payments (key text)";
        sqlx::query(table).execute(&pool).await.expect("a table");
        Self {
            inbox: store.inbox().into(),
            store,
            pool,
            place,
        }
    }

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    fn pool(&self) -> &Pool<sqlx::Postgres> {
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
        let keys = sqlx::query_scalar("SELECT key FROM payments");
        keys.fetch_all(&self.pool).await.expect("the payments")
    }
}

impl Served for Postgres {
    fn place(&self) -> &Place {
        &self.place
    }

    async fn pool_at(&self, server: &str) -> Pool<sqlx::Postgres> {
        pool_of(&self.place, server).await
    }
}

async fn pool_of(place: &Place, server: &str) -> Pool<sqlx::Postgres> {
    let url = place.url();
    let (_, rest) = url.split_once("schema=").expect("a schema");
    let schema = rest.split('&').next().expect("a name");
    let url = format!("{server}?sslmode=disable&options=-csearch_path%3D{schema}");
    let pool = PgPoolOptions::new().max_connections(4).connect(&url).await;
    pool.expect("a pool")
}
