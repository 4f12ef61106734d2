//! The journal of producers: its laws, and what is PostgreSQL's own.

mod waits;

use semel_conformance::producers::servers::{self, KilledServer};
use semel_conformance::producers::{self, ProducerSubject, batch};
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{Batch, InputMark, MOST_INPUTS, Opening, ProducerOrder};
use semel_core::{Certainty, Code, Error, ErrorKind};
use semel_store_postgres::{Options, PostgresProducers, inspect, migrate};

use crate::lab::{Lab, at, connect, count, proxy};
use crate::server::Server;
use crate::site::Site;

impl ProducerSubject for Site {
    type Journal = PostgresProducers;

    async fn open() -> Self {
        Self::new()
    }

    async fn journal(&self) -> PostgresProducers {
        journal(&self.url())
    }
}

semel_conformance::producer_laws!(Site);

#[tokio::test]
async fn the_first_opening_makes_the_tables_and_a_newer_journal_is_refused() {
    let lab = Lab::new();
    let url = lab.site.url();
    let user = lab.client().await;
    let schemas = format!("pg_namespace WHERE nspname = '{}'", lab.schema());
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    let name = "billing".parse().expect("a name");
    let ordered = journal(&url).order(&name, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
    assert_eq!(count(&user, &schemas).await, 0, "looking makes nothing");
    journal(&url).open(&opening()).await.expect("opened");
    let inspection = inspect(&url, Options::default(), &[]).await;
    let format = inspection.expect("an inspection").format;
    assert_eq!(format, None, "a journal alone is no store");
    // A store beside it, and a second migration changes nothing.
    for _ in 0..2 {
        migrate(&url, Options::default()).await.expect("migrated");
    }
    let again = journal(&url).open(&opening()).await.expect("opened");
    assert_eq!(again.incarnation.epoch, 2);
    let newer = "UPDATE producer_format SET format = 2";
    user.batch_execute(newer).await.expect("a newer format");
    for error in [
        journal(&url).open(&opening()).await.map(drop),
        journal(&url).list().await.map(drop),
        migrate(&url, Options::default()).await.map(drop),
    ] {
        let error = error.expect_err("refused");
        assert_eq!(error.code(), Code::StoreNewer);
        assert!(error.to_string().contains("format 2"), "{error}");
    }
    let none = "UPDATE producer_format SET format = 0";
    user.batch_execute(none).await.expect("none");
    let error = journal(&url).open(&opening()).await.expect_err("refused");
    assert_eq!(error.code(), Code::StoreForeign);
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

#[tokio::test]
async fn other_tables_under_the_names_of_the_journal_are_left_alone() {
    let lab = Lab::new();
    let user = lab.client().await;
    let schema = lab.schema();
    user.batch_execute(&format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {schema}.producers (id integer)"
    ))
    .await
    .expect("a table of the user's");
    let error = journal(&lab.site.url()).open(&opening()).await;
    let error = error.expect_err("refused");
    assert_eq!(error.code(), Code::StoreForeign);
    assert!(error.to_string().contains(&schema), "{error}");
    // Whoever wants a store alone gets it.
    migrate(&lab.site.url(), Options::default())
        .await
        .expect("migrated");
    assert_eq!(count(&user, &format!("{schema}.producers")).await, 0);
}

/// A worker asks every few seconds, also where nobody publishes.
#[tokio::test]
async fn looking_for_a_journal_leaves_no_error_in_the_log() {
    let server = Server::start(&[]);
    let url = server.url();
    let journal = journal(&url);
    for made in [false, true] {
        for _ in 0..3 {
            assert_eq!(journal.list().await.expect("a list"), [], "{made}");
        }
        let name = "billing".parse().expect("a name");
        let ordered = journal.order(&name, ProducerOrder::Freeze).await;
        assert!(!ordered.expect("an answer"), "{made}");
        if !made {
            drop(connect(&url, Options::default()).await);
        }
    }
    let log = server.log();
    assert!(!log.contains("producer_format"), "{log}");
}

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let lab = Lab::new();
    let user = lab.client().await;
    let schema = lab.schema();
    let role = format!("{schema}_role");
    user.batch_execute(&format!(
        "CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}"
    ))
    .await
    .expect("a role");
    let url = lab.site.url().replace("semel@", &format!("{role}@"));
    let refused = async || journal(&url).open(&opening()).await.expect_err("no right");
    let error = refused().await;
    says(
        &error,
        &["no journal of producers", &schema, "store migrate"],
    );
    migrate(&lab.site.url(), Options::default())
        .await
        .expect("migrated");
    says(
        &refused().await,
        &["lacks a right", "producer_format", "docs/spec/postgres.md"],
    );
    // Whoever has rights on a store alone migrates nothing, and is not refused for it.
    let store = format!("GRANT SELECT ON {schema}.meta TO {role}");
    user.batch_execute(&store).await.expect("a right");
    let migrated = migrate(&url, Options::default()).await;
    migrated.expect("nothing to do");
    user.batch_execute(&format!(
        "GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
    ))
    .await
    .expect("rights");
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    says(&refused().await, &["lacks a right", "producers"]);
    user.batch_execute(&format!(
        "GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
    ))
    .await
    .expect("rights");
    // These are the rights that the specification names.
    let granted = journal(&url);
    let opened = granted.open(&opening()).await.expect("opened").incarnation;
    let read = Batch {
        input: Some(mark(7)),
        ..batch(1, &["a"])
    };
    let appended = granted.append(&opened, "orders", &read).await;
    appended.expect("appended");
    let confirmed = granted.confirm(&opened, "orders", 1).await;
    confirmed.expect("confirmed");
    drop(granted);
    user.batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .await
        .expect("no role");
}

#[tokio::test]
async fn the_input_used_longest_ago_is_forgotten_first() {
    let lab = Lab::new();
    let journal = journal(&lab.site.url());
    let opened = journal.open(&opening()).await.expect("opened").incarnation;
    let use_of = async |digest| {
        let end = Batch {
            input: Some(mark(digest)),
            ..batch(1, &[])
        };
        let appended = journal.append(&opened, "orders", &end).await;
        appended.expect("appended");
    };
    use_of(1).await;
    use_of(2).await;
    let user = lab.client().await;
    let others = i32::try_from(MOST_INPUTS).expect("few") - 2;
    let filled = user
        .execute(
            "INSERT INTO producer_inputs (producer, stream, digest, read, bytes, whole)
             SELECT 'billing', 'orders', sha256(i::text::bytea), 1, 1, true FROM generate_series(1, $1::integer) AS i",
            &[&others],
        )
        .await;
    assert_eq!(filled.expect("filled"), MOST_INPUTS as u64 - 2);
    use_of(1).await;
    use_of(3).await;
    for (digest, is_known) in [(1, true), (2, false), (3, true)] {
        let mark = journal.input(&opened, "orders", &[digest; 32]).await;
        assert_eq!(mark.expect("an answer").is_some(), is_known, "{digest}");
    }
    let kept = count(&user, "producer_inputs").await;
    assert_eq!(kept, i64::try_from(MOST_INPUTS).expect("few"));
}

#[tokio::test]
async fn a_stream_that_no_column_takes_is_refused_by_name() {
    let lab = Lab::new();
    for stream in ["", "a\0b", &"x".repeat(1_001)] {
        let wrong = Opening {
            stream: stream.into(),
            ..opening()
        };
        let error = journal(&lab.site.url()).open(&wrong).await;
        let error = error.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let widest = Opening {
        stream: "é".repeat(500).into(),
        ..opening()
    };
    let journal = journal(&lab.site.url());
    let opened = journal.open(&widest).await.expect("opened").incarnation;
    let one = batch(1, &["a"]);
    let appended = journal.append(&opened, &widest.stream, &one).await;
    appended.expect("appended");
    for error in [
        journal.append(&opened, "a\0b", &one).await.map(drop),
        journal.confirm(&opened, "a\0b", 1).await.map(drop),
        journal.pending(&opened, "a\0b", 0, 1).await.map(drop),
        journal.input(&opened, "a\0b", &[7; 32]).await.map(drop),
    ] {
        let error = error.expect_err("not opened");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

#[tokio::test]
async fn an_append_that_comes_late_is_fenced() {
    let lab = Lab::new();
    let proxy = proxy();
    let slow = journal(&at(&lab.site.url(), proxy.address()));
    let fast = journal(&lab.site.url());
    servers::an_append_that_comes_late_is_fenced(slow, &fast, &proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_answer_is_lost_is_known_when_it_is_made_again() {
    let lab = Lab::new();
    let proxy = proxy();
    let journal = journal(&at(&lab.site.url(), proxy.address()));
    let cut = |sequence| sequence * 7 % 400;
    servers::an_append_whose_answer_is_lost_is_known_when_it_is_made_again(
        &journal, &proxy, cut, 15,
    )
    .await;
}

impl KilledServer for Server {
    fn kill(&mut self) {
        Self::kill(self);
    }

    async fn start(&mut self) {
        self.run();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_killed_server() {
    // So that nothing but the journal's own settings makes a commit durable.
    let mut server = Server::start(&["fsync=on", "synchronous_commit=off", "wal_writer_delay=10s"]);
    let url = server.url();
    servers::what_was_answered_survives_a_killed_server(&mut server, || journal(&url)).await;
}

fn mark(digest: u8) -> InputMark {
    InputMark {
        digest: [digest; 32],
        rows: 1,
        bytes: 1,
        is_whole: true,
    }
}

fn journal(url: &str) -> PostgresProducers {
    PostgresProducers::new(url, &Options::default()).expect("a journal")
}

fn opening() -> Opening {
    producers::opening("billing", "orders")
}

#[track_caller]
fn says(error: &Error, words: &[&str]) {
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::InvalidConfig, Certainty::NotApplied),
        "{error:?}"
    );
    let line = error.to_string();
    for word in words {
        assert!(line.contains(word), "no {word:?} in: {line}");
    }
}
