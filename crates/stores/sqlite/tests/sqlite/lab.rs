//! A file in a folder of its own, a clock that stands still, and short words for common steps.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;
use semel_core::port::transactional::{Application, Statements, Value};
use semel_core::{Backoff, ClaimId, ClaimRequest, Clock, Key, Operation, Scope, Timestamp, Window};
use semel_store_sqlite::{Options, SqliteStore};
use tempfile::TempDir;

pub(crate) struct Stopped(AtomicU64);

impl Stopped {
    pub(crate) fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).expect("a short time");
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

pub(crate) fn clock() -> Arc<Stopped> {
    Arc::new(Stopped(AtomicU64::new(1_795_257_180_000)))
}

pub(crate) struct Lab {
    pub(crate) folder: TempDir,
    pub(crate) clock: Arc<Stopped>,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            clock: clock(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("semel.db")
    }

    pub(crate) fn store(&self) -> SqliteStore {
        self.store_with(Options::default())
    }

    pub(crate) fn store_with(&self, options: Options) -> SqliteStore {
        open(&self.path(), &self.clock, options).expect("a store")
    }

    /// Opens a connection as a user has one.
    pub(crate) fn connection(&self) -> Connection {
        connection(&self.path())
    }

    /// Returns whether SQLite finds the file whole.
    pub(crate) fn is_sound(&self) -> bool {
        let check = self
            .connection()
            .pragma_query_value(None, "integrity_check", |row| row.get(0));
        check.is_ok_and(|answer: String| answer == "ok")
    }
}

pub(crate) fn open(
    path: &Path,
    clock: &Arc<Stopped>,
    options: Options,
) -> semel_core::Result<SqliteStore> {
    SqliteStore::open(path, Arc::clone(clock) as Arc<dyn Clock>, options)
}

pub(crate) fn connection(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a connection");
    connection
        .busy_timeout(Duration::from_secs(20))
        .expect("a time limit");
    connection
}

pub(crate) fn scope() -> Scope {
    Scope::new("", "payments").expect("a scope")
}

pub(crate) fn operation(key: &str) -> Operation {
    Operation::new(scope(), Key::parse(key).expect("a key"))
}

pub(crate) fn request(key: &str, claim_id: u128) -> ClaimRequest {
    ClaimRequest::new(
        scope(),
        Key::parse(key).expect("a key"),
        ClaimId::from_u128(claim_id),
    )
}

pub(crate) fn statements(sql: &[&str], params: &[&str]) -> Statements {
    Statements {
        sql: sql.iter().map(|text| Box::from(*text)).collect(),
        params: params.iter().map(|name| Box::from(*name)).collect(),
    }
}

pub(crate) fn message(key: &str, claim_id: u128, values: Vec<Value>) -> Application {
    Application {
        claim: request(key, claim_id),
        values: values.into(),
        window: Window::DEFAULT,
        backoff: Backoff {
            first: Duration::from_millis(200),
            most: Duration::from_secs(30),
        },
        gives_back: false,
    }
}

pub(crate) fn text(value: &str) -> Value {
    Value::Text(value.into())
}

pub(crate) fn number(value: i64) -> Value {
    Value::Number(value.to_string().into())
}
