//! On a MySQL or MariaDB server.

use std::time::Duration;

use semel::mysql::{MysqlStore, Options};
use semel::sqlx::MysqlInbox;
use semel::{
    Admission, Certainty, Claim, ClaimId, ErrorKind, Key, Outcome, Settled, StateKind, Store,
    VersionGate, Window,
};
use semel_conformance::proxy::Proxy;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::{Acquire, AssertSqlSafe, MySql, Transaction};

use crate::server::Place;
use crate::{granted, is_complete, operation, overtaken, request, state};

type Tx<'t> = Transaction<'t, MySql>;

#[tokio::test]
async fn effect_and_record_commit_together_and_a_duplicate_replays() {
    let bank = Bank::new().await;
    let mut tx = bank.begin().await;
    let claim = bank.admit(&mut tx, "pay-1", 1).await;
    bank.pay(&mut tx, "pay-1").await;
    let outcome = Outcome::raw("paid".into(), 100);
    let settled = bank
        .inbox
        .complete(&mut tx, &claim, outcome.clone(), Window::DEFAULT)
        .await;
    assert!(is_complete(&settled.expect("an answer")));
    assert_eq!(
        state(&bank.store, "pay-1").await,
        None,
        "nobody sees it yet"
    );
    tx.commit().await.expect("a commit");

    // To the store and to another transaction it is the same record.
    let answers = bank.store.claim(&[request("pay-1", 2)]).await;
    let answers = answers.expect("answers");
    assert!(
        matches!(&answers[..], [Admission::Replay { outcome: Some(it), .. }] if *it == outcome),
        "{answers:?}"
    );
    let mut tx = bank.begin().await;
    let again = bank.inbox.admit(&mut tx, &request("pay-1", 3)).await;
    let again = again.expect("an answer");
    assert!(
        matches!(&again, Admission::Replay { outcome: Some(it), .. } if *it == outcome),
        "{again:?}"
    );
    tx.commit().await.expect("a commit");
    assert_eq!(bank.payments().await, ["pay-1"]);
}

#[tokio::test]
async fn every_column_of_a_record_is_written_and_read() {
    let bank = Bank::new().await;
    let mut asked = request("pay-1", 1);
    asked.gate = Some(VersionGate {
        entity: Key::parse("cart").expect("an entity"),
        version: 7,
    });
    asked.transport = Some("partition 3, offset 5".into());
    asked.fingerprint = Some(semel::Fingerprint::from_bytes([9; 20]));
    let mut tx = bank.begin().await;
    let claim = granted(bank.inbox.admit(&mut tx, &asked).await.expect("an answer"));
    tx.commit().await.expect("a commit");
    let found = bank.store.get(&[operation("pay-1")]).await.expect("it");
    let [Some(record)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(record.claim_id, ClaimId::from_u128(1));
    assert_eq!(record.token, claim.token);
    assert_eq!(record.gate, asked.gate);
    assert_eq!(record.transport, asked.transport);
    assert_eq!(record.fingerprint, asked.fingerprint);

    let mut tx = bank.begin().await;
    let settled = bank.complete(&mut tx, &claim).await;
    assert!(is_complete(&settled));
    tx.commit().await.expect("a commit");
    // The entity knows which version was applied.
    let mut late = request("late", 2);
    late.gate = asked.gate;
    let mut tx = bank.begin().await;
    let answer = bank.inbox.admit(&mut tx, &late).await.expect("an answer");
    assert!(
        matches!(answer, Admission::Stale { applied: 7 }),
        "{answer:?}"
    );
    tx.commit().await.expect("a commit");
}

#[tokio::test]
async fn rolling_back_leaves_neither() {
    let bank = Bank::new().await;
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-1").await;
    tx.rollback().await.expect("a rollback");
    // Dropped, as by a `?` or a crash.
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-1").await;
    drop(tx);
    assert_eq!(state(&bank.store, "pay-1").await, None);
    assert!(bank.payments().await.is_empty());
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-1").await;
    tx.commit().await.expect("a commit");
    assert_eq!(bank.payments().await, ["pay-1"]);
}

#[tokio::test]
async fn a_savepoint_takes_back_what_was_admitted_behind_it() {
    let bank = Bank::new().await;
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "kept").await;
    let mut savepoint = tx.begin().await.expect("a savepoint");
    bank.effect(&mut savepoint, "undone").await;
    savepoint.rollback().await.expect("a rollback");
    let mut savepoint = tx.begin().await.expect("a savepoint");
    let mut gated = request("gated", 1);
    gated.gate = Some(VersionGate {
        entity: Key::parse("cart").expect("an entity"),
        version: 1,
    });
    let answer = bank.inbox.admit(&mut savepoint, &gated).await;
    let _ = granted(answer.expect("an answer"));
    savepoint.rollback().await.expect("a rollback");
    tx.commit().await.expect("a commit");
    assert_eq!(state(&bank.store, "kept").await, Some(StateKind::Completed));
    assert_eq!(state(&bank.store, "undone").await, None);
    assert_eq!(state(&bank.store, "gated").await, None);
    assert_eq!(bank.payments().await, ["kept"]);
}

#[tokio::test]
async fn a_completion_whose_claim_was_lost_is_fenced() {
    let bank = Bank::new().await;
    let mut short = request("pay-1", 1);
    short.lease = Duration::ZERO;
    let mut tx = bank.begin().await;
    let slow = granted(bank.inbox.admit(&mut tx, &short).await.expect("an answer"));
    tx.commit().await.expect("a commit");
    let mut tx = bank.begin().await;
    let fast = bank.admit(&mut tx, "pay-1", 2).await;
    assert!(fast.takeover && fast.token > slow.token, "{fast:?}");
    tx.commit().await.expect("a commit");
    let mut tx = bank.begin().await;
    bank.pay(&mut tx, "pay-1").await;
    let settled = bank.complete(&mut tx, &slow).await;
    assert!(matches!(settled, Settled::Fenced { .. }), "{settled:?}");
    tx.rollback().await.expect("a rollback");
    assert!(bank.payments().await.is_empty());
}

#[tokio::test]
async fn an_old_snapshot_decides_nothing() {
    let bank = Bank::new().await;
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
        let taken = bank.store.claim(&[request(&key, 7)]).await;
        let _ = granted(taken.expect("an answer").remove(0));
        let answer = bank.inbox.admit(&mut tx, &request(&key, 1)).await;
        let answer = answer.expect("an answer");
        assert!(
            matches!(answer, Admission::Busy { .. }),
            "{level}: {answer:?}"
        );
        tx.rollback().await.expect("a rollback");
    }
}

#[tokio::test]
async fn whatever_bytes_there_are_come_back_as_they_were() {
    let bank = Bank::new().await;
    let settings = "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', time_zone = '+09:30', \
                    NAMES latin1";
    let mut tx = bank.begin().await;
    let order = sqlx::raw_sql(settings).execute(&mut *tx).await;
    order.expect("settings");
    let key = "p'ay\\\"?ü; \u{0301}";
    let mut asked = request(key, 1);
    asked.transport = Some((0..=255).collect::<Vec<u8>>().repeat(20).into());
    let outcome = Outcome::raw(b"\\'?\0\xff".repeat(10_000).into(), 1_000_000);
    let claim = granted(bank.inbox.admit(&mut tx, &asked).await.expect("an answer"));
    let settled = bank
        .inbox
        .complete(&mut tx, &claim, outcome.clone(), Window::DEFAULT)
        .await;
    assert!(is_complete(&settled.expect("an answer")));
    let again = bank.inbox.admit(&mut tx, &request(key, 2)).await;
    let again = again.expect("an answer");
    assert!(
        matches!(&again, Admission::Replay { outcome: Some(it), .. } if *it == outcome),
        "{again:?}"
    );
    tx.commit().await.expect("a commit");
    let found = bank.store.get(&[operation(key)]).await.expect("it");
    let [Some(record)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(record.transport, asked.transport);
    assert_eq!(record.outcome, Some(outcome));
}

#[tokio::test]
async fn of_two_in_a_deadlock_one_is_told_to_begin_again() {
    let bank = Bank::new().await;
    let (mut one, mut other) = (bank.begin().await, bank.begin().await);
    let _ = bank.admit(&mut one, "a", 1).await;
    let _ = bank.admit(&mut other, "b", 2).await;
    let forward = async {
        let second = bank.inbox.admit(&mut one, &request("b", 1)).await;
        end(one, second.is_ok()).await;
        second
    };
    let backward = async {
        let second = bank.inbox.admit(&mut other, &request("a", 2)).await;
        end(other, second.is_ok()).await;
        second
    };
    let answers: [_; 2] = tokio::join!(forward, backward).into();
    let (granted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((granted.len(), refused.len()), (1, 1));
    overtaken(refused[0].as_ref().expect_err("an error"));
    // The winner has both keys, the loser none.
    let found = bank.store.get(&[operation("a"), operation("b")]).await;
    let found = found.expect("records");
    let [Some(a), Some(b)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(a.claim_id, b.claim_id);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_asked_for_again_and_has_one_effect() {
    let bank = Bank::new().await;
    let (mut was_lost, mut replayed) = (0, 0);
    for nth in 1..100 {
        let proxy = Proxy::start(bank.address());
        let pool = bank.pool(&bank.url_at(&proxy)).await;
        let key = format!("pay-{nth}");
        let mut tries = 0;
        loop {
            tries += 1;
            assert!(tries <= 3, "{key}: it never ends");
            // Each answer of a transaction in turn, the one to its COMMIT among them.
            if tries == 1 {
                let mut warm = pool.acquire().await.expect("a connection");
                sqlx::query("SELECT 1")
                    .execute(&mut *warm)
                    .await
                    .expect("1");
                drop(warm);
                proxy.cut_before_answer(nth);
            }
            match bank.deliver(&pool, &key).await {
                Ok(Delivered::Paid) => break,
                Ok(Delivered::Replayed) => {
                    replayed += 1;
                    break;
                }
                Err(Lost::Before(certainty)) => assert_eq!(certainty, Certainty::NotApplied),
                Err(Lost::AtCommit) => was_lost += 1,
            }
        }
        let is_cut = proxy.seen().cuts > 0;
        proxy.heal();
        let paid = bank.payments().await;
        let times = paid.iter().filter(|it| **it == key).count();
        assert_eq!(times, 1, "{key} was paid {times} times");
        assert_eq!(state(&bank.store, &key).await, Some(StateKind::Completed));
        if !is_cut {
            break;
        }
    }
    assert!(was_lost == 1 && replayed == 1, "{was_lost} {replayed}");
}

#[tokio::test]
async fn missing_tables_and_a_lost_connection_are_told() {
    let bank = Bank::new().await;
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

    let proxy = Proxy::start(bank.address());
    let pool = bank.pool(&bank.url_at(&proxy)).await;
    let mut tx = pool.begin().await.expect("a transaction");
    proxy.cut_before_answer(1);
    let error = bank.inbox.admit(&mut tx, &request("a", 1)).await;
    let error = error.expect_err("a cut");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::Unavailable, Certainty::NotApplied),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_lock_that_does_not_come_free_asks_for_a_rollback() {
    let bank = Bank::new().await;
    let (mut holder, mut tx) = (bank.begin().await, bank.begin().await);
    bank.effect(&mut holder, "pay-1").await;
    let order = sqlx::raw_sql("SET innodb_lock_wait_timeout = 1");
    order.execute(&mut *tx).await.expect("a setting");
    let error = bank.inbox.admit(&mut tx, &request("pay-1", 2)).await;
    overtaken(&error.expect_err("no lock"));
    tx.rollback().await.expect("a rollback");
    holder.commit().await.expect("a commit");
    let mut tx = bank.begin().await;
    let answer = bank.inbox.admit(&mut tx, &request("pay-1", 2)).await;
    let answer = answer.expect("an answer");
    assert!(matches!(answer, Admission::Replay { .. }), "{answer:?}");
    tx.rollback().await.expect("a rollback");
}

#[tokio::test]
async fn a_call_that_is_dropped_is_rolled_back() {
    let bank = Bank::new().await;
    let (mut holder, mut tx) = (bank.begin().await, bank.begin().await);
    let claim = bank.admit(&mut holder, "pay-1", 1).await;
    let asked = request("pay-1", 2);
    tokio::select! {
        biased;
        answer = bank.inbox.admit(&mut tx, &asked) => panic!("{answer:?}"),
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
    assert_eq!(state(&bank.store, "pay-2").await, None);
    let mut tx = bank.begin().await;
    bank.effect(&mut tx, "pay-2").await;
    tx.commit().await.expect("a commit");
    assert_eq!(bank.payments().await, ["pay-2"]);
}

enum Delivered {
    Paid,
    Replayed,
}

enum Lost {
    Before(Certainty),
    AtCommit,
}

/// A store, its inbox, and a user's pool beside a table of payments.
struct Bank {
    store: MysqlStore,
    inbox: MysqlInbox,
    pool: MySqlPool,
    place: Place,
}

impl Bank {
    async fn new() -> Self {
        let place = Place::on("mysql").expect("a server");
        let store = MysqlStore::connect(&place.url(), Options::default()).await;
        let store = store.expect("a store");
        let pool = pool_of(server_of(&place.url())).await;
        // Nobody has to wait for somebody else's first use of the scope.
        let first = store.claim(&[request("first", 1)]).await;
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

    async fn begin(&self) -> Tx<'static> {
        self.pool.begin().await.expect("a transaction")
    }

    async fn pool(&self, server: &str) -> MySqlPool {
        pool_of(server).await
    }

    async fn admit(&self, tx: &mut Tx<'_>, key: &str, claim_id: u128) -> Claim {
        let answer = self.inbox.admit(tx, &request(key, claim_id)).await;
        granted(answer.expect("an answer"))
    }

    async fn complete(&self, tx: &mut Tx<'_>, claim: &Claim) -> Settled {
        let done = self
            .inbox
            .complete(tx, claim, Outcome::empty(), Window::DEFAULT);
        done.await.expect("an answer")
    }

    async fn effect(&self, tx: &mut Tx<'_>, key: &str) {
        let claim = self.admit(tx, key, 1).await;
        self.pay(tx, key).await;
        assert!(is_complete(&self.complete(tx, &claim).await));
    }

    /// What a consumer does with a message, again and again until it is told an end.
    async fn deliver(&self, pool: &MySqlPool, key: &str) -> Result<Delivered, Lost> {
        let broken = |_| Lost::Before(Certainty::NotApplied);
        let told = |error: semel::Error| Lost::Before(error.certainty());
        let mut tx = pool.begin().await.map_err(broken)?;
        let answer = self.inbox.admit(&mut tx, &request(key, 1)).await;
        let claim = match answer.map_err(told)? {
            Admission::Granted(claim) => claim,
            Admission::Replay { .. } => return Ok(Delivered::Replayed),
            other => panic!("{other:?}"),
        };
        let insert = sqlx::query(self.sql("INSERT INTO payments VALUES (?)")).bind(key);
        insert.execute(&mut *tx).await.map_err(broken)?;
        let settled = self
            .inbox
            .complete(&mut tx, &claim, Outcome::empty(), Window::DEFAULT)
            .await;
        assert!(is_complete(&settled.map_err(told)?));
        tx.commit().await.map_err(|_| Lost::AtCommit)?;
        Ok(Delivered::Paid)
    }

    async fn pay(&self, tx: &mut Tx<'_>, key: &str) {
        let insert = sqlx::query(self.sql("INSERT INTO payments VALUES (?)")).bind(key);
        insert.execute(&mut **tx).await.expect("a payment");
    }

    async fn payments(&self) -> Vec<String> {
        let keys = sqlx::query_scalar(self.sql("SELECT id FROM payments"));
        keys.fetch_all(&self.pool).await.expect("the payments")
    }

    /// The statement for a table of payments of this bank's own.
    fn sql(&self, statement: &str) -> AssertSqlSafe<String> {
        let url = self.place.url();
        let (_, prefix) = url.split_once("prefix=").expect("a prefix");
        AssertSqlSafe(statement.replace("payments", &format!("{prefix}payments")))
    }

    fn address(&self) -> std::net::SocketAddr {
        let url = self.place.url();
        let (_, rest) = url.split_once('@').expect("a user");
        let (address, _) = rest.split_once('/').expect("a database");
        address.parse().expect("an address in numbers")
    }

    /// The server behind a proxy.
    fn url_at(&self, proxy: &Proxy) -> String {
        let url = self.place.url();
        let (there, here) = (self.address().to_string(), proxy.address().to_string());
        server_of(&url).replace(&there, &here)
    }
}

/// The url without what is the store's.
fn server_of(url: &str) -> &str {
    url.split_once('?').map_or(url, |(server, _)| server)
}

async fn pool_of(server: &str) -> MySqlPool {
    let pool = MySqlPoolOptions::new().max_connections(4);
    let pool = pool.connect(&format!("{server}?ssl-mode=DISABLED")).await;
    pool.expect("a pool")
}

async fn end(tx: Tx<'_>, is_well: bool) {
    let ended = if is_well {
        tx.commit().await
    } else {
        tx.rollback().await
    };
    ended.expect("an end");
}
