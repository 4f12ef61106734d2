//! The journal of producers: its laws, and what is MySQL's own.

mod refusals;

use mysql_async::prelude::Queryable;
use semel_conformance::producers::servers::{self, KilledServer};
use semel_conformance::producers::{self, ProducerSubject, batch};
use semel_conformance::proxy::Proxy;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::{
    Batch, Incarnation, InputMark, MOST_INPUTS, Opening, ProducerMessage, ProducerOrder, encode,
};
use semel_core::{Certainty, Code, Error, ErrorKind};
use semel_store_mysql::{MysqlProducers, Options, inspect, migrate};

use crate::database::Database;
use crate::lab::fresh_database;
use crate::outbox::rights::Guest;
use crate::own::Server;
use crate::proxy::address;

struct Journal(Database);

impl ProducerSubject for Journal {
    type Journal = MysqlProducers;

    async fn open() -> Self {
        Self(fresh_database().await)
    }

    async fn journal(&self) -> MysqlProducers {
        journal(&self.0.url())
    }
}

semel_conformance::producer_laws!(Journal);

#[tokio::test]
async fn the_first_opening_makes_the_tables_and_a_newer_journal_is_refused() {
    let database = fresh_database().await;
    let url = database.url();
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    let name = "billing".parse().expect("a name");
    let ordered = journal(&url).order(&name, ProducerOrder::Freeze).await;
    assert!(!ordered.expect("an answer"));
    assert_eq!(tables(&database).await, 0, "looking makes nothing");
    journal(&url).open(&opening()).await.expect("opened");
    assert_eq!(tables(&database).await, 5);
    let inspection = inspect(&url, Options::default(), &[]).await;
    let format = inspection.expect("an inspection").format;
    assert_eq!(format, None, "a journal alone is no store");
    // A store beside it, and a second migration changes nothing.
    for _ in 0..2 {
        migrate(&url, Options::default()).await.expect("migrated");
    }
    let again = journal(&url).open(&opening()).await.expect("opened");
    assert_eq!(again.incarnation.epoch, 2);
    // Another prefix is another journal.
    let other = format!("{url}?prefix=other_");
    let apart = journal(&other).open(&opening()).await.expect("opened");
    assert_eq!(apart.incarnation.epoch, 1);
    database
        .run("UPDATE semel_producer_format SET format = 2")
        .await;
    for error in [
        journal(&url).open(&opening()).await.map(drop),
        journal(&url).list().await.map(drop),
        migrate(&url, Options::default()).await.map(drop),
    ] {
        let error = error.expect_err("refused");
        assert_eq!(error.code(), Code::StoreNewer);
        assert!(error.to_string().contains("format 2"), "{error}");
    }
}

#[tokio::test]
async fn a_making_that_broke_off_is_gone_on_with() {
    let database = fresh_database().await;
    let url = database.url();
    journal(&url).open(&opening()).await.expect("opened");
    database.run("DELETE FROM semel_producer_format").await;
    database.run("DROP TABLE semel_producer_inputs").await;
    assert_eq!(journal(&url).list().await.expect("a list"), []);
    let again = journal(&url).open(&opening()).await.expect("opened");
    assert_eq!(again.incarnation.epoch, 2, "what was made is kept");
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

#[tokio::test]
async fn a_user_without_rights_is_told_which() {
    let database = fresh_database().await;
    let guest = Guest::of(&database, "producer").await;
    guest.may("SELECT", "*").await;
    let refused = async || {
        let refused = journal(&guest.url).open(&opening()).await;
        refused.expect_err("no right")
    };
    says(
        &refused().await,
        &["no journal of producers", "semel_", "store migrate"],
    );
    journal(&database.url())
        .open(&opening())
        .await
        .expect("made");
    says(&refused().await, &["lacks a right", "INSERT"]);
    for table in [
        "producers",
        "producer_streams",
        "producer_batches",
        "producer_inputs",
    ] {
        let table = format!("semel_{table}");
        guest.may("SELECT, INSERT, UPDATE, DELETE", &table).await;
    }
    // These are the rights that the specification names.
    let granted = journal(&guest.url);
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
    guest.leave().await;
    // Whoever has rights on a store alone migrates nothing, and is not refused for it.
    migrate(&database.url(), Options::default())
        .await
        .expect("migrated");
    let store = Guest::of(&database, "store").await;
    for table in [
        "meta", "tokens", "records", "entities", "parked", "audit", "marks",
    ] {
        let table = format!("semel_{table}");
        store.may("SELECT, INSERT, UPDATE, DELETE", &table).await;
    }
    let migrated = migrate(&store.url, Options::default()).await;
    migrated.expect("nothing to do");
    store.leave().await;
}

#[tokio::test]
async fn the_input_used_longest_ago_is_forgotten_first() {
    let database = fresh_database().await;
    let journal = journal(&database.url());
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
    let others: Vec<_> = (0..MOST_INPUTS - 2)
        .map(|it| {
            format!(
                "('billing', 'orders', UNHEX(SHA2('{it}', 256)), {}, 1, 1, 1)",
                it + 3
            )
        })
        .collect();
    let fill = format!(
        "INSERT INTO semel_producer_inputs (producer, stream, digest, place, read_rows, read_bytes, whole) VALUES {}",
        others.join(",")
    );
    database.run(&fill).await;
    use_of(1).await;
    use_of(3).await;
    for (digest, is_known) in [(1, true), (2, false), (3, true)] {
        let mark = journal.input(&opened, "orders", &[digest; 32]).await;
        assert_eq!(mark.expect("an answer").is_some(), is_known, "{digest}");
    }
    let kept = count(&database, "semel_producer_inputs").await;
    assert_eq!(kept, MOST_INPUTS as u64);
}

#[tokio::test]
async fn what_does_not_fit_is_refused_by_name() {
    let database = fresh_database().await;
    let url = database.url();
    for stream in ["", "a\0b", &"x".repeat(1_001)] {
        let wrong = Opening {
            stream: stream.into(),
            ..opening()
        };
        let error = journal(&url).open(&wrong).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let widest = Opening {
        stream: "é".repeat(500).into(),
        ..opening()
    };
    let journal = journal(&url);
    let opened = journal.open(&widest).await.expect("opened").incarnation;
    let mut connection = database.connect().await;
    let most: Option<u64> = connection
        .query_first("SELECT @@max_allowed_packet")
        .await
        .expect("a limit");
    let most = usize::try_from(most.expect("a number")).expect("a size");
    let large = Batch {
        body: encode(&[ProducerMessage::new(vec![b'x'; most])]),
        ..batch(1, &["large"])
    };
    let error = journal.append(&opened, &widest.stream, &large).await;
    let error = error.expect_err("refused");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::InvalidInput, Certainty::NotApplied),
        "{error}"
    );
    assert!(error.to_string().contains("max_allowed_packet"), "{error}");
    let one = batch(1, &["a"]);
    let appended = journal.append(&opened, &widest.stream, &one).await;
    appended.expect("appended");
}

/// A session that holds the row longer than anybody waits gives way, and the append is made again.
#[tokio::test]
async fn a_row_that_others_hold_is_waited_for() {
    let database = fresh_database().await;
    let journal = journal(&database.url());
    let opened = journal.open(&opening()).await.expect("opened").incarnation;
    let mut holder = database.connect().await;
    for statement in [
        "START TRANSACTION",
        "UPDATE semel_producers SET frozen = 0 WHERE producer = 'billing'",
        "SELECT * FROM semel_producers FOR UPDATE",
    ] {
        holder.query_drop(statement).await.expect(statement);
    }
    let error = journal.append(&opened, "orders", &batch(1, &["a"])).await;
    let error = error.expect_err("held for too long");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::Throttled, Certainty::NotApplied),
        "{error}"
    );
    holder.query_drop("ROLLBACK").await.expect("undone");
    let appended = journal.append(&opened, "orders", &batch(1, &["a"])).await;
    appended.expect("appended");
    has_one(&journal, &opened).await;
}

async fn has_one(journal: &MysqlProducers, opened: &Incarnation) {
    let kept = journal.pending(opened, "orders", 0, 10).await;
    assert_eq!(kept.expect("batches").len(), 1);
}

#[tokio::test]
async fn an_append_that_comes_late_is_fenced() {
    let database = fresh_database().await;
    let (proxy, near) = behind(&database);
    let fast = journal(&database.url());
    servers::an_append_that_comes_late_is_fenced(journal(&near), &fast, &proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_answer_is_lost_is_known_when_it_is_made_again() {
    let database = fresh_database().await;
    let (proxy, near) = behind(&database);
    let cut = |sequence| sequence * 37 % 1_200;
    servers::an_append_whose_answer_is_lost_is_known_when_it_is_made_again(
        &journal(&near),
        &proxy,
        cut,
        10,
    )
    .await;
}

impl KilledServer for Server {
    fn kill(&mut self) {
        Self::kill(self);
    }

    async fn start(&mut self) {
        Self::start(self).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_a_killed_server() {
    let mut server = Server::with(&["--log-bin=binlog", "--sync-binlog=1"]).await;
    let database = Database::on(&server.url("mysql")).await;
    let url = database.url();
    servers::what_was_answered_survives_a_killed_server(&mut server, || journal(&url)).await;
}

/// Returns a proxy in front of the server, and the url that leads through it.
pub(crate) fn behind(database: &Database) -> (Proxy, String) {
    let url = database.url();
    let proxy = Proxy::start(address(&url).parse().expect("an address"));
    let near = url.replacen(address(&url), &proxy.address().to_string(), 1);
    (proxy, near)
}

async fn tables(database: &Database) -> u64 {
    count(
        database,
        "information_schema.tables WHERE table_schema = DATABASE()",
    )
    .await
}

pub(crate) async fn count(database: &Database, of: &str) -> u64 {
    let mut connection = database.connect().await;
    let count: Option<u64> = connection
        .query_first(format!("SELECT COUNT(*) FROM {of}"))
        .await
        .expect("a count");
    count.expect("a number")
}

fn mark(digest: u8) -> InputMark {
    InputMark {
        digest: [digest; 32],
        rows: 1,
        bytes: 1,
        is_whole: true,
    }
}

fn journal(url: &str) -> MysqlProducers {
    MysqlProducers::new(url, &Options::default()).expect("a journal")
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
