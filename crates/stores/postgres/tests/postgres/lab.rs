//! A schema of its own, and short words for common steps.

use std::error::Error as StdError;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use semel_conformance::proxy::Proxy;
use semel_core::port::transactional::{Application, Applied, Statements, Value};
use semel_core::{
    Admission, Backoff, Claim, ClaimId, ClaimRequest, Error, Key, Operation, Outcome, Record,
    Scope, Settled, Settlement, StateKind, Step, Store, VersionGate, Window,
};
use semel_store_postgres::{Options, PostgresStore};
use tokio_postgres::Client;

use crate::site::{Site, server};

/// A schema on the server that all tests share.
pub(crate) struct Lab {
    pub(crate) site: Site,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self { site: Site::new() }
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        connect(&self.site.url(), Options::default()).await
    }

    /// Returns a store whose connections go through a proxy.
    pub(crate) async fn store_through(&self, proxy: &Proxy, options: Options) -> PostgresStore {
        connect(&at(&self.site.url(), proxy.address()), options).await
    }

    /// Returns the name of the schema.
    pub(crate) fn schema(&self) -> String {
        let url = self.site.url();
        let (_, rest) = url.split_once("schema=").expect("a schema");
        rest.split('&').next().expect("a name").to_owned()
    }

    /// Returns a connection as a user has one.
    pub(crate) async fn client(&self) -> Client {
        self.site.client().await
    }
}

pub(crate) async fn connect(url: &str, options: Options) -> PostgresStore {
    let store = PostgresStore::connect(url, options).await;
    store.expect("a store")
}

/// Returns a proxy in front of the server that all tests share.
pub(crate) fn proxy() -> Proxy {
    Proxy::start(address(&server()))
}

/// Returns the address in a url.
pub(crate) fn address(url: &str) -> SocketAddr {
    let (_, rest) = url.split_once('@').expect("a user");
    let end = rest.find('/').expect("a database");
    rest[..end].parse().expect("an address in numbers")
}

/// Returns the url with another address.
pub(crate) fn at(url: &str, address: SocketAddr) -> String {
    let (user, rest) = url.split_once('@').expect("a user");
    let end = rest.find('/').expect("a database");
    format!("{user}@{address}{}", &rest[end..])
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

/// Returns a request that is gated by a version of an entity.
pub(crate) fn gated(key: &str, claim_id: u128, entity: &str, version: u64) -> ClaimRequest {
    let entity = Key::parse(entity).expect("an entity");
    ClaimRequest {
        gate: Some(VersionGate { entity, version }),
        ..request(key, claim_id)
    }
}

pub(crate) fn report(key: &str, claim_id: u128, step: Step) -> Settlement {
    Settlement {
        operation: operation(key),
        claim_id: ClaimId::from_u128(claim_id),
        step,
    }
}

pub(crate) fn completion(key: &str, claim_id: u128, outcome: &'static [u8]) -> Settlement {
    let step = Step::Complete {
        outcome: Outcome::Kept {
            codec: 0,
            bytes: outcome.into(),
        },
        window: Window::DEFAULT,
    };
    report(key, claim_id, step)
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

pub(crate) fn number(value: &str) -> Value {
    Value::Number(value.into())
}

pub(crate) fn granted(admission: Admission) -> Claim {
    match admission {
        Admission::Granted(claim) => claim,
        other => panic!("not granted: {other:?}"),
    }
}

/// Returns the claim that a batch of one was granted.
pub(crate) async fn claim(store: &PostgresStore, request: &ClaimRequest) -> Claim {
    let answers = store.claim([request.clone()].into()).await;
    granted(answers.expect("an answer").remove(0))
}

/// Claims, for tests that do not use the claim.
pub(crate) async fn take(store: &PostgresStore, request: &ClaimRequest) {
    let _ = claim(store, request).await;
}

/// Settles a batch of one, for good.
pub(crate) async fn settle(store: &PostgresStore, settlement: &Settlement) -> StateKind {
    let answers = store.settle([settlement.clone()].into()).await;
    match answers.expect("an answer").remove(0) {
        Settled::Now(state) => state,
        other => panic!("not settled: {other:?}"),
    }
}

pub(crate) async fn record(store: &PostgresStore, key: &str) -> Option<Record> {
    let found = store.get([operation(key)].into()).await;
    found.expect("an answer").remove(0)
}

pub(crate) async fn state(store: &PostgresStore, key: &str) -> Option<StateKind> {
    record(store, key).await.map(|record| record.state.kind())
}

/// Returns whether a message is applied, by this call or an earlier one.
pub(crate) fn is_done(answer: &Applied) -> bool {
    match answer {
        Applied::Completed { .. } | Applied::NotGranted(Admission::Replay { .. }) => true,
        Applied::NotGranted(_) | Applied::Failed { .. } => false,
    }
}

/// Returns everything that an error can be made to say, with all its sources.
pub(crate) fn chain(error: &Error) -> String {
    let mut said = format!("{error}\n{error:?}\n{error:#?}");
    let mut next = error.source();
    while let Some(source) = next {
        // Writing to a string does not fail.
        let _ = write!(said, "\n{source}\n{source:?}\n{source:#?}");
        next = source.source();
    }
    said
}

/// Counts the rows of a table of the user.
pub(crate) async fn count(client: &Client, table: &str) -> i64 {
    let row = client
        .query_one(&format!("SELECT count(*) FROM {table}"), &[])
        .await;
    row.expect("a count").get(0)
}
