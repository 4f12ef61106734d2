//! The inbox: effect and record in the user's own transaction.

use std::time::Duration;

use semel_core::{
    Admission, Advice, Certainty, Error, ErrorKind, Outcome, Settled, StateKind, Store, Window,
};
use semel_store_postgres::{InboxSteps, PostgresStore};
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::lab::{Lab, completion, count, gated, granted, record, request, settle, state, take};

#[tokio::test]
async fn effect_and_record_commit_together() {
    let Bank {
        store,
        inbox,
        mut user,
        lab: _lab,
        ..
    } = Bank::new().await;
    let tx = user.transaction().await.expect("a transaction");
    let claim = granted(
        inbox
            .admit(&tx, &request("pay-1", 1))
            .await
            .expect("an answer"),
    );
    pay(&tx).await;
    let outcome = Outcome::raw("paid".into(), 100);
    let settled = inbox
        .complete(&tx, &claim, outcome.clone(), Window::DEFAULT)
        .await
        .expect("an answer");
    assert!(matches!(settled, Settled::Now(StateKind::Completed)));
    assert_eq!(state(&store, "pay-1").await, None, "nobody sees it yet");
    tx.commit().await.expect("a commit");

    let answers = store
        .claim([request("pay-1", 2)].into())
        .await
        .expect("answers");
    assert!(
        matches!(&answers[..], [Admission::Replay { outcome: Some(it), .. }] if *it == outcome)
    );
    let tx = user.transaction().await.expect("a transaction");
    let second = inbox.admit(&tx, &request("pay-1", 3)).await;
    assert!(matches!(second, Ok(Admission::Replay { .. })));
    tx.commit().await.expect("a commit");
    assert_eq!(count(&user, "payments").await, 1);
}

#[tokio::test]
async fn rolling_back_leaves_neither() {
    let Bank {
        store,
        inbox,
        mut user,
        lab: _lab,
        ..
    } = Bank::new().await;
    for _ in 0..2 {
        let tx = user.transaction().await.expect("a transaction");
        effect(&inbox, &tx, "pay-1").await;
        // A crash has the same result: the server rolls back a transaction of which it received no
        // COMMIT.
        drop(tx);
        assert_eq!(count(&user, "payments").await, 0);
        assert_eq!(record(&store, "pay-1").await, None);
    }
}

#[tokio::test]
async fn a_completion_whose_claim_was_lost_is_fenced_and_touches_nothing() {
    let Bank {
        store,
        inbox,
        mut user,
        lab: _lab,
        ..
    } = Bank::new().await;
    let mut short = request("pay-1", 1);
    short.lease = Duration::ZERO;
    let tx = user.transaction().await.expect("a transaction");
    let slow = granted(inbox.admit(&tx, &short).await.expect("an answer"));
    tx.commit().await.expect("a commit");
    let answers = store
        .claim([request("pay-1", 2)].into())
        .await
        .expect("answers");
    let [Admission::Granted(fast)] = &answers[..] else {
        panic!("no takeover: {answers:?}")
    };
    assert!(fast.takeover && fast.token > slow.token);

    let before = record(&store, "pay-1").await;
    let tx = user.transaction().await.expect("a transaction");
    pay(&tx).await;
    let settled = inbox
        .complete(&tx, &slow, Outcome::empty(), Window::DEFAULT)
        .await
        .expect("an answer");
    assert!(matches!(
        settled,
        Settled::Fenced {
            found: Some(StateKind::Claimed)
        }
    ));
    tx.rollback().await.expect("a rollback");
    assert_eq!(record(&store, "pay-1").await, before);
    assert_eq!(count(&user, "payments").await, 0);

    let tx = user.transaction().await.expect("a transaction");
    pay(&tx).await;
    let settled = inbox
        .complete(&tx, fast, Outcome::empty(), Window::DEFAULT)
        .await;
    assert!(matches!(settled, Ok(Settled::Now(StateKind::Completed))));
    tx.commit().await.expect("a commit");
    assert_eq!(count(&user, "payments").await, 1);
}

#[tokio::test]
async fn a_savepoint_takes_back_what_was_admitted_behind_it() {
    let Bank {
        store,
        inbox,
        mut user,
        lab: _lab,
        ..
    } = Bank::new().await;
    let mut tx = user.transaction().await.expect("a transaction");
    effect(&inbox, &tx, "kept").await;
    let savepoint = tx.savepoint("mine").await.expect("a savepoint");
    effect(&inbox, &savepoint, "undone").await;
    savepoint.rollback().await.expect("a rollback");
    let savepoint = tx.savepoint("mine").await.expect("a savepoint");
    let again = inbox.admit(&savepoint, &request("undone", 2)).await;
    assert!(matches!(again, Ok(Admission::Granted(claim)) if !claim.resumed));
    savepoint.rollback().await.expect("a rollback");
    // A key that a gate takes back is no less undone.
    let savepoint = tx.savepoint("mine").await.expect("a savepoint");
    let answer = inbox.admit(&savepoint, &gated("gated", 1, "cart", 1)).await;
    let _ = granted(answer.expect("an answer"));
    savepoint.rollback().await.expect("a rollback");
    tx.commit().await.expect("a commit");
    assert_eq!(state(&store, "kept").await, Some(StateKind::Completed));
    assert_eq!(state(&store, "undone").await, None);
    assert_eq!(count(&user, "payments").await, 1);
    let answers = store
        .claim([gated("other", 2, "cart", 1)].into())
        .await
        .expect("answers");
    assert!(
        matches!(&answers[..], [Admission::Granted(_)]),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_stricter_transaction_that_was_overtaken_is_told_to_begin_again() {
    let Bank {
        store,
        inbox,
        mut user,
        lab: _lab,
        ..
    } = Bank::new().await;
    for (name, level) in [
        ("repeatable", IsolationLevel::RepeatableRead),
        ("serializable", IsolationLevel::Serializable),
    ] {
        // Taken meanwhile, finished meanwhile, and on an entity of which nothing was known.
        let known = format!("{name}-known");
        take(&store, &request(&known, 7)).await;
        for (key, other) in [
            (format!("{name}-new"), None),
            (known.clone(), Some(completion(&known, 7, b"paid"))),
        ] {
            let tx = begin(&mut user, level).await;
            // Its view of the world begins here.
            assert_eq!(payments(&tx).await, 0);
            match other {
                None => take(&store, &request(&key, 7)).await,
                Some(other) => drop(settle(&store, &other).await),
            }
            let error = inbox.admit(&tx, &request(&key, 1)).await;
            overtaken(&error.expect_err("an old view"));
            // Nothing but a rollback goes on from here.
            let refused = inbox.admit(&tx, &request("another", 1)).await;
            let refused = refused.expect_err("a failed transaction");
            assert_eq!(refused.certainty(), Certainty::NotApplied, "{refused:?}");
            assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused:?}");
            tx.rollback().await.expect("a rollback");

            let tx = begin(&mut user, level).await;
            let again = inbox
                .admit(&tx, &request(&key, 1))
                .await
                .expect("an answer");
            assert!(
                matches!(again, Admission::Busy { .. } | Admission::Replay { .. }),
                "{again:?}"
            );
            tx.commit().await.expect("a commit");
        }
        // With no other transaction in its way, it is as good as any.
        let tx = begin(&mut user, level).await;
        effect(&inbox, &tx, &format!("{name}-alone")).await;
        tx.commit().await.expect("a commit");
        user.batch_execute("DELETE FROM payments")
            .await
            .expect("none");
    }
}

#[tokio::test]
async fn two_serializable_transactions_at_one_key_have_one_effect() {
    let Bank {
        store,
        inbox,
        mut user,
        lab,
        pid,
    } = Bank::new().await;
    let mut other = lab.client().await;
    let first = begin(&mut user, IsolationLevel::Serializable).await;
    let second = begin(&mut other, IsolationLevel::Serializable).await;
    assert_eq!(payments(&first).await + payments(&second).await, 0);
    effect(&inbox, &first, "pay-1").await;
    let watcher = lab.client().await;
    let waiting = request("pay-1", 2);
    let (answer, ()) = tokio::join!(inbox.admit(&second, &waiting), async {
        somebody_waits(&watcher, pid).await;
        first.commit().await.expect("a commit");
    });
    overtaken(&answer.expect_err("it was overtaken"));
    second.rollback().await.expect("a rollback");
    assert_eq!(state(&store, "pay-1").await, Some(StateKind::Completed));
    assert_eq!(count(&user, "payments").await, 1);
}

#[tokio::test]
async fn the_second_at_a_key_waits_for_the_first_and_replays() {
    let Bank {
        inbox,
        mut user,
        lab,
        store,
        pid,
    } = Bank::new().await;
    let mut other = lab.client().await;
    let watcher = lab.client().await;
    for (key, commits) in [("committed", true), ("rolled-back", false)] {
        let first = user.transaction().await.expect("a transaction");
        let second = other.transaction().await.expect("a transaction");
        effect(&inbox, &first, key).await;
        let late = request(key, 2);
        let (answer, ()) = tokio::join!(inbox.admit(&second, &late), async {
            somebody_waits(&watcher, pid).await;
            if commits {
                first.commit().await.expect("a commit");
            } else {
                first.rollback().await.expect("a rollback");
            }
        });
        let answer = answer.expect("an answer");
        if commits {
            assert!(matches!(answer, Admission::Replay { .. }), "{answer:?}");
        } else {
            assert!(matches!(answer, Admission::Granted(_)), "{answer:?}");
        }
        second.commit().await.expect("a commit");
    }
    // A batch of a store waits in the same way, and only for the key that is held.
    let first = user.transaction().await.expect("a transaction");
    effect(&inbox, &first, "held").await;
    let batch = [request("free", 2), request("held", 2)];
    let (answers, ()) = tokio::join!(store.claim(batch.into()), async {
        somebody_waits(&watcher, pid).await;
        first.commit().await.expect("a commit");
    });
    let answers = answers.expect("answers");
    assert!(
        matches!(
            &answers[..],
            [Admission::Granted(_), Admission::Replay { .. }]
        ),
        "{answers:?}"
    );
}

#[tokio::test]
async fn an_error_of_the_user_leaves_neither_effect_nor_record() {
    let Bank {
        store,
        inbox,
        mut user,
        lab: _lab,
        ..
    } = Bank::new().await;
    let tx = user.transaction().await.expect("a transaction");
    let claim = granted(
        inbox
            .admit(&tx, &request("pay-1", 1))
            .await
            .expect("an answer"),
    );
    pay(&tx).await;
    let failed = tx.batch_execute("INSERT INTO nowhere VALUES (1)").await;
    assert!(failed.is_err());
    let refused = inbox
        .complete(&tx, &claim, Outcome::empty(), Window::DEFAULT)
        .await
        .expect_err("the transaction has failed");
    assert_eq!(
        (refused.kind(), refused.certainty()),
        (ErrorKind::InvalidInput, Certainty::NotApplied),
        "{refused:?}"
    );
    assert!(refused.to_string().contains("roll back"), "{refused}");
    // PostgreSQL answers such a COMMIT with a rollback, and no error.
    tx.commit().await.expect("an answer");
    assert_eq!(state(&store, "pay-1").await, None);
    assert_eq!(count(&user, "payments").await, 0);
    let tx = user.transaction().await.expect("a transaction");
    effect(&inbox, &tx, "pay-1").await;
    tx.commit().await.expect("a commit");
    assert_eq!(count(&user, "payments").await, 1);
}

#[tokio::test]
async fn two_that_meet_at_a_new_entity_are_decided_one_after_the_other() {
    let Bank {
        store,
        inbox,
        mut user,
        lab,
        pid,
    } = Bank::new().await;
    let mut other = lab.client().await;
    let watcher = lab.client().await;
    // The first keeps its claim: the second is busy, and has taken nothing.
    let first = user.transaction().await.expect("a transaction");
    let second = other.transaction().await.expect("a transaction");
    let claim = inbox.admit(&first, &gated("a", 1, "cart", 1)).await;
    let claim = granted(claim.expect("an answer"));
    let late = gated("b", 2, "cart", 2);
    let (answer, ()) = tokio::join!(inbox.admit(&second, &late), async {
        somebody_waits(&watcher, pid).await;
        first.commit().await.expect("a commit");
    });
    let answer = answer.expect("an answer");
    assert!(matches!(answer, Admission::Busy { .. }), "{answer:?}");
    second.commit().await.expect("a commit");
    assert_eq!(state(&store, "b").await, None, "a busy key has no record");
    let tx = user.transaction().await.expect("a transaction");
    let settled = inbox
        .complete(&tx, &claim, Outcome::empty(), Window::DEFAULT)
        .await;
    assert!(
        matches!(settled, Ok(Settled::Now(StateKind::Completed))),
        "{settled:?}"
    );
    tx.commit().await.expect("a commit");

    // The first applies a later version: the second is stale.
    let first = user.transaction().await.expect("a transaction");
    let second = other.transaction().await.expect("a transaction");
    let claim = inbox.admit(&first, &gated("c", 1, "order", 5)).await;
    let claim = granted(claim.expect("an answer"));
    let settled = inbox
        .complete(&first, &claim, Outcome::empty(), Window::DEFAULT)
        .await;
    assert!(
        matches!(settled, Ok(Settled::Now(StateKind::Completed))),
        "{settled:?}"
    );
    let late = gated("d", 2, "order", 4);
    let (answer, ()) = tokio::join!(inbox.admit(&second, &late), async {
        somebody_waits(&watcher, pid).await;
        first.commit().await.expect("a commit");
    });
    let answer = answer.expect("an answer");
    assert!(
        matches!(answer, Admission::Stale { applied: 5 }),
        "{answer:?}"
    );
    second.commit().await.expect("a commit");
    assert_eq!(state(&store, "d").await, None);
}

#[tokio::test]
async fn an_inbox_without_its_tables_says_which_are_missing() {
    let Bank {
        mut user,
        lab: _lab,
        ..
    } = Bank::new().await;
    let tx = user.transaction().await.expect("a transaction");
    let error = InboxSteps::in_schema("nowhere")
        .admit(&tx, &request("a", 1))
        .await;
    let error = error.expect_err("no tables");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert_eq!(error.certainty(), Certainty::NotApplied);
}

/// A store, its inbox, and a user's connection to the table of payments.
struct Bank {
    store: PostgresStore,
    inbox: InboxSteps,
    user: Client,
    /// The server's process behind the user's connection.
    pid: i32,
    lab: Lab,
}

impl Bank {
    async fn new() -> Self {
        let lab = Lab::new();
        let store = lab.store().await;
        let user = lab.client().await;
        user.batch_execute("CREATE TABLE payments (id text)")
            .await
            .expect("a table");
        // No test has to wait for another's first use of the scope.
        take(&store, &request("first", 1)).await;
        let row = user.query_one("SELECT pg_backend_pid()", &[]).await;
        Self {
            inbox: store.inbox(),
            store,
            pid: row.expect("a number").get(0),
            user,
            lab,
        }
    }
}

async fn begin(user: &mut Client, level: IsolationLevel) -> Transaction<'_> {
    let transaction = user
        .build_transaction()
        .isolation_level(level)
        .start()
        .await;
    transaction.expect("a transaction")
}

/// Admits, pays and completes.
async fn effect(inbox: &InboxSteps, tx: &Transaction<'_>, key: &str) {
    let answer = inbox.admit(tx, &request(key, 1)).await.expect("an answer");
    let claim = granted(answer);
    pay(tx).await;
    let settled = inbox
        .complete(tx, &claim, Outcome::empty(), Window::DEFAULT)
        .await;
    assert!(
        matches!(settled, Ok(Settled::Now(StateKind::Completed))),
        "{settled:?}"
    );
}

async fn pay(tx: &Transaction<'_>) {
    let paid = tx
        .execute("INSERT INTO payments VALUES ('paid')", &[])
        .await;
    assert_eq!(paid.expect("an effect"), 1);
}

async fn payments(tx: &Transaction<'_>) -> i64 {
    let row = tx.query_one("SELECT count(*) FROM payments", &[]).await;
    row.expect("a count").get(0)
}

/// Waits until a backend waits for this one.
async fn somebody_waits(watcher: &Client, pid: i32) {
    let select = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY(pg_blocking_pids(pid))";
    loop {
        let row = watcher.query_one(select, &[&pid]).await.expect("a count");
        if row.get::<_, i64>(0) > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn overtaken(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Throttled, "{error:?}");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    assert!(matches!(error.advice(), Advice::Retry { .. }), "{error:?}");
}
