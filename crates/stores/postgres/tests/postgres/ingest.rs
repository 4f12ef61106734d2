//! The journal of messages that others send: its laws, and what is PostgreSQL's own.

use std::sync::Arc;
use std::time::Duration;

use semel_conformance::ingest::servers;
use semel_conformance::ingest::{IngestSubject, producer, sent, settled};
use semel_core::ingest::{GateAnswer, Submission};
use semel_core::port::ingest::IngestJournal;
use semel_core::producer::{MOST_INPUTS, ProducerOrder};
use semel_core::{Certainty, Code, ErrorKind};
use semel_store_postgres::{Options, PostgresIngest, inspect, migrate};

use crate::lab::{Lab, at, count, proxy};
use crate::server::Server;
use crate::site::Site;

struct Schema(Site);

impl IngestSubject for Schema {
    type Journal = PostgresIngest;

    async fn open() -> Self {
        Self(Site::new())
    }

    async fn journal(&self) -> PostgresIngest {
        journal(&self.0.url())
    }
}

semel_conformance::ingest_laws!(Schema);

#[tokio::test]
async fn the_first_submission_makes_the_tables_and_a_newer_journal_is_refused() {
    let lab = Lab::new();
    let url = lab.site.url();
    let user = lab.client().await;
    let schemas = format!("pg_namespace WHERE nspname = '{}'", lab.schema());
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    let billing = producer("billing-0a");
    let ordered = journal(&url).order(&billing, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
    let read = journal(&url).accepted(&billing, "orders", 0, 9).await;
    assert_eq!(read.expect("an answer"), None);
    assert_eq!(count(&user, &schemas).await, 0, "looking makes nothing");
    journal(&url)
        .submit(&sent(1, 1, &["a"]))
        .await
        .expect("taken");
    let inspection = inspect(&url, Options::default(), &[]).await;
    let format = inspection.expect("an inspection").format;
    assert_eq!(format, None, "a journal alone is no store");
    for _ in 0..2 {
        migrate(&url, Options::default()).await.expect("migrated");
    }
    assert_eq!(journal(&url).list().await.expect("a list").len(), 1);
    for (format, code) in [(2, Code::StoreNewer), (0, Code::StoreForeign)] {
        let changed = format!("UPDATE ingest_format SET format = {format}");
        user.batch_execute(&changed).await.expect("another format");
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
    let lab = Lab::new();
    let user = lab.client().await;
    let schema = lab.schema();
    let others =
        format!("CREATE SCHEMA {schema}; CREATE TABLE {schema}.ingest_streams (id integer)");
    user.batch_execute(&others)
        .await
        .expect("a table of the user's");
    let error = journal(&lab.site.url()).submit(&sent(1, 1, &["a"])).await;
    let error = error.expect_err("refused");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreForeign, Certainty::NotApplied)
    );
    // Whoever wants a store alone gets it.
    migrate(&lab.site.url(), Options::default())
        .await
        .expect("migrated");
    assert_eq!(count(&user, &format!("{schema}.ingest_streams")).await, 0);
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let lab = Lab::new();
    let user = lab.client().await;
    let schema = lab.schema();
    let role = format!("{schema}_role");
    let made = format!(
        "CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}"
    );
    user.batch_execute(&made).await.expect("a role");
    let url = lab.site.url().replace("semel@", &format!("{role}@"));
    let refused = async |word: &str| {
        let error = journal(&url)
            .submit(&sent(1, 1, &["a"]))
            .await
            .expect_err("no right");
        assert_eq!(
            (error.kind(), error.certainty()),
            (ErrorKind::InvalidConfig, Certainty::NotApplied),
            "{error}"
        );
        assert!(error.to_string().contains(word), "{error}");
    };
    refused("no journal of messages that others send").await;
    migrate(&lab.site.url(), Options::default())
        .await
        .expect("migrated");
    refused("ingest_format").await;
    let tables = ["format", "producers", "streams", "batches", "digests"];
    let tables: Vec<_> = tables
        .iter()
        .map(|it| format!("{schema}.ingest_{it}"))
        .collect();
    let rights = format!(
        "GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {role}",
        tables.join(", ")
    );
    user.batch_execute(&rights).await.expect("rights");
    // These are the rights that the specification names.
    let granted = journal(&url);
    granted.submit(&sent(1, 1, &["a"])).await.expect("taken");
    granted.submit(&sent(1, 2, &["b"])).await.expect("taken");
    let billing = producer("billing-0a");
    let read = granted.accepted(&billing, "orders", 0, 9).await;
    let begun = read.expect("an answer").expect("a stream").begun;
    granted
        .settle(&billing, "orders", settled(begun, 2))
        .await
        .expect("settled");
    drop(granted);
    user.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await
        .expect("no role");
}

#[tokio::test]
async fn a_server_that_is_read_only_takes_nothing_and_shows_what_it_has() {
    let server = Server::start(&[]);
    let url = server.url();
    journal(&url)
        .submit(&sent(1, 1, &["a"]))
        .await
        .expect("taken");
    server.set("default_transaction_read_only", "on").await;
    let reading = journal(&url);
    assert_eq!(reading.list().await.expect("a list").len(), 1);
    let error = reading
        .submit(&sent(1, 2, &["b"]))
        .await
        .expect_err("read-only");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreReadOnly, Certainty::NotApplied),
        "{error}"
    );
    server.set("default_transaction_read_only", "off").await;
    journal(&url)
        .submit(&sent(1, 2, &["b"]))
        .await
        .expect("taken");
}

#[tokio::test]
async fn the_digest_that_came_longest_ago_is_forgotten_first() {
    let lab = Lab::new();
    let journal = journal(&lab.site.url());
    let keyed = async |digest: u8| {
        let submission = semel_conformance::ingest::arrived(Some([digest; 32]), &["a"]);
        match journal.submit(&submission).await.expect("an answer") {
            GateAnswer::Taken { new, .. } => new == 1,
            other => panic!("{other:?}"),
        }
    };
    assert!(keyed(1).await && keyed(2).await);
    let user = lab.client().await;
    let others = i32::try_from(MOST_INPUTS).expect("few") - 2;
    let fill = "INSERT INTO ingest_digests (producer, stream, digest)
                SELECT 'semel-ingest', 'orders', sha256(i::text::bytea) FROM generate_series(1, $1::integer) AS i";
    user.execute(fill, &[&others]).await.expect("filled");
    assert!(!keyed(1).await, "known");
    assert!(keyed(3).await);
    let kept = count(&user, "ingest_digests").await;
    assert_eq!(kept, i64::try_from(MOST_INPUTS).expect("few"));
    assert!(!keyed(2).await && !keyed(3).await);
    assert!(keyed(1).await, "taken again");
}

#[tokio::test]
async fn a_stream_that_no_column_takes_is_refused_by_name() {
    let lab = Lab::new();
    for stream in ["", "a\0b", &"x".repeat(1_001)] {
        let wrong = Submission {
            stream: stream.into(),
            ..sent(1, 1, &["a"])
        };
        let error = journal(&lab.site.url()).submit(&wrong).await;
        assert_eq!(error.expect_err("refused").kind(), ErrorKind::InvalidInput);
    }
}

/// A statement that waits for a lock is decided by the state behind it, not by that of its beginning.
#[tokio::test]
async fn what_waits_for_the_row_of_a_producer_is_fenced_by_an_epoch_that_came_before_it() {
    let lab = Lab::new();
    let journal = Arc::new(journal(&lab.site.url()));
    journal.submit(&sent(1, 1, &["a"])).await.expect("taken");
    let holder = lab.client().await;
    let hold = "BEGIN; UPDATE ingest_producers SET epoch = 2";
    holder.batch_execute(hold).await.expect("held");
    let late = tokio::spawn({
        let journal = Arc::clone(&journal);
        async move { journal.submit(&sent(1, 2, &["late"])).await }
    });
    let waiting = format!(
        "pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%ingest_producers%'",
        lab.schema()
    );
    let user = lab.client().await;
    while count(&user, &waiting).await < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    holder.batch_execute("COMMIT").await.expect("committed");
    let late = late.await.expect("no panic").expect("an answer");
    assert_eq!(late, GateAnswer::Fenced { epoch: 2 });
    assert_eq!(count(&user, "ingest_batches").await, 1);
}

/// Nobody waits for a producer whose row another worker holds, which may be about to take something of it.
#[tokio::test]
async fn a_producer_whose_row_is_held_is_left_for_another_time() {
    let lab = Lab::new();
    let journal = Arc::new(journal(&lab.site.url()));
    let billing = producer("billing-0a");
    journal.submit(&sent(1, 1, &["a"])).await.expect("taken");
    let read = journal.accepted(&billing, "orders", 0, 9).await;
    let begun = read.expect("an answer").expect("a stream").begun;
    journal
        .settle(&billing, "orders", settled(begun, 1))
        .await
        .expect("settled");
    let holder = lab.client().await;
    let long_ago = "UPDATE ingest_streams SET heard = 1";
    holder.batch_execute(long_ago).await.expect("silent");
    let hold = "BEGIN; SELECT FROM ingest_producers FOR UPDATE";
    holder.batch_execute(hold).await.expect("held");
    let silence = semel_core::port::ingest::Silence {
        stream: "orders".into(),
        longest: Duration::from_secs(3_600),
        now: sent(1, 1, &[]).at,
        after: None,
        most: 10,
    };
    let forgotten = journal.forget(&silence).await.expect("an answer");
    assert_eq!(forgotten.producers, [], "somebody has it in hand");
    holder.batch_execute("COMMIT").await.expect("committed");
    assert_eq!(journal.list().await.expect("a list").len(), 1);
    let forgotten = journal.forget(&silence).await.expect("an answer");
    assert_eq!(forgotten.producers, [billing]);
}

#[tokio::test]
async fn processes_that_make_the_tables_at_once_all_find_them() {
    let lab = Lab::new();
    let url = lab.site.url();
    let migrate = || {
        let url = url.clone();
        async move { migrate(&url, Options::default()).await.map(drop) }
    };
    servers::processes_that_make_the_tables_at_once_all_find_them(|| journal(&url), migrate).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_take_in_at_once_take_each_message_once() {
    let lab = Lab::new();
    let url = lab.site.url();
    servers::workers_that_take_in_at_once_take_each_message_once(|| journal(&url)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_whose_answer_is_lost_is_known_when_it_is_made_again() {
    let lab = Lab::new();
    let proxy = proxy();
    let journal = journal(&at(&lab.site.url(), proxy.address()));
    let cut = |sequence| sequence * 7 % 400;
    servers::a_submission_whose_answer_is_lost_is_known_when_it_is_made_again(
        &journal, &proxy, cut, 15,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_killed_server() {
    // So that nothing but the journal's own settings makes a commit durable.
    let mut server = Server::start(&["fsync=on", "synchronous_commit=off", "wal_writer_delay=10s"]);
    let url = server.url();
    servers::what_was_answered_survives_a_killed_server(&mut server, || journal(&url)).await;
}

fn journal(url: &str) -> PostgresIngest {
    PostgresIngest::new(url, &Options::default()).expect("a journal")
}
