//! A database of its own, a clock that stands still, and short words for common steps.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use semel_conformance::TestClock;
use semel_core::decide::{Directed, Directive, Order};
use semel_core::port::transactional::{Application, Statements, Value};
use semel_core::{
    Admission, Backoff, Claim, ClaimId, ClaimRequest, Key, Operation, Outcome, Record, Scope,
    Settlement, Step, Store, Window,
};
use semel_store_mysql::{MysqlStore, Options};

use crate::database::{Database, server_url};

pub(crate) struct Lab {
    pub(crate) database: Database,
    pub(crate) clock: TestClock,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        Self {
            database: fresh_database().await,
            clock: TestClock::new(),
        }
    }

    pub(crate) fn options(&self) -> Options {
        let mut options = Options::default();
        options.clock = Some(Arc::new(self.clock.clone()));
        options
    }

    pub(crate) async fn store(&self) -> MysqlStore {
        self.store_at(&self.database.url()).await
    }

    pub(crate) async fn store_at(&self, url: &str) -> MysqlStore {
        MysqlStore::connect(url, self.options())
            .await
            .expect("a store")
    }

    /// Waits until a session in this database waits for a lock, and returns its id. The table of transactions is a copy
    /// that is not renewed while it is often read; the report of the engine is not.
    pub(crate) async fn waiting_session(&self) -> u64 {
        let mut connection = self.database.connect().await;
        let select = format!(
            "SELECT id FROM information_schema.processlist WHERE db = '{}'",
            self.database.name
        );
        loop {
            let sessions: Vec<u64> = connection.query(&*select).await.expect("sessions");
            let report: Option<(String, String, String)> = connection
                .query_first("SHOW ENGINE INNODB STATUS")
                .await
                .expect("a report");
            let (_, _, report) = report.expect("a report");
            let transactions = report.split("---TRANSACTION");
            let waiting: Vec<&str> = transactions.filter(|it| it.contains("LOCK WAIT")).collect();
            let is_here = |id: &&u64| {
                let thread = format!("thread id {id},");
                waiting.iter().any(|it| it.contains(&thread))
            };
            if let Some(id) = sessions.iter().find(is_here) {
                return *id;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Creates a database without tables on the server that the environment names.
pub(crate) async fn fresh_database() -> Database {
    Database::on(&server_url()).await
}

pub(crate) fn scope() -> Scope {
    Scope::new("", "payments").expect("a scope")
}

pub(crate) fn operation(key: &str) -> Operation {
    Operation::new(scope(), Key::parse(key).expect("a key"))
}

pub(crate) fn request(key: &str, claim_id: u128) -> ClaimRequest {
    let key = Key::parse(key).expect("a key");
    ClaimRequest::new(scope(), key, ClaimId::from_u128(claim_id))
}

pub(crate) fn complete(key: &str, claim_id: u128) -> Settlement {
    Settlement {
        operation: operation(key),
        claim_id: ClaimId::from_u128(claim_id),
        step: Step::Complete {
            outcome: Outcome::empty(),
            window: Window::DEFAULT,
        },
    }
}

/// Returns the keys in the order in which the store locks them.
pub(crate) fn in_lock_order<'k>(keys: &[&'k str]) -> Vec<&'k str> {
    let mut keys = keys.to_vec();
    keys.sort_by_key(|key| operation(key).id());
    keys
}

/// Returns the literal of an operation id.
pub(crate) fn id_of(key: &str) -> String {
    let hex = operation(key).id().to_string();
    format!("X'{hex}'")
}

pub(crate) async fn grant(store: &MysqlStore, request: &ClaimRequest) -> Claim {
    match claim(store, request).await {
        Admission::Granted(claim) => claim,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) async fn claim(store: &MysqlStore, request: &ClaimRequest) -> Admission {
    let answers = store.claim([request.clone()].into()).await;
    answers.expect("answers").remove(0)
}

pub(crate) async fn forget(store: &MysqlStore, key: &str) {
    let order = Directive {
        operation: operation(key),
        order: Order::Forget,
        note: None,
    };
    let forgotten = store.operate([order].into()).await.expect("answers");
    assert!(
        matches!(forgotten[..], [Directed::Now(None)]),
        "{forgotten:?}"
    );
}

pub(crate) async fn record(store: &MysqlStore, key: &str) -> Option<Record> {
    store
        .get([operation(key)].into())
        .await
        .expect("answers")
        .remove(0)
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
