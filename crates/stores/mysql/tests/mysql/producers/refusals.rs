//! Openings that are refused, and openings at the same time.

use mysql_async::prelude::Queryable;
use semel_core::port::producer::ProducerJournal;
use semel_core::port::store::Durability;
use semel_core::producer::Opening;
use semel_core::{Certainty, Code, ErrorKind};
use semel_store_mysql::{MysqlProducers, Options, migrate};

use super::{behind, count, journal, opening};
use crate::database::Database;
use crate::lab::fresh_database;
use crate::own::Server;

#[tokio::test]
async fn nobody_opens_a_producer_on_a_server_that_is_read_only() {
    let server = Server::with(&[]).await;
    let database = Database::on(&server.url("mysql")).await;
    let url = database.url();
    journal(&url).open(&opening()).await.expect("opened");
    // The user of these tests may write all the same.
    database.run("SET GLOBAL read_only = 1").await;
    let journal = journal(&url);
    assert_eq!(journal.list().await.expect("a list").len(), 1);
    let error = journal.open(&opening()).await.expect_err("a replica");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreReadOnly, Certainty::NotApplied),
        "{error}"
    );
    database.run("SET GLOBAL read_only = 0").await;
    let opened = journal.open(&opening()).await.expect("opened");
    assert_eq!(opened.incarnation.epoch, 2);
}

#[tokio::test]
async fn other_tables_under_the_names_of_the_journal_are_left_alone() {
    let database = fresh_database().await;
    let url = format!("{}?prefix=app_", database.url());
    database.run("CREATE TABLE app_producers (id INT)").await;
    let journal = journal(&url);
    is_foreign(&journal, "app_producers").await;
    let ours = "information_schema.tables WHERE table_schema = DATABASE() AND table_name LIKE 'app\\_producer\\_%'";
    assert_eq!(count(&database, ours).await, 0);
    // Nothing keeps others from making tables, though the journal lives on.
    let mut other = database.connect().await;
    let lock = "SELECT GET_LOCK(CONCAT('semel ', SHA1(CONCAT(DATABASE(), ' ', 'app_'))), 10)";
    let locked: Option<u8> = other.query_first(lock).await.expect("an answer");
    assert_eq!(locked, Some(1));
    drop(other);
    // Whoever wants a store alone gets it.
    migrate(&url, Options::default()).await.expect("migrated");
    assert_eq!(count(&database, "app_producers").await, 0);
    let other = "CREATE TABLE app_producer_format (one INT)";
    database.run(other).await;
    is_foreign(&journal, "app_producer_format").await;
}

#[tokio::test]
async fn tables_without_transactions_are_refused() {
    let database = fresh_database().await;
    let url = database.url();
    journal(&url).open(&opening()).await.expect("opened");
    for statement in [
        "ALTER TABLE semel_producers ENGINE=MyISAM",
        "DELETE FROM semel_producer_format",
    ] {
        database.run(statement).await;
    }
    let error = journal(&url).open(&opening()).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(error.to_string().contains("MyISAM"), "{error}");
}

#[tokio::test]
async fn a_format_that_is_none_is_not_taken_for_a_newer_one() {
    let database = fresh_database().await;
    let url = database.url();
    journal(&url).open(&opening()).await.expect("opened");
    let none = "UPDATE semel_producer_format SET format = 0";
    database.run(none).await;
    is_foreign(&journal(&url), "semel_producer_format").await;
}

async fn is_foreign(journal: &MysqlProducers, table: &str) {
    let error = journal.open(&opening()).await.expect_err("refused");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreForeign, Certainty::NotApplied),
        "{error}"
    );
    assert!(error.to_string().contains(table), "{error}");
}

#[tokio::test]
async fn a_server_that_promises_less_says_so() {
    let less = ["--innodb-flush-log-at-trx-commit=2"];
    let server = Server::with(&less).await;
    let database = Database::on(&server.url("mysql")).await;
    let found = journal(&database.url()).capabilities().await;
    let found = found.expect("an answer");
    assert_eq!(found.durability, Durability::Kill);
    assert!(found.warnings[0].contains(&less[0][2..8]), "{found:?}");
}

/// A process that is stopped in an opening holds nothing that others wait for.
#[tokio::test]
async fn an_opening_whose_answer_does_not_come_keeps_nobody_waiting() {
    let database = fresh_database().await;
    let (proxy, near) = behind(&database);
    let slow = journal(&near);
    slow.open(&opening()).await.expect("opened");
    proxy.hold_answers();
    let stopped = tokio::spawn(async move { slow.open(&opening()).await });
    proxy.until(|seen| seen.held > 0).await;
    let opened = journal(&database.url()).open(&opening()).await;
    assert_eq!(opened.expect("opened").incarnation.epoch, 3);
    proxy.release();
    let opened = stopped.await.expect("no panic").expect("opened");
    assert_eq!(opened.incarnation.epoch, 2);
}

/// Nodes that take writes at once conflict by the rows that both write.
#[tokio::test]
async fn an_opening_writes_the_rows_that_late_appends_write() {
    let database = fresh_database().await;
    let journal = journal(&database.url());
    let other = Opening {
        stream: "bills".into(),
        ..opening()
    };
    journal.open(&other).await.expect("opened");
    journal.open(&opening()).await.expect("opened");
    let mut connection = database.connect().await;
    let rows: Vec<(String, u64)> = connection
        .query("SELECT stream, openings FROM semel_producer_streams ORDER BY stream")
        .await
        .expect("rows");
    assert_eq!(rows, [("bills".to_owned(), 2), ("orders".to_owned(), 1)]);
    let elsewhere = Opening {
        target: "elsewhere".into(),
        ..opening()
    };
    let epoch = journal.open(&elsewhere).await.expect("nothing waits");
    assert_eq!(epoch.incarnation.epoch, 3);
}
