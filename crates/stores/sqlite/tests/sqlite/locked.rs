//! A file that another process has locked: whoever opens it waits, and keeps nobody else of its process waiting.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use semel_core::Result;
use semel_core::port::ingest::IngestJournal;
use semel_core::port::producer::ProducerJournal;
use semel_core::producer::ProducerOrder;
use semel_store_sqlite::{Options, SqliteIngest, SqliteOutbox, SqliteOutboxStore, SqliteProducers};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::lab::connection;

/// The test that holds a lock in a process of its own.
const HOLDER: &str = "locked::a_process_that_holds_a_lock";

/// A lock that another process holds, until this is dropped.
struct Lock(Child);

impl Lock {
    fn of(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", HOLDER, "--nocapture"])
            .env("SEMEL_LOCKED_PATH", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("a pipe");
        let mut lines = BufReader::new(output)
            .lines()
            .map_while(std::result::Result::ok);
        assert!(lines.any(|line| line.contains("HELD")), "it holds no lock");
        Self(child)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "a process tells another one what it holds"
)]
fn a_process_that_holds_a_lock() {
    let Ok(path) = std::env::var("SEMEL_LOCKED_PATH") else {
        return;
    };
    let connection = connection(Path::new(&path));
    connection.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    println!("HELD");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

/// A file without a write-ahead log, with an outbox and a journal of producers.
fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shop.db");
    let connection = connection(&path);
    SqliteOutbox::create(&connection).expect("an outbox");
    drop(connection);
    SqliteProducers::create(&path, &Options::default()).expect("a journal");
    (folder, path)
}

/// Waits for a lock for as long as a test may take.
fn patient() -> Options {
    let mut options = Options::default();
    options.busy_timeout = Duration::from_secs(30);
    options
}

/// Asks while another process has the file locked, on a runtime with one thread.
async fn is_asked_beside<T: Send + 'static>(
    path: &Path,
    question: impl Future<Output = Result<T>> + Send + 'static,
) {
    let lock = Lock::of(path);
    let asked = tokio::spawn(question);
    // The only thread of this runtime sees the time pass.
    for _ in 0..10 {
        sleep(Duration::from_millis(10)).await;
        assert!(!asked.is_finished(), "nobody answers beside the lock");
    }
    drop(lock);
    assert!(asked.await.expect("no panic").is_ok());
}

#[tokio::test]
async fn whoever_opens_an_outbox_that_is_locked_keeps_nobody_waiting() {
    let (_folder, path) = file();
    let outbox = SqliteOutboxStore::new(&path, patient()).expect("an outbox");
    is_asked_beside(&path, async move { outbox.inspect("orders").await }).await;
}

#[tokio::test]
async fn whoever_opens_a_journal_that_is_locked_keeps_nobody_waiting() {
    let (_folder, path) = file();
    let own = SqliteProducers::new(&path, patient()).expect("a journal");
    is_asked_beside(&path, async move { own.page(None, 10).await }).await;
    // An order opens the file with a write-ahead log, beside which nobody waits: each has a file of its own.
    let (_folder, path) = file();
    let own = SqliteProducers::new(&path, patient()).expect("a journal");
    let name = "billing".parse().expect("a name");
    is_asked_beside(&path, async move {
        own.order(&name, ProducerOrder::Freeze).await
    })
    .await;
    let (_folder, path) = file();
    let others = SqliteIngest::new(&path, patient()).expect("a journal");
    is_asked_beside(&path, async move { others.page(None, 10).await }).await;
}
