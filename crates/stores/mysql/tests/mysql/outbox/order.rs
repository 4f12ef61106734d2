//! The order of messages, where transactions get in each other's way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{IsolationLevel, TxOpts};
use semel_conformance::outbox::readers::{leases, message, pending, relay, texts};
use semel_core::outbox::{OutboxId, PARTITIONS};
use semel_core::port::outbox::OutboxStore;
use semel_core::{Advice, Certainty, Code, ErrorKind};
use semel_store_mysql::MysqlOutbox;

use super::{begin, insert, outbox, publish_all};
use crate::lab::{Lab, fresh_database};

/// Six writers, three keys, commits and rollbacks, and a relay that reads and removes meanwhile: what it reads of a key is
/// in the order in which the transactions committed, which each notes last, while it is alone with its keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_order_of_commits_holds_with_writers_at_once() {
    let database = Arc::new(fresh_database().await);
    let outbox = outbox(&database).await;
    database
        .run("CREATE TABLE notes (number BIGINT AUTO_INCREMENT PRIMARY KEY, k CHAR(1), text VARCHAR(40))")
        .await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..6 {
        let database = Arc::clone(&database);
        writers.spawn(async move {
            let mut connection = database.connect().await;
            let (mut number, mut again) = (0, 0);
            while number < 40 {
                let mut keys = ["a", "b", "c"];
                keys.rotate_left((writer + number) % 3);
                let keys = &keys[..=number % 3];
                let text = format!("{writer} {number}");
                let mut tx = begin(&mut connection).await;
                let messages: Vec<_> = keys.iter().map(|key| message(&text, Some(key))).collect();
                if publish_all(&mut tx, &messages).await.is_none() {
                    tx.rollback().await.expect("undone");
                    again += 1;
                    continue;
                }
                for key in keys {
                    let note = format!("INSERT INTO notes (k, text) VALUES ('{key}', '{text}')");
                    tx.query_drop(note).await.expect("a note");
                }
                if (number + writer) % 5 == 4 {
                    tx.rollback().await.expect("undone");
                } else {
                    tx.commit().await.expect("committed");
                }
                number += 1;
            }
            again
        });
    }
    let over = Arc::clone(&is_over);
    let reading = tokio::spawn(async move {
        let leases = leases(&outbox, "one").await;
        let mut read: BTreeMap<String, Vec<String>> = BTreeMap::new();
        loop {
            let was_over = over.load(Ordering::Acquire);
            // Few at a time, so that much is committed between two looks.
            let seen = outbox.pending(&relay("one"), &leases, 7).await;
            let seen = seen.expect("rows");
            if seen.is_empty() && was_over {
                return read;
            }
            for (it, text) in seen.iter().zip(texts(&seen)) {
                let key = it.order_key.as_deref().expect("a key").to_owned();
                read.entry(key).or_default().push(text);
            }
            let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
            outbox.sent(&ids, false).await.expect("recorded");
        }
    });
    let repeated: u32 = writers.join_all().await.into_iter().sum();
    is_over.store(true, Ordering::Release);
    let read = reading.await.expect("a reader");
    let mut connection = database.connect().await;
    for key in ["a", "b", "c"] {
        let select = format!("SELECT text FROM notes WHERE k = '{key}' ORDER BY number");
        let committed: Vec<String> = connection.query(select).await.expect("notes");
        assert!(committed.len() > 50, "{committed:?}");
        assert_eq!(read[key], committed, "{key}, with {repeated} repetitions");
    }
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_not_missed() {
    let database = fresh_database().await;
    let outbox = outbox(&database).await;
    let leases = leases(&outbox, "one").await;
    let (mut late, mut early) = (database.connect().await, database.connect().await);
    let mut late = begin(&mut late).await;
    MysqlOutbox::publish(&mut late, &message("late", None))
        .await
        .expect("an id");
    for number in 0..3 {
        insert(&mut early, &format!("early {number}"), None).await;
    }
    let seen = outbox.pending(&relay("one"), &leases, 10).await;
    let seen = seen.expect("rows");
    assert_eq!(texts(&seen), ["early 0", "early 1", "early 2"]);
    let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
    outbox.sent(&ids, false).await.expect("recorded");
    late.commit().await.expect("committed");
    let last = outbox.pending(&relay("one"), &leases, 10).await;
    let last = last.expect("rows");
    assert_eq!(texts(&last), ["late"]);
    assert!(last[0].place < seen[0].place, "behind what was published");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_of_two_writers_asks_one_to_begin_again() {
    let lab = Lab::new().await;
    let outbox = outbox(&lab.database).await;
    let (mut one, mut two) = (lab.database.connect().await, lab.database.connect().await);
    let mut first = begin(&mut one).await;
    let mut tx = begin(&mut two).await;
    let publish = MysqlOutbox::publish(&mut first, &message("1 a", Some("a"))).await;
    publish.expect("an id");
    let publish = MysqlOutbox::publish(&mut tx, &message("2 b", Some("b"))).await;
    publish.expect("an id");
    let (b, a) = (message("1 b", Some("b")), message("2 a", Some("a")));
    let (got, other) = tokio::join!(MysqlOutbox::publish(&mut first, &b), async {
        one_waits(&lab).await;
        MysqlOutbox::publish(&mut tx, &a).await
    });
    let refused = [&got, &other]
        .into_iter()
        .filter_map(|it| it.as_ref().err());
    let refused: Vec<_> = refused.collect();
    let [error] = &*refused else {
        panic!("one of them: {got:?} {other:?}");
    };
    assert_eq!(error.kind(), ErrorKind::Throttled);
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::Throttled, Certainty::NotApplied)
    );
    assert!(matches!(error.advice(), Advice::Retry { .. }), "{error:?}");
    let (expected, is_first) = match got {
        Ok(_) => (["1 a", "1 b"], true),
        Err(_) => (["2 b", "2 a"], false),
    };
    if is_first {
        tx.rollback().await.expect("undone");
        first.commit().await.expect("committed");
    } else {
        first.rollback().await.expect("undone");
        tx.commit().await.expect("committed");
    }
    let leases = leases(&outbox, "one").await;
    let mut seen = pending(&outbox, "one", &leases).await;
    seen.sort();
    let mut expected = expected;
    expected.sort_unstable();
    assert_eq!(seen, expected, "nothing of the one that was undone");
}

#[tokio::test]
async fn an_old_snapshot_keeps_the_order_or_is_refused_to_be_repeated() {
    let database = fresh_database().await;
    let outbox = outbox(&database).await;
    let leases = leases(&outbox, "one").await;
    let (mut first, mut second) = (database.connect().await, database.connect().await);
    for (level, is_checked) in [
        (IsolationLevel::RepeatableRead, "OFF"),
        (IsolationLevel::Serializable, "OFF"),
        // The default of MariaDB from 11.6 on.
        (IsolationLevel::RepeatableRead, "ON"),
    ] {
        let set = format!("SET innodb_snapshot_isolation = {is_checked}");
        second.query_drop(set).await.expect("a setting");
        let mut options = TxOpts::default();
        options.with_isolation_level(level);
        let begun = second.start_transaction(options).await;
        let mut strict = begun.expect("a transaction");
        let seen: Option<u64> = strict
            .query_first("SELECT COUNT(*) FROM semel_outbox_format")
            .await
            .expect("a snapshot");
        assert_eq!(seen, Some(1));
        insert(&mut first, "between", Some("k")).await;
        let published = MysqlOutbox::publish(&mut strict, &message("strict", Some("k"))).await;
        let mut expected = vec!["between"];
        match published {
            Ok(_) => {
                expected.push("strict");
                strict.commit().await.expect("committed");
            }
            Err(error) => {
                assert_eq!(
                    (error.kind(), is_checked),
                    (ErrorKind::Throttled, "ON"),
                    "{error}"
                );
                strict.rollback().await.expect("undone");
            }
        }
        let seen = outbox.pending(&relay("one"), &leases, 10).await;
        let seen = seen.expect("rows");
        assert_eq!(texts(&seen), expected, "{level}");
        let ids: Vec<OutboxId> = seen.iter().map(|it| it.id).collect();
        outbox.sent(&ids, false).await.expect("recorded");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_renewed_while_another_process_reaches_for_it_stays() {
    let lab = Lab::new().await;
    let outbox = outbox(&lab.database).await;
    leases(&outbox, "one").await;
    lab.database
        .run("UPDATE semel_outbox_leases SET until = 0")
        .await;
    lab.database.run("DELETE FROM semel_outbox_processes").await;
    let mut connection = lab.database.connect().await;
    let mut renewing = begin(&mut connection).await;
    let renew = "UPDATE semel_outbox_leases SET until = 9223372036854775807 WHERE part = 7";
    renewing.query_drop(renew).await.expect("renewed");
    let taking = tokio::spawn(async move { leases(&outbox, "two").await });
    one_waits(&lab).await;
    renewing.commit().await.expect("committed");
    let taken = taking.await.expect("leases");
    assert_eq!(taken.len(), usize::from(PARTITIONS) - 1);
    assert!(taken.iter().all(|it| it.partition != 7), "{taken:?}");
}

/// Waits until a transaction waits for another one.
async fn one_waits(lab: &Lab) {
    let waiting = tokio::time::timeout(Duration::from_secs(60), lab.waiting_session());
    waiting.await.expect("it waits for a row");
}
