//! The journal of messages that others send: its laws, and what is MySQL's own.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_conformance::ingest::servers;
use semel_conformance::ingest::{IngestSubject, arrived, producer, sent, settled};
use semel_core::ingest::{GateAnswer, Numbering, Submission};
use semel_core::port::ingest::{IngestJournal, Silence};
use semel_core::producer::{MOST_INPUTS, ProducerMessage, ProducerOrder};
use semel_core::{Certainty, Code, ErrorKind};
use semel_store_mysql::{MysqlIngest, Options, migrate};

use crate::database::Database;
use crate::lab::fresh_database;
use crate::outbox::rights::Guest;
use crate::own::Server;
use crate::producers::{behind, count};

struct Journal(Database);

impl IngestSubject for Journal {
    type Journal = MysqlIngest;

    async fn open() -> Self {
        Self(fresh_database().await)
    }

    async fn journal(&self) -> MysqlIngest {
        journal(&self.0.url())
    }
}

semel_conformance::ingest_laws!(Journal);

#[tokio::test]
async fn the_first_submission_makes_the_tables_and_a_newer_journal_is_refused() {
    let database = fresh_database().await;
    let url = database.url();
    let tables = "information_schema.tables WHERE table_schema = DATABASE()";
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    let billing = producer("billing-0a");
    let ordered = journal(&url).order(&billing, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
    let read = journal(&url).accepted(&billing, "orders", 0, 9).await;
    assert_eq!(read.expect("an answer"), None);
    assert_eq!(count(&database, tables).await, 0, "looking makes nothing");
    journal(&url)
        .submit(&sent(1, 1, &["a"]))
        .await
        .expect("taken");
    assert_eq!(count(&database, tables).await, 5);
    for _ in 0..2 {
        migrate(&url, Options::default()).await.expect("migrated");
    }
    assert_eq!(journal(&url).list().await.expect("a list").len(), 1);
    // Another prefix is another journal.
    let other = journal(&format!("{url}?prefix=other_"));
    other.submit(&sent(1, 1, &["a"])).await.expect("taken");
    // A making that broke off is gone on with, and what was made is kept.
    database.run("DELETE FROM semel_ingest_format").await;
    database.run("DROP TABLE semel_ingest_digests").await;
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    let again = journal(&url).submit(&sent(1, 2, &["b"])).await;
    assert!(
        matches!(again, Ok(GateAnswer::Taken { next: 3, .. })),
        "{again:?}"
    );
    for (format, code) in [(2, Code::StoreNewer), (0, Code::StoreForeign)] {
        let changed = format!("UPDATE semel_ingest_format SET format = {format}");
        database.run(&changed).await;
        for error in [
            journal(&url).submit(&sent(1, 1, &["a"])).await.map(drop),
            journal(&url).list().await.map(drop),
            migrate(&url, Options::default()).await.map(drop),
        ] {
            assert_eq!(error.expect_err("refused").code(), code);
        }
    }
}

#[tokio::test]
async fn other_tables_under_the_names_of_the_journal_are_left_alone() {
    let database = fresh_database().await;
    database
        .run("CREATE TABLE semel_ingest_streams (id INT)")
        .await;
    let error = journal(&database.url()).submit(&sent(1, 1, &["a"])).await;
    let error = error.expect_err("refused");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreForeign, Certainty::NotApplied)
    );
    assert!(
        error.to_string().contains("semel_ingest_streams"),
        "{error}"
    );
    // Whoever wants a store alone gets it.
    migrate(&database.url(), Options::default())
        .await
        .expect("migrated");
    assert_eq!(count(&database, "semel_ingest_streams").await, 0);
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let database = fresh_database().await;
    let guest = Guest::of(&database, "sender").await;
    guest.may("SELECT", "*").await;
    let refused = async |word: &str| {
        let error = journal(&guest.url).submit(&sent(1, 1, &["a"])).await;
        let error = error.expect_err("no right");
        assert_eq!(
            (error.kind(), error.certainty()),
            (ErrorKind::InvalidConfig, Certainty::NotApplied),
            "{error}"
        );
        assert!(error.to_string().contains(word), "{error}");
    };
    refused("no journal of messages that others send").await;
    migrate(&database.url(), Options::default())
        .await
        .expect("made");
    refused("lacks a right").await;
    for table in ["producers", "streams", "batches", "digests"] {
        let table = format!("semel_ingest_{table}");
        guest.may("SELECT, INSERT, UPDATE, DELETE", &table).await;
    }
    // These are the rights that the specification names.
    let granted = journal(&guest.url);
    granted.submit(&sent(1, 1, &["a"])).await.expect("taken");
    granted
        .submit(&arrived(Some([7; 32]), &["b"]))
        .await
        .expect("taken");
    let billing = producer("billing-0a");
    let read = granted.accepted(&billing, "orders", 0, 9).await;
    let begun = read.expect("an answer").expect("a stream").begun;
    granted
        .settle(&billing, "orders", settled(begun, 1))
        .await
        .expect("settled");
    drop(granted);
    guest.leave().await;
}

#[tokio::test]
async fn a_server_that_is_read_only_takes_nothing_and_shows_what_it_has() {
    let server = Server::with(&[]).await;
    let database = Database::on(&server.url("mysql")).await;
    let url = database.url();
    journal(&url)
        .submit(&sent(1, 1, &["a"]))
        .await
        .expect("taken");
    // The user of these tests may write all the same.
    database.run("SET GLOBAL read_only = 1").await;
    let reading = journal(&url);
    assert_eq!(reading.list().await.expect("a list").len(), 1);
    let error = reading
        .submit(&sent(1, 2, &["b"]))
        .await
        .expect_err("a replica");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreReadOnly, Certainty::NotApplied),
        "{error}"
    );
    database.run("SET GLOBAL read_only = 0").await;
    journal(&url)
        .submit(&sent(1, 2, &["b"]))
        .await
        .expect("taken");
}

#[tokio::test]
async fn the_digest_that_came_longest_ago_is_forgotten_first() {
    let database = fresh_database().await;
    let journal = journal(&database.url());
    let keyed = async |digest: u8| {
        let submission = arrived(Some([digest; 32]), &["a"]);
        match journal.submit(&submission).await.expect("an answer") {
            GateAnswer::Taken { new, .. } => new == 1,
            other => panic!("{other:?}"),
        }
    };
    assert!(keyed(1).await && keyed(2).await);
    let others = (0..MOST_INPUTS - 2).map(|it| {
        format!(
            "('semel-ingest', 'orders', UNHEX(SHA2('{it}', 256)), {})",
            it + 3
        )
    });
    let fill = format!(
        "INSERT INTO semel_ingest_digests (producer, stream, digest, place) VALUES {}",
        others.collect::<Vec<_>>().join(",")
    );
    database.run(&fill).await;
    assert!(!keyed(1).await, "known");
    assert!(keyed(3).await);
    let kept = count(&database, "semel_ingest_digests").await;
    assert_eq!(kept, MOST_INPUTS as u64);
    assert!(!keyed(2).await && !keyed(3).await);
    assert!(keyed(1).await, "taken again");
}

/// Nobody waits for a producer whose row another worker holds, which may have stopped; the others are forgotten.
#[tokio::test]
async fn a_producer_whose_row_is_held_is_left_for_another_time() {
    let database = fresh_database().await;
    let journal = journal(&database.url());
    for name in ["a", "b", "c"] {
        let mut submission = sent(1, 1, &["x"]);
        if let Numbering::Sender { producer: id, .. } = &mut submission.numbering {
            *id = producer(name);
        }
        journal.submit(&submission).await.expect("taken");
        let name = producer(name);
        let read = journal.accepted(&name, "orders", 0, 9).await;
        let begun = read.expect("an answer").expect("a stream").begun;
        let done = journal.settle(&name, "orders", settled(begun, 1));
        done.await.expect("settled");
    }
    database
        .run("UPDATE semel_ingest_streams SET heard = 1")
        .await;
    let silence = Silence {
        stream: "orders".into(),
        longest: Duration::from_secs(3_600),
        now: sent(1, 1, &[]).at,
        after: None,
        most: 10,
    };
    let mut holder = database.connect().await;
    let hold = "SELECT 1 FROM semel_ingest_producers WHERE producer = 'b' FOR UPDATE";
    holder.query_drop("BEGIN").await.expect("begun");
    holder.query_drop(hold).await.expect("held");
    // Whoever waited would do so for as long as the server lets a session wait, and fail.
    let forgotten = journal.forget(&silence).await.expect("an answer");
    assert_eq!(forgotten.producers, ["a", "c"].map(producer));
    holder.query_drop("ROLLBACK").await.expect("let go");
    let forgotten = journal.forget(&silence).await.expect("an answer");
    assert_eq!(forgotten.producers, [producer("b")]);
    assert_eq!(journal.list().await.expect("a list"), []);
}

/// A producer that is made between the lock, which found nothing to lock, and the look whether the batch is the next one:
/// nothing is written without the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_producer_that_is_made_after_the_lock_was_looked_for_is_locked_before_anything_is_written()
 {
    let database = fresh_database().await;
    let journal = Arc::new(journal(&database.url()));
    // Makes the tables.
    journal.submit(&arrived(None, &["a"])).await.expect("taken");
    let (mut table, mut other) = (database.connect().await, database.connect().await);
    let closed = "LOCK TABLES semel_ingest_streams WRITE";
    table.query_drop(closed).await.expect("locked");
    let submitted = tokio::spawn({
        let (journal, batch) = (Arc::clone(&journal), sent(1, 2, &["b", "c"]));
        async move { journal.submit(&batch).await }
    });
    // It has looked for the row of the producer, and waits for the streams.
    let waits =
        "information_schema.processlist WHERE db = DATABASE() AND state LIKE 'Waiting for table%'";
    while count(&database, waits).await == 0 {
        assert!(!submitted.is_finished(), "it does not wait for the streams");
        tokio::task::yield_now().await;
    }
    let name = "'billing-0a'";
    let streams = format!(
        "INSERT INTO semel_ingest_streams (producer, stream, begun, next, confirmed, released, heard) \
         VALUES ({name}, 'orders', 1, 2, 1, 1, 1)"
    );
    table.query_drop(streams).await.expect("a stream");
    let made = format!("INSERT INTO semel_ingest_producers (producer, epoch) VALUES ({name}, 1)");
    other.query_drop(made).await.expect("a producer");
    table.query_drop("UNLOCK TABLES").await.expect("unlocked");
    // The sender sends it again, and then the row is there to be locked.
    let answer = submitted.await.expect("an end").expect("an answer");
    assert_eq!(answer, GateAnswer::Unknown { expected: 1 });
    let written = "semel_ingest_batches WHERE producer = 'billing-0a'";
    assert_eq!(count(&database, written).await, 0);
    let again = journal.submit(&sent(1, 2, &["b", "c"])).await;
    let taken = GateAnswer::Taken {
        known: 0,
        new: 2,
        next: 4,
        is_kept: false,
    };
    assert_eq!(again.expect("an answer"), taken);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_by_name() {
    let database = fresh_database().await;
    let url = database.url();
    for stream in ["", "a\0b", &"x".repeat(1_001)] {
        let wrong = Submission {
            stream: stream.into(),
            ..sent(1, 1, &["a"])
        };
        let error = journal(&url).submit(&wrong).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let mut connection = database.connect().await;
    let most: Option<u64> = connection
        .query_first("SELECT @@max_allowed_packet")
        .await
        .expect("a limit");
    let most = usize::try_from(most.expect("a number")).expect("a size");
    let large = Submission {
        messages: [ProducerMessage::new(vec![b'x'; most])].into(),
        ..sent(1, 1, &[])
    };
    let error = journal(&url).submit(&large).await.expect_err("refused");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::InvalidInput, Certainty::NotApplied),
        "{error}"
    );
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    assert_eq!(journal(&url).list().await.expect("a list"), []);
}

#[tokio::test]
async fn processes_that_make_the_tables_at_once_all_find_them() {
    let database = fresh_database().await;
    let url = database.url();
    let migrate = || {
        let url = url.clone();
        async move { migrate(&url, Options::default()).await.map(drop) }
    };
    servers::processes_that_make_the_tables_at_once_all_find_them(|| journal(&url), migrate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_take_in_at_once_take_each_message_once() {
    let database = fresh_database().await;
    let url = database.url();
    servers::workers_that_take_in_at_once_take_each_message_once(|| journal(&url)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_whose_answer_is_lost_is_known_when_it_is_made_again() {
    let database = fresh_database().await;
    let (proxy, near) = behind(&database);
    let cut = |sequence| sequence * 37 % 1_200;
    servers::a_submission_whose_answer_is_lost_is_known_when_it_is_made_again(
        &journal(&near),
        &proxy,
        cut,
        10,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_killed_server() {
    let mut server = Server::with(&["--log-bin=binlog", "--sync-binlog=1"]).await;
    let database = Database::on(&server.url("mysql")).await;
    let url = database.url();
    servers::what_was_answered_survives_a_killed_server(&mut server, || journal(&url)).await;
}

fn journal(url: &str) -> MysqlIngest {
    MysqlIngest::new(url, &Options::default()).expect("a journal")
}
