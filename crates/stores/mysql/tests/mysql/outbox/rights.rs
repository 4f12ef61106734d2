//! The rights of users, and the tables that they find.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_conformance::outbox::readers::{leases, message, pending, relay};
use semel_core::port::outbox::OutboxStore;
use semel_core::{Code, ErrorKind};
use semel_store_mysql::{MysqlOutbox, MysqlOutboxStore, OUTBOX_FORMAT, Options, migrate};

use super::{begin, connect, insert, outbox};
use crate::database::Database;
use crate::lab::fresh_database;
use crate::own::Server;

#[tokio::test]
async fn the_right_to_insert_is_enough_to_write() {
    let database = fresh_database().await;
    let outbox = outbox(&database).await;
    let writer = Guest::of(&database, "writer").await;
    writer.may("INSERT", "semel_outbox").await;
    let mut connection = connect(&writer.url).await;
    let plain = "INSERT INTO semel_outbox (stream, order_key, headers, payload) \
                 VALUES ('orders', 'k', '{\"a\": \"b\"}', '{\"paid\": true}')";
    connection.query_drop(plain).await.expect("inserted");
    // The same of the statements that return an id.
    insert(&mut connection, "published", Some("k")).await;
    let read = connection.query_drop("SELECT * FROM semel_outbox").await;
    assert!(read.is_err(), "it may not even read");
    connection.disconnect().await.expect("an end");
    let leases = leases(&outbox, "one").await;
    let expected = ["{\"paid\": true}", "published"];
    assert_eq!(pending(&outbox, "one", &leases).await, expected);
    let seen = outbox
        .pending(&relay("one"), &leases, 1)
        .await
        .expect("one");
    assert_eq!(
        seen[0].id.to_string().as_bytes()[14],
        b'7',
        "a UUIDv7: {seen:?}"
    );
    writer.leave().await;
}

#[tokio::test]
async fn a_relay_needs_no_right_but_those_of_the_book() {
    let database = fresh_database().await;
    let owners = outbox(&database).await;
    let guest = Guest::of(&database, "relay").await;
    guest.may("SELECT, UPDATE, DELETE", "semel_outbox").await;
    guest.may("SELECT", "semel_outbox_format").await;
    for table in ["relays", "processes", "leases"] {
        let table = format!("semel_outbox_{table}");
        guest.may("SELECT, INSERT, UPDATE, DELETE", &table).await;
    }
    let mut connection = database.connect().await;
    for text in ["a", "b", "c"] {
        insert(&mut connection, text, Some("k")).await;
    }
    let outbox = MysqlOutboxStore::new(&guest.url, &Options::default()).expect("an outbox");
    let leases = leases(&outbox, "one").await;
    let seen = outbox
        .pending(&relay("one"), &leases, 2)
        .await
        .expect("two");
    outbox.sent(&[seen[0].id], false).await.expect("removed");
    outbox.sent(&[seen[1].id], true).await.expect("kept");
    let gone = outbox.forget("orders", Duration::ZERO, 10).await;
    assert!(gone.expect("an answer") <= 1);
    assert_eq!(outbox.inspect("orders").await.expect("contents").waiting, 1);
    outbox.leave(&relay("one")).await.expect("left");
    drop(owners);
    guest.leave().await;
}

/// A server with a binary log lets no ordinary user make a trigger.
#[tokio::test]
async fn a_user_who_may_not_make_the_trigger_is_told_what_it_takes() {
    let server = Server::with(&["--log-bin=binlog"]).await;
    let database = Database::on(&server.url("mysql")).await;
    let owner = Guest::of(&database, "owner").await;
    owner.may("ALL", "*").await;
    let made = migrate(&owner.url, Options::default()).await;
    made.expect("the store does without an outbox");
    let outbox = MysqlOutboxStore::new(&owner.url, &Options::default()).expect("an outbox");
    let one = relay("one");
    let refused = outbox.lease(&one, Duration::from_secs(30), true).await;
    let error = refused.expect_err("it has no trigger");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    for word in [
        "TRIGGER",
        "SUPER",
        "log_bin_trust_function_creators",
        "semel store migrate",
    ] {
        assert!(error.to_string().contains(word), "{error}");
    }
    let inspected = outbox.inspect("orders").await.expect_err("the same");
    assert_eq!(inspected.to_string(), error.to_string());
    let mut connection = connect(&owner.url).await;
    let plain = "INSERT INTO semel_outbox (stream, payload) VALUES ('orders', 'x')";
    let error = connection.query_drop(plain).await.expect_err("refused");
    assert!(
        error.to_string().contains("semel_outbox_has_its_trigger"),
        "{error}"
    );

    database
        .run("SET GLOBAL log_bin_trust_function_creators = 1")
        .await;
    let made = migrate(&owner.url, Options::default()).await;
    made.expect("an outbox");
    insert(&mut connection, "x", None).await;
    let leases = leases(&outbox, "one").await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["x"]);
}

#[tokio::test]
async fn a_trigger_that_was_lost_is_missed_by_every_writer_and_made_again() {
    let database = fresh_database().await;
    let outbox = outbox(&database).await;
    let leases = leases(&outbox, "one").await;
    database.run("DROP TRIGGER semel_outbox_place").await;
    let mut connection = database.connect().await;
    connection
        .query_drop("SET sql_mode = ''")
        .await
        .expect("lax");
    let mut tx = begin(&mut connection).await;
    let refused = MysqlOutbox::publish(&mut tx, &message("x", Some("k"))).await;
    let error = refused.expect_err("it would be in no order");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("semel store migrate"), "{error}");
    tx.rollback().await.expect("undone");
    let made = migrate(&database.url(), Options::default()).await;
    made.expect("the trigger");
    insert(&mut connection, "x", Some("k")).await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["x"]);
}

#[tokio::test]
async fn an_outbox_that_is_missing_or_newer_is_refused() {
    let database = fresh_database().await;
    let absent = MysqlOutboxStore::new(&database.url(), &Options::default()).expect("a url");
    let one = relay("one");
    let refused = absent.lease(&one, Duration::from_secs(30), true);
    let error = refused.await.expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("semel store migrate"), "{error}");
    assert_eq!(absent.format().await.expect("an answer"), None);
    let mut connection = database.connect().await;
    let mut tx = begin(&mut connection).await;
    let refused = MysqlOutbox::publish(&mut tx, &message("x", None)).await;
    let error = refused.expect_err("there is none");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    tx.rollback().await.expect("undone");

    let newer = outbox(&database).await;
    let format = newer.format().await.expect("an answer");
    assert_eq!(format, Some(OUTBOX_FORMAT));
    let change = "UPDATE semel_outbox_format SET format = format + 1";
    database.run(change).await;
    let refused = newer.lease(&one, Duration::from_secs(30), true);
    let error = refused.await.expect_err("it is newer");
    assert_eq!(error.code(), Code::StoreNewer);
    // A second migration leaves it as it is.
    let url = database.url();
    migrate(&url, Options::default())
        .await
        .expect("nothing to do");
    assert_eq!(
        newer.format().await.expect("an answer"),
        Some(OUTBOX_FORMAT + 1)
    );
}

/// A user who may do nothing yet.
pub(crate) struct Guest<'d> {
    database: &'d Database,
    user: String,
    pub(crate) url: String,
}

impl<'d> Guest<'d> {
    pub(crate) async fn of(database: &'d Database, role: &str) -> Self {
        let user = format!("{role}_{}", &database.name["semel_test_".len()..]);
        database
            .run(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY 'secret'"))
            .await;
        let url = database.url();
        let (_, place) = url.rsplit_once('@').expect("a user");
        let url = format!("mysql://{user}:secret@{place}");
        Self {
            database,
            user,
            url,
        }
    }

    pub(crate) async fn may(&self, what: &str, on: &str) {
        let (name, user) = (&self.database.name, &self.user);
        let grant = format!("GRANT {what} ON {name}.{on} TO '{user}'@'%'");
        self.database.run(&grant).await;
    }

    pub(crate) async fn leave(self) {
        let drop = format!("DROP USER '{}'@'%'", self.user);
        self.database.run(&drop).await;
    }
}
