//! Statements whose snapshot is older than the lock that they wait for.

use std::sync::Arc;
use std::time::Duration;

use semel_conformance::producers::batch;
use semel_core::port::producer::ProducerJournal;
use semel_core::port::store::Durability;
use semel_core::producer::Opened;
use semel_core::{Certainty, Code, Error};
use semel_store_postgres::{Options, PostgresProducers, migrate};
use tokio_postgres::Client;

use super::{journal, opening};
use crate::lab::{Lab, count};
use crate::server::Server;

/// A session that holds the row of a producer.
struct Holder {
    lab: Lab,
    journal: Arc<PostgresProducers>,
    opened: Opened,
    client: Client,
}

impl Holder {
    async fn new() -> Self {
        let lab = Lab::new();
        let journal = Arc::new(journal(&lab.site.url()));
        let opened = journal.open(&opening()).await.expect("opened");
        let one = batch(1, &["a"]);
        let appended = journal.append(&opened.incarnation, "orders", &one).await;
        appended.expect("appended");
        let client = lab.client().await;
        Self {
            lab,
            journal,
            opened,
            client,
        }
    }

    async fn run(&self, statements: &str) {
        let ran = self.client.batch_execute(statements).await;
        ran.expect(statements);
    }

    /// Waits until so many sessions of the journal wait for a lock.
    async fn until_waiting(&self, sessions: i64) {
        let waiting = format!(
            "pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%producers%'",
            self.lab.schema()
        );
        // What the holder sees of others stays the same in its transaction.
        let user = self.lab.client().await;
        while count(&user, &waiting).await < sessions {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn what_waits_for_the_row_of_a_producer_is_fenced_by_an_opening_that_held_it() {
    let holder = Holder::new().await;
    let by = &holder.opened.incarnation;
    holder
        .run("BEGIN; UPDATE producers SET epoch = epoch + 1")
        .await;
    let (journal, incarnation) = (Arc::clone(&holder.journal), by.clone());
    let append = tokio::spawn(async move {
        let late = batch(2, &["late"]);
        journal.append(&incarnation, "orders", &late).await
    });
    let (journal, incarnation) = (Arc::clone(&holder.journal), by.clone());
    let confirm = tokio::spawn(async move { journal.confirm(&incarnation, "orders", 1).await });
    holder.until_waiting(2).await;
    holder.run("COMMIT").await;
    for late in [append, confirm] {
        is_fenced(&late.await.expect("no panic").expect_err("fenced"));
    }
    let user = &holder.client;
    assert_eq!(count(user, "producer_batches").await, 1);
    let unmoved = "producer_streams WHERE next = 2 AND confirmed = 0";
    assert_eq!(count(user, unmoved).await, 1);
}

fn is_fenced(error: &Error) {
    let found = (error.code(), error.certainty());
    assert_eq!(found, (Code::ProducerFenced, Certainty::NotApplied));
}

#[tokio::test]
async fn of_two_equal_appends_that_wait_one_is_known() {
    let holder = Holder::new().await;
    holder.run("BEGIN; SELECT FROM producers FOR UPDATE").await;
    let appends = [(); 2].map(|()| {
        let (journal, by) = (
            Arc::clone(&holder.journal),
            holder.opened.incarnation.clone(),
        );
        tokio::spawn(async move { journal.append(&by, "orders", &batch(2, &["b"])).await })
    });
    holder.until_waiting(2).await;
    holder.run("COMMIT").await;
    for append in appends {
        append.await.expect("no panic").expect("new, or known");
    }
    let user = &holder.client;
    assert_eq!(count(user, "producer_batches").await, 2);
    assert_eq!(count(user, "producer_streams WHERE next = 3").await, 1);
}

#[tokio::test]
async fn an_outbox_that_was_made_while_another_process_waited_is_found() {
    let lab = Lab::new();
    let holder = lab.client().await;
    let schema = lab.schema();
    let lock = format!(
        "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('semel outbox {schema}', 0))"
    );
    holder.batch_execute(&lock).await.expect("a lock");
    let url = lab.site.url();
    let migrating = tokio::spawn(async move { migrate(&url, Options::default()).await });
    let waiting = "pg_locks WHERE locktype = 'advisory' AND NOT granted AND (classid, objid) IN (
        SELECT classid, objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())";
    while count(&holder, waiting).await < 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let make = format!("CREATE TABLE {schema}.semel_outbox_format (format bigint); COMMIT");
    holder.batch_execute(&make).await.expect("made");
    migrating.await.expect("no panic").expect("nothing to make");
}

#[tokio::test]
async fn a_server_that_promises_less_says_so() {
    let server = Server::start(&["fsync=off"]);
    let found = journal(&server.url()).capabilities().await;
    let found = found.expect("an answer");
    assert_eq!(found.durability, Durability::Kill);
    assert!(found.warnings[0].contains("fsync"), "{found:?}");
    assert_eq!(found.warnings.len(), 1, "{found:?}");
}

/// The records of a store beside it are no part of the journal.
#[tokio::test]
async fn a_journal_that_a_crash_empties_is_told_of_and_a_store_beside_it_is_not() {
    let lab = Lab::new();
    let (url, user) = (lab.site.url(), lab.client().await);
    migrate(&url, Options::default()).await.expect("migrated");
    let warnings = async || {
        let found = journal(&url).capabilities().await;
        found.expect("an answer").warnings
    };
    user.batch_execute("ALTER TABLE records SET UNLOGGED")
        .await
        .expect("unlogged");
    assert_eq!(warnings().await, []);
    user.batch_execute("ALTER TABLE producer_batches SET UNLOGGED")
        .await
        .expect("unlogged");
    let found = warnings().await;
    assert!(found[0].contains("producer_batches"), "{found:?}");
}
