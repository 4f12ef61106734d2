//! The outbox: its laws, and what is MySQL's own.

mod dead;
mod order;
pub(crate) mod rights;

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder, Transaction, TxOpts};
use semel_conformance::outbox::readers::{leases, message, pending, relay};
use semel_conformance::outbox::{Change, Ending, OutboxSubject};
use semel_conformance::proxy::Proxy;
use semel_core::ErrorKind;
use semel_core::outbox::{OutboxId, OutboxMessage};
use semel_core::port::outbox::{OutboxContents, OutboxStore};
use semel_store_mysql::{MysqlOutbox, MysqlOutboxStore, Options, migrate};

use crate::database::Database;
use crate::lab::fresh_database;
use crate::own::Server;

#[tokio::test]
async fn what_was_read_outlives_a_kill_of_the_server() {
    // Commits are shown at once, and taken to the disk by nobody but whoever asks.
    let lazy = [
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-flush-log-at-timeout=2700",
    ];
    let mut server = Server::with(&lazy).await;
    let database = Database::on(&server.url("mysql")).await;
    let outbox = outbox(&database).await;
    let leases = leases(&outbox, "one").await;
    let mut writer = database.connect().await;
    insert(&mut writer, "paid", Some("k")).await;
    database
        .run("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        .await;
    assert_eq!(pending(&outbox, "one", &leases).await, ["paid"]);
    server.kill();
    server.start().await;
    let mut connection = database.connect().await;
    let count: Option<u64> = connection
        .query_first("SELECT COUNT(*) FROM semel_outbox")
        .await
        .expect("a count");
    assert_eq!(count, Some(1), "what a relay may have published is there");
}

#[tokio::test]
async fn a_session_with_settings_of_its_own_writes_the_same_and_keeps_its_last_number() {
    let database = fresh_database().await;
    let outbox = outbox(&database).await;
    let leases = leases(&outbox, "one").await;
    let mut connection = database.connect().await;
    for setting in [
        "CREATE TABLE orders (number BIGINT AUTO_INCREMENT PRIMARY KEY)",
        "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE'",
        "SET time_zone = '+09:30'",
        "SET NAMES latin1",
        "SET innodb_lock_wait_timeout = 5",
    ] {
        connection.query_drop(setting).await.expect("a setting");
    }
    let mut tx = begin(&mut connection).await;
    tx.query_drop("INSERT INTO orders VALUES (77), (NULL)")
        .await
        .expect("an order");
    let written = OutboxMessage::new("orders", vec![b'\\'; 3_000])
        .ordered_by("clé 'ü' \\")
        .with_header("why", "\\ 'ü'");
    let id = MysqlOutbox::publish(&mut tx, &written)
        .await
        .expect("an id");
    let last: Option<u64> = tx
        .query_first("SELECT LAST_INSERT_ID()")
        .await
        .expect("one");
    assert_eq!(last, Some(78));
    tx.commit().await.expect("committed");
    let seen = outbox.pending(&relay("one"), &leases, 10).await;
    let [seen] = &*seen.expect("rows") else {
        panic!("one message");
    };
    assert_eq!((seen.id, &seen.payload), (id, &written.payload));
    assert_eq!(seen.order_key.as_deref(), written.order_key.as_deref());
    let headers = seen.headers.as_ref().expect("headers");
    assert_eq!(
        (&*headers[0].0, &*headers[0].1),
        ("why", "\\ 'ü'".as_bytes())
    );
    let row: Option<(i64, i64)> = connection
        .query_first("SELECT created_at, UNIX_TIMESTAMP() * 1000 FROM semel_outbox")
        .await
        .expect("times");
    let (created, now) = row.expect("a row");
    assert!((created - now).abs() < 60_000, "{created} {now}");
}

#[tokio::test]
async fn what_no_relay_could_read_is_refused_where_it_is_written() {
    let database = fresh_database().await;
    let _outbox = outbox(&database).await;
    let mut connection = database.connect().await;
    for (wrong, why) in [
        ("'', NULL, NULL", "semel_outbox_stream"),
        ("'orders ', NULL, NULL", "semel_outbox_stream"),
        ("'orders', REPEAT('é', 600), NULL", "semel_outbox_order_key"),
        ("'orders', NULL, '{'", "semel_outbox_headers"),
    ] {
        let plain = format!(
            "INSERT INTO semel_outbox (payload, stream, order_key, headers) VALUES ('x', {wrong})"
        );
        let error = connection.query_drop(plain).await.expect_err(wrong);
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
    let mut tx = begin(&mut connection).await;
    let twice = OutboxMessage::new("orders", "x").with_id(OutboxId::from_u128(7));
    MysqlOutbox::publish(&mut tx, &twice).await.expect("once");
    for wrong in [&twice, &OutboxMessage::new("orders ", "x")] {
        let error = MysqlOutbox::publish(&mut tx, wrong)
            .await
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains("does not take"), "{error}");
    }
    tx.rollback().await.expect("undone");
}

/// A database with an outbox, for the laws.
struct Shop(Database);

impl OutboxSubject for Shop {
    type Outbox = MysqlOutboxStore;

    async fn open() -> Self {
        let database = fresh_database().await;
        outbox(&database).await;
        Self(database)
    }

    async fn outbox(&self) -> MysqlOutboxStore {
        MysqlOutboxStore::new(&self.0.url(), &Options::default()).expect("an outbox")
    }

    fn transact(
        &self,
        messages: Vec<OutboxMessage>,
        ending: impl Future<Output = Ending> + Send + 'static,
    ) -> impl Future<Output = Vec<OutboxId>> + Send + 'static {
        let url = self.0.url();
        async move {
            let mut connection = connect(&url).await;
            loop {
                let mut tx = begin(&mut connection).await;
                let Some(ids) = publish_all(&mut tx, &messages).await else {
                    tx.rollback().await.expect("undone");
                    continue;
                };
                match ending.await {
                    Ending::Commit => tx.commit().await.expect("committed"),
                    Ending::Rollback => tx.rollback().await.expect("undone"),
                }
                connection.disconnect().await.expect("an end");
                return ids;
            }
        }
    }

    async fn alter(&self, change: Change) {
        let changes = match change {
            Change::RunOut { process } => vec![
                format!("UPDATE semel_outbox_leases SET until = 0 WHERE holder = '{process}'"),
                format!("UPDATE semel_outbox_processes SET until = 0 WHERE process = '{process}'"),
            ],
            Change::PublishedEarlier(by) => vec![format!(
                "UPDATE semel_outbox SET sent_at = sent_at - {}",
                by.as_millis()
            )],
            Change::TryAgain => vec![
                "UPDATE semel_outbox SET due_at = NULL, dead_at = NULL, attempts = 0 \
                 WHERE dead_at IS NOT NULL"
                    .to_owned(),
            ],
        };
        for change in changes {
            self.0.run(&change).await;
        }
    }

    async fn dead(&self) -> Vec<(i64, String)> {
        let dead = "SELECT attempts, error FROM semel_outbox WHERE dead_at IS NOT NULL";
        let mut connection = self.0.connect().await;
        connection.query(dead).await.expect("rows")
    }

    async fn contents(outbox: &MysqlOutboxStore, stream: &str) -> OutboxContents {
        outbox.inspect(stream).await.expect("contents")
    }
}

semel_conformance::outbox_laws!(Shop);

/// Writes messages; nothing if another transaction was in the way, and this one is to be repeated.
async fn publish_all(
    tx: &mut Transaction<'_>,
    messages: &[OutboxMessage],
) -> Option<Vec<OutboxId>> {
    let mut ids = Vec::with_capacity(messages.len());
    for it in messages {
        match MysqlOutbox::publish(tx, it).await {
            Ok(id) => ids.push(id),
            Err(error) if error.kind() == ErrorKind::Throttled => return None,
            Err(error) => panic!("{error}"),
        }
    }
    Some(ids)
}

/// Of MariaDB: MySQL has no such limit.
#[tokio::test]
async fn a_relay_that_stands_still_while_it_divides_the_partitions_holds_up_others_for_a_while() {
    let database = fresh_database().await;
    let second = outbox(&database).await;
    let url = database.url();
    let server = Opts::from_url(&url).expect("a url");
    let place = format!("{}:{}", server.ip_or_hostname(), server.tcp_port());
    let proxy = Proxy::start(place.parse().expect("an address"));
    let through = url.replace(&place, &proxy.address().to_string());
    let mut options = Options::default();
    options.answer = Duration::from_secs(2);
    let first = MysqlOutboxStore::new(&through, &options).expect("an outbox");
    leases(&first, "one").await;
    // The row of the stream is locked by then, and the server waits for the next statement.
    proxy.hold_answers();
    let stands = tokio::spawn(async move { first.lease(&relay("one"), SHORT, true).await });
    proxy.until(|seen| seen.held > 0).await;
    proxy.hold();
    let mut refusals = 0;
    while let Err(error) = second.lease(&relay("two"), SHORT, true).await {
        refusals += 1;
        assert!(refusals < 20, "{error}");
    }
    stands.abort();
}

const SHORT: Duration = Duration::from_secs(3);

async fn outbox(database: &Database) -> MysqlOutboxStore {
    let url = database.url();
    migrate(&url, Options::default()).await.expect("a store");
    MysqlOutboxStore::new(&url, &Options::default()).expect("an outbox")
}

async fn connect(url: &str) -> Conn {
    let opts = OptsBuilder::from_opts(Opts::from_url(url).expect("a url")).prefer_socket(false);
    Conn::new(opts).await.expect("a connection")
}

async fn begin(connection: &mut Conn) -> Transaction<'_> {
    let begun = connection.start_transaction(TxOpts::default()).await;
    begun.expect("a transaction")
}

async fn insert(connection: &mut Conn, text: &str, key: Option<&str>) {
    let mut tx = begin(connection).await;
    let message = message(text, key);
    MysqlOutbox::publish(&mut tx, &message)
        .await
        .expect("an id");
    tx.commit().await.expect("committed");
}
