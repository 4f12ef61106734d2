//! The outbox in a file: its laws, what any program can write, and whose tables it is beside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use semel_conformance::outbox::readers::relay;
use semel_conformance::outbox::{Change, Ending, OutboxSubject};
use semel_core::outbox::{OutboxId, OutboxMessage, Outgoing, PARTITIONS};
use semel_core::port::outbox::{OutboxContents, OutboxStore};
use semel_core::{Code, Error, ErrorKind};
use semel_store_sqlite::{OUTBOX_FORMAT, Options, SqliteOutbox, SqliteOutboxStore};
use tempfile::TempDir;

use crate::lab::{Lab, connection};

struct File(TempDir);

impl File {
    fn path(&self) -> PathBuf {
        self.0.path().join("shop.db")
    }
}

impl OutboxSubject for File {
    type Outbox = SqliteOutboxStore;

    const WRITES_TOGETHER: bool = false;

    async fn open() -> Self {
        let file = Self(tempfile::tempdir().expect("a folder"));
        let connection = connection(&file.path());
        let log = connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()));
        log.expect("a log");
        SqliteOutbox::create(&connection).expect("an outbox");
        file
    }

    async fn outbox(&self) -> SqliteOutboxStore {
        outbox(&self.path())
    }

    fn transact(
        &self,
        messages: Vec<OutboxMessage>,
        ending: impl Future<Output = Ending> + Send + 'static,
    ) -> impl Future<Output = Vec<OutboxId>> + Send + 'static {
        let path = self.path();
        let runtime = tokio::runtime::Handle::current();
        let transacting = tokio::task::spawn_blocking(move || {
            let mut connection = connection(&path);
            let tx = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .expect("a transaction");
            let publish = |it| SqliteOutbox::publish(&tx, it).expect("an id");
            let ids = messages.iter().map(publish).collect();
            match runtime.block_on(ending) {
                Ending::Commit => tx.commit().expect("committed"),
                Ending::Rollback => tx.rollback().expect("undone"),
            }
            ids
        });
        async { transacting.await.expect("a transaction") }
    }

    async fn alter(&self, change: Change) {
        let sql = match change {
            Change::RunOut { process } => format!(
                "UPDATE semel_outbox_leases SET until = 0 WHERE holder = '{process}';
                 UPDATE semel_outbox_processes SET until = 0 WHERE process = '{process}'"
            ),
            Change::PublishedEarlier(by) => {
                format!(
                    "UPDATE semel_outbox SET sent_at = sent_at - {}",
                    by.as_millis()
                )
            }
            Change::TryAgain => "UPDATE semel_outbox SET due_at = NULL, dead_at = NULL, \
                                 attempts = 0 WHERE dead_at IS NOT NULL"
                .to_owned(),
        };
        let changed = connection(&self.path()).execute_batch(&sql);
        changed.expect("changed");
    }

    async fn dead(&self) -> Vec<(i64, String)> {
        let connection = connection(&self.path());
        let dead = "SELECT attempts, error FROM semel_outbox WHERE dead_at IS NOT NULL";
        let mut dead = connection.prepare(dead).expect("a query");
        let rows = dead.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let rows = rows.expect("rows");
        rows.collect::<Result<_, _>>().expect("rows")
    }

    async fn contents(outbox: &SqliteOutboxStore, stream: &str) -> OutboxContents {
        outbox.inspect(stream).await.expect("contents")
    }
}

semel_conformance::outbox_laws!(File);

fn outbox(path: &Path) -> SqliteOutboxStore {
    SqliteOutboxStore::new(path, Options::default()).expect("an outbox")
}

/// Leases all partitions, and returns what waits in them.
async fn all_pending(outbox: &SqliteOutboxStore) -> Vec<Outgoing> {
    let lease = Duration::from_secs(300);
    let leases = outbox.lease(&relay("one"), lease, true).await;
    let leases = leases.expect("leases");
    let seen = outbox.pending(&relay("one"), &leases, 400).await;
    seen.expect("rows")
}

async fn refusal(path: &Path) -> Error {
    let outbox = outbox(path);
    let refused = outbox
        .lease(&relay("one"), Duration::from_secs(30), true)
        .await;
    refused.expect_err("refused")
}

#[tokio::test]
async fn a_plain_insert_is_enough_and_the_database_makes_an_id() {
    let file = File::open().await;
    let outbox = file.outbox().await;
    let connection = connection(&file.path());
    let plain = "INSERT INTO semel_outbox (stream, order_key, headers, payload) \
                 VALUES ('orders', 7, '{\"a\": \"b\"}', 'text')";
    for _ in 0..300 {
        connection.execute(plain, []).expect("inserted");
    }
    let lease = Duration::from_secs(300);
    let leases = outbox
        .lease(&relay("one"), lease, true)
        .await
        .expect("leases");
    assert_eq!(leases.len(), usize::from(PARTITIONS));
    let seen = outbox
        .pending(&relay("one"), &leases, 400)
        .await
        .expect("rows");
    assert_eq!(seen.len(), 300);
    for it in &seen {
        let id = it.id.to_string();
        assert!(
            id.as_bytes()[14] == b'4' && b"89ab".contains(&id.as_bytes()[19]),
            "{id}"
        );
        assert_eq!(
            (it.order_key.as_deref(), &*it.payload),
            (Some("7"), &b"text"[..])
        );
        assert_eq!(it.headers.as_ref().expect("headers").len(), 1);
    }
    let created: i64 = connection
        .query_row("SELECT max(created_at) FROM semel_outbox", [], |row| {
            row.get(0)
        })
        .expect("a time");
    assert!(created > 1_700_000_000_000, "milliseconds: {created}");
}

#[tokio::test]
async fn a_file_may_hold_its_texts_in_utf_16() {
    let lab = Lab::new();
    let mut connection = lab.connection();
    let encoding = connection.pragma_update(None, "encoding", "UTF-16le");
    encoding.expect("an encoding");
    SqliteOutbox::create(&connection).expect("an outbox");
    let plain =
        "INSERT INTO semel_outbox (stream, order_key, payload) VALUES ('orders', 'clé', 'é')";
    for _ in 0..50 {
        connection.execute(plain, []).expect("inserted");
    }
    let tx = connection.transaction().expect("a transaction");
    let message = OutboxMessage::new("orders", "é").ordered_by("clé");
    SqliteOutbox::publish(&tx, &message).expect("an id");
    tx.commit().expect("committed");
    let outbox = outbox(&lab.path());
    let seen = all_pending(&outbox).await;
    assert_eq!(seen.len(), 51);
    for it in &seen {
        assert_eq!(
            (it.order_key.as_deref(), &*it.payload),
            (Some("clé"), "é".as_bytes())
        );
        assert_eq!(it.partition, seen[0].partition);
    }
}

#[tokio::test]
async fn keys_fall_into_all_partitions() {
    let file = File::open().await;
    let outbox = file.outbox().await;
    let connection = connection(&file.path());
    let many = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) \
                INSERT INTO semel_outbox (stream, order_key, payload) SELECT 'orders', 'k' || i, 'x' FROM n";
    connection.execute(many, []).expect("inserted");
    let seen = all_pending(&outbox).await;
    let mut counts = vec![0; usize::from(PARTITIONS)];
    for it in &seen {
        counts[usize::from(it.partition)] += 1;
    }
    assert!(
        counts.iter().all(|count| (1..40).contains(count)),
        "{counts:?}"
    );
}

#[tokio::test]
async fn a_row_that_no_relay_could_read_is_refused() {
    let file = File::open().await;
    let connection = connection(&file.path());
    for (columns, values) in [
        ("stream, payload", "'', 'x'"),
        ("stream, payload", "x'61', 'x'"),
        ("stream, payload", "'orders', NULL"),
        ("stream, payload", "'orders', 7"),
        (
            "stream, payload, id",
            "'orders', 'x', '0190a6f1-2b3c-7d4e-8f50-112233445566'",
        ),
        ("stream, payload, id", "'orders', 'x', x'01'"),
        ("stream, payload, headers", "'orders', 'x', x'7b7d'"),
        ("stream, payload, order_key", "'orders', 'x', x'61'"),
        (
            "stream, payload, order_key",
            "'orders', 'x', hex(zeroblob(513))",
        ),
        ("stream, payload", "hex(zeroblob(128)), 'x'"),
    ] {
        let sql = format!("INSERT INTO semel_outbox ({columns}) VALUES ({values})");
        let refused = connection.execute(&sql, []).expect_err(&sql);
        let code = refused.sqlite_error_code();
        assert_eq!(
            code,
            Some(rusqlite::ErrorCode::ConstraintViolation),
            "{sql}"
        );
    }
}

#[tokio::test]
async fn a_message_outside_of_a_transaction_or_with_a_known_id_is_refused() {
    let file = File::open().await;
    let mut connection = connection(&file.path());
    let message = OutboxMessage::new("orders", "x").with_id(OutboxId::from_u128(7));
    let error = SqliteOutbox::publish(&connection, &message).expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let tx = connection.transaction().expect("a transaction");
    SqliteOutbox::publish(&tx, &message).expect("an id");
    let error = SqliteOutbox::publish(&tx, &message).expect_err("the same id");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = SqliteOutbox::publish(&tx, &OutboxMessage::new("", "x")).expect_err("no stream");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let other = OutboxMessage::new("orders", "y");
    SqliteOutbox::publish(&tx, &other).expect("the transaction goes on");
    tx.commit().expect("committed");
    let contents = file.outbox().await.inspect("orders").await;
    assert_eq!(contents.expect("contents").waiting, 2);
}

#[tokio::test]
async fn an_outbox_that_is_missing_or_newer_is_refused() {
    let lab = Lab::new();
    let error = refusal(&lab.path()).await;
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    assert!(error.to_string().contains("semel store migrate"), "{error}");
    assert!(!lab.path().exists(), "nothing is made by looking");
    drop(lab.store());
    let error = refusal(&lab.path()).await;
    assert!(error.to_string().contains("semel store migrate"), "{error}");
    let mut writer = lab.connection();
    let tx = writer.transaction().expect("a transaction");
    let message = OutboxMessage::new("orders", "x");
    let error = SqliteOutbox::publish(&tx, &message).expect_err("no outbox");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    let error = SqliteOutbox::create(&tx).expect_err("within a transaction");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    drop(tx);

    SqliteOutbox::create(&writer).expect("an outbox");
    SqliteOutbox::create(&writer).expect("nothing to do");
    let found = outbox(&lab.path());
    found.inspect("orders").await.expect("contents");
    let newer = format!(
        "UPDATE semel_outbox_format SET format = {}",
        OUTBOX_FORMAT + 1
    );
    writer.execute_batch(&newer).expect("changed");
    assert_eq!(refusal(&lab.path()).await.code(), Code::StoreNewer);
    let error = SqliteOutbox::create(&writer).expect_err("a newer one");
    assert_eq!(error.code(), Code::StoreNewer);
}

#[test]
fn a_store_is_opened_beside_an_outbox() {
    let lab = Lab::new();
    SqliteOutbox::create(&lab.connection()).expect("an outbox");
    drop(lab.store());
    let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('semel_meta', 'semel_outbox')";
    let count: i64 = Connection::open(lab.path())
        .and_then(|it| it.query_row(tables, [], |row| row.get(0)))
        .expect("a count");
    assert_eq!(count, 2);
}

/// A close of the file takes away the locks that the process has there, and a program with an older SQLite that leaves
/// last would remove the log of what is still open.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn its_connections_keep_their_locks_on_the_file() {
    use std::os::unix::fs::MetadataExt;

    let file = File::open().await;
    let outbox = file.outbox().await;
    let lease = Duration::from_secs(30);
    outbox
        .lease(&relay("one"), lease, true)
        .await
        .expect("a lease");
    assert!(SqliteOutboxStore::create(&file.path(), &Options::default()).is_ok());
    let inode = std::fs::metadata(file.path()).expect("a file").ino();
    let locks = std::fs::read_to_string("/proc/locks").expect("the locks of the system");
    let (process, inode) = (std::process::id().to_string(), format!(":{inode}"));
    let is_ours = |line: &&str| {
        let mut words = line.split_whitespace();
        words.clone().any(|it| it == process) && words.any(|it| it.ends_with(&inode))
    };
    assert!(locks.lines().any(|line| is_ours(&line)), "{locks}");
}
