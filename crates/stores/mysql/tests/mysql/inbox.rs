//! The inbox: effect and record in the user's own transaction, with any settings of their session.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, Transaction, TxOpts};
use semel_core::{
    Admission, Certainty, Claim, Code, Outcome, Recovery, Settled, Settlement, Start, StateKind,
    Step, Store, Window,
};
use semel_store_mysql::{InboxSteps, MysqlStore};

use crate::lab::{Lab, claim, grant, operation, record, request};

async fn lab() -> (Lab, Arc<MysqlStore>, InboxSteps, Conn) {
    let lab = Lab::new().await;
    let store = Arc::new(lab.store().await);
    lab.database
        .run("CREATE TABLE payments (id VARCHAR(40)) ENGINE=InnoDB")
        .await;
    let (inbox, connection) = (store.inbox(), lab.database.connect().await);
    (lab, store, inbox, connection)
}

async fn begin(connection: &mut Conn) -> Transaction<'_> {
    connection
        .start_transaction(TxOpts::default())
        .await
        .expect("a transaction")
}

fn granted(admission: Admission) -> Claim {
    match admission {
        Admission::Granted(claim) => claim,
        other => panic!("not granted: {other:?}"),
    }
}

async fn pay(transaction: &mut Transaction<'_>) {
    let paid = transaction
        .query_drop("INSERT INTO payments VALUES ('pay-1')")
        .await;
    paid.expect("an effect");
}

async fn payments(lab: &Lab) -> u64 {
    let mut connection = lab.database.connect().await;
    let count = connection
        .query_first("SELECT COUNT(*) FROM payments")
        .await;
    count.expect("a count").expect("a row")
}

#[tokio::test]
async fn effect_and_record_commit_together() {
    let (lab, store, inbox, mut connection) = lab().await;
    let mut tx = begin(&mut connection).await;
    let claim = granted(
        inbox
            .admit(&mut tx, &request("pay-1", 1))
            .await
            .expect("an answer"),
    );
    pay(&mut tx).await;
    let outcome = Outcome::raw("paid".into(), 100);
    let settled = inbox
        .complete(&mut tx, &claim, outcome.clone(), Window::DEFAULT)
        .await;
    assert!(matches!(settled, Ok(Settled::Now(StateKind::Completed))));
    tx.commit().await.expect("a commit");
    let answer = crate::lab::claim(&store, &request("pay-1", 2)).await;
    assert!(matches!(&answer, Admission::Replay { outcome: Some(it), .. } if *it == outcome));
    let mut tx = begin(&mut connection).await;
    let second = inbox
        .admit(&mut tx, &request("pay-1", 3))
        .await
        .expect("an answer");
    assert!(matches!(
        second,
        Admission::Replay {
            outcome: Some(_),
            ..
        }
    ));
    tx.commit().await.expect("a commit");
    assert_eq!(payments(&lab).await, 1);
}

#[tokio::test]
async fn rolling_back_leaves_neither() {
    let (lab, store, inbox, mut connection) = lab().await;
    for _ in 0..2 {
        let mut tx = begin(&mut connection).await;
        let claim = granted(
            inbox
                .admit(&mut tx, &request("pay-1", 1))
                .await
                .expect("an answer"),
        );
        pay(&mut tx).await;
        let settled = inbox
            .complete(&mut tx, &claim, Outcome::empty(), Window::DEFAULT)
            .await;
        assert!(matches!(settled, Ok(Settled::Now(_))));
        tx.rollback().await.expect("a rollback");
        assert_eq!(payments(&lab).await, 0);
        assert_eq!(record(&store, "pay-1").await, None);
    }
}

#[tokio::test]
async fn a_completion_whose_claim_was_lost_is_fenced_and_touches_nothing() {
    let (lab, store, inbox, mut connection) = lab().await;
    let mut tx = begin(&mut connection).await;
    let slow = granted(
        inbox
            .admit(&mut tx, &request("pay-1", 1))
            .await
            .expect("an answer"),
    );
    tx.commit().await.expect("a commit");
    lab.clock.advance(Duration::from_secs(31));
    let fast = grant(&store, &request("pay-1", 2)).await;
    assert!(fast.takeover && fast.token > slow.token);
    let before = record(&store, "pay-1").await;
    let mut tx = begin(&mut connection).await;
    pay(&mut tx).await;
    let settled = inbox
        .complete(&mut tx, &slow, Outcome::empty(), Window::DEFAULT)
        .await;
    assert!(matches!(
        settled,
        Ok(Settled::Fenced {
            found: Some(StateKind::Claimed)
        })
    ));
    tx.commit().await.expect("a commit");
    assert_eq!(record(&store, "pay-1").await, before);
    let mut tx = begin(&mut connection).await;
    let settled = inbox
        .complete(&mut tx, &fast, Outcome::empty(), Window::DEFAULT)
        .await;
    assert!(matches!(settled, Ok(Settled::Now(StateKind::Completed))));
    tx.commit().await.expect("a commit");
}

#[tokio::test]
async fn an_old_snapshot_decides_nothing() {
    let (lab, store, inbox, mut connection) = lab().await;
    for level in [
        IsolationLevel::RepeatableRead,
        IsolationLevel::ReadCommitted,
        IsolationLevel::Serializable,
    ] {
        let key = format!("{level}");
        let mut options = TxOpts::default();
        options.with_isolation_level(level);
        let mut tx = connection
            .start_transaction(options)
            .await
            .expect("a transaction");
        let seen: Option<u64> = tx
            .query_first("SELECT COUNT(*) FROM payments")
            .await
            .expect("a snapshot");
        assert!(seen.is_some());
        // Another worker has done it since.
        let _ = grant(&store, &request(&key, 9)).await;
        let settled = store
            .settle([crate::lab::complete(&key, 9)].into())
            .await
            .expect("answers");
        assert!(matches!(settled[..], [Settled::Now(_)]));
        let admission = inbox
            .admit(&mut tx, &request(&key, 1))
            .await
            .expect("an answer");
        assert!(
            matches!(admission, Admission::Replay { .. }),
            "{level}: {admission:?}"
        );
        tx.rollback().await.expect("a rollback");
    }
    assert_eq!(payments(&lab).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_transactions_the_second_waits_for_the_first() {
    for commits in [true, false] {
        let (lab, _store, inbox, mut connection) = lab().await;
        let mut first = begin(&mut connection).await;
        let claim = granted(
            inbox
                .admit(&mut first, &request("pay-1", 1))
                .await
                .expect("an answer"),
        );
        let (waiting, mut other) = (inbox.clone(), lab.database.connect().await);
        let second = tokio::spawn(async move {
            let mut second = begin(&mut other).await;
            let admission = waiting.admit(&mut second, &request("pay-1", 2)).await;
            second.commit().await.expect("a commit");
            admission
        });
        lab.waiting_session().await;
        let settled = inbox
            .complete(&mut first, &claim, Outcome::empty(), Window::DEFAULT)
            .await;
        assert!(matches!(settled, Ok(Settled::Now(_))));
        if commits {
            first.commit().await.expect("a commit");
        } else {
            first.rollback().await.expect("a rollback");
        }
        let admission = second.await.expect("a task").expect("an answer");
        match admission {
            Admission::Replay { .. } => assert!(commits),
            Admission::Granted(second) => {
                assert!(!commits);
                assert!(second.token > claim.token, "drawn under the lock");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neighbouring_keys_are_admitted_at_once_without_a_deadlock() {
    let (lab, store, inbox, _connection) = lab().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..8_u32 {
        let (inbox, mut connection) = (inbox.clone(), lab.database.connect().await);
        tasks.spawn(async move {
            for round in 0..10 {
                let mut tx = begin(&mut connection).await;
                let request = request(&format!("k{number}-{round}"), 1);
                let claim = granted(inbox.admit(&mut tx, &request).await.expect("an answer"));
                let settled = inbox
                    .complete(&mut tx, &claim, Outcome::empty(), Window::DEFAULT)
                    .await;
                assert!(matches!(settled, Ok(Settled::Now(_))));
                tx.commit().await.expect("a commit");
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(store.stats().await.expect("counts").records[3], 80);
}

#[tokio::test]
async fn a_session_with_settings_of_its_own_stores_the_same() {
    let (lab, store, inbox, mut connection) = lab().await;
    for setting in [
        "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE'",
        "SET time_zone = '+09:30'",
        "SET NAMES latin1",
        "SET innodb_lock_wait_timeout = 5",
    ] {
        connection.query_drop(setting).await.expect("a setting");
    }
    let mut request = request("p'ay\\\"ü", 1);
    request.transport = Some(vec![b'\\'; 3_000].into());
    request.birth = Some(semel_core::Clock::now(&lab.clock));
    request.start = Start::Marked(Recovery::Park);
    let mut tx = begin(&mut connection).await;
    let claim = granted(inbox.admit(&mut tx, &request).await.expect("an answer"));
    let outcome = Outcome::raw(b"\\'".repeat(2_000).into(), 10_000);
    let settled = inbox
        .complete(&mut tx, &claim, outcome.clone(), Window::DEFAULT)
        .await;
    assert!(matches!(settled, Ok(Settled::Now(_))));
    tx.commit().await.expect("a commit");
    let record = store
        .get([request.operation.clone()].into())
        .await
        .expect("answers")
        .remove(0);
    let record = record.expect("a record");
    assert_eq!(
        (record.outcome, record.transport),
        (Some(outcome), request.transport)
    );
    assert_eq!(record.created_at, semel_core::Clock::now(&lab.clock));
}

#[tokio::test]
async fn the_age_gate_and_the_version_gate_hold_within_a_transaction() {
    let (lab, store, inbox, mut connection) = lab().await;
    let now = semel_core::Clock::now(&lab.clock);
    let mut old = request("old", 1);
    (old.birth, old.window) = (
        Some(now.minus(Duration::from_secs(71))),
        Window::new(Duration::from_secs(80)),
    );
    let gated = |key: &str, version: u64, claimant| {
        let mut request = request(key, claimant);
        request.gate = Some(semel_core::VersionGate {
            entity: semel_core::Key::parse("cart").expect("an entity"),
            version,
        });
        request
    };
    let mut tx = begin(&mut connection).await;
    assert!(matches!(
        inbox.admit(&mut tx, &old).await,
        Ok(Admission::TooOld)
    ));
    let second = granted(
        inbox
            .admit(&mut tx, &gated("v2", 2, 1))
            .await
            .expect("an answer"),
    );
    let busy = inbox.admit(&mut tx, &gated("v3", 3, 2)).await;
    assert!(matches!(busy, Ok(Admission::Busy { .. })), "{busy:?}");
    let settled = inbox
        .complete(&mut tx, &second, Outcome::empty(), Window::DEFAULT)
        .await;
    assert!(matches!(settled, Ok(Settled::Now(_))));
    let stale = inbox.admit(&mut tx, &gated("v1", 1, 3)).await;
    assert!(
        matches!(stale, Ok(Admission::Stale { applied: 2 })),
        "{stale:?}"
    );
    let third = granted(
        inbox
            .admit(&mut tx, &gated("v3", 3, 2))
            .await
            .expect("an answer"),
    );
    tx.commit().await.expect("a commit");
    for key in ["old", "v1"] {
        assert_eq!(record(&store, key).await, None, "{key} leaves no record");
    }
    let mut tx = begin(&mut connection).await;
    let given_back = Settlement {
        operation: operation("v3"),
        claim_id: third.claim_id,
        step: Step::Release {
            error: "shutdown".into(),
            certainty: Certainty::NotApplied,
            after: Duration::ZERO,
            counted: false,
            limits: semel_core::AttemptLimits::default(),
            window: Window::DEFAULT,
        },
    };
    let settled = inbox.settle(&mut tx, &given_back).await;
    assert!(
        matches!(settled, Ok(Settled::Now(StateKind::Released))),
        "{settled:?}"
    );
    tx.commit().await.expect("a commit");
    let answer = claim(&store, &gated("v4", 4, 4)).await;
    assert!(
        matches!(answer, Admission::Granted(_)),
        "the entity is free: {answer:?}"
    );
}

#[tokio::test]
async fn a_lock_that_does_not_come_free_asks_for_a_rollback() {
    let (lab, store, inbox, mut connection) = lab().await;
    let _ = grant(&store, &request("pay-1", 9)).await;
    let mut other = lab.database.connect().await;
    other
        .query_drop("START TRANSACTION")
        .await
        .expect("a transaction");
    other
        .query_drop("UPDATE semel_records SET error = 'x'")
        .await
        .expect("a lock");
    connection
        .query_drop("SET innodb_lock_wait_timeout = 1")
        .await
        .expect("a setting");
    let mut tx = begin(&mut connection).await;
    let error = inbox
        .admit(&mut tx, &request("pay-1", 1))
        .await
        .expect_err("no lock");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::Throttled, Certainty::NotApplied)
    );
    tx.rollback().await.expect("a rollback");
    other.query_drop("ROLLBACK").await.expect("the lock back");
}
