//! Short words for common steps of the tests.

use std::time::Duration;

use semel_core::{
    Admission, Claim, ClaimId, ClaimRequest, Error, Key, Operation, Outcome, Record, Scope,
    Settled, Settlement, StateKind, Step, Store, Window,
};
use semel_store_redis::{Options, RedisStore};

use crate::server::Server;

pub(crate) async fn connect(server: &Server) -> RedisStore {
    connect_to(&server.url()).await
}

pub(crate) async fn connect_to(url: &str) -> RedisStore {
    let store = RedisStore::connect(url, Options::default()).await;
    store.unwrap_or_else(|error| panic!("{url}: {error:?}"))
}

/// Returns the error of a store that cannot be opened.
pub(crate) async fn refused(url: &str) -> Error {
    match RedisStore::connect(url, Options::default()).await {
        Ok(_) => panic!("{url} was taken"),
        Err(error) => error,
    }
}

pub(crate) fn request(key: &str, claimant: u128) -> ClaimRequest {
    let scope = Scope::new("", "payments").expect("a scope");
    let key = Key::new(key).expect("a key");
    ClaimRequest::new(scope, key, ClaimId::from_u128(claimant))
}

pub(crate) async fn claim(store: &RedisStore, request: &ClaimRequest) -> Admission {
    let mut answers = store
        .claim([request.clone()].into())
        .await
        .expect("an answer");
    answers.remove(0)
}

pub(crate) async fn grant(store: &RedisStore, request: &ClaimRequest) -> Claim {
    match claim(store, request).await {
        Admission::Granted(claim) => claim,
        other => panic!("{} should be granted, got {other:?}", request.operation.key),
    }
}

pub(crate) fn completion(request: &ClaimRequest) -> Settlement {
    completion_for(request, Window::DEFAULT)
}

pub(crate) fn completion_for(request: &ClaimRequest, window: Window) -> Settlement {
    Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step: Step::Complete {
            outcome: Outcome::Kept {
                codec: 0,
                bytes: request.operation.key.as_bytes().to_vec().into(),
            },
            window,
        },
    }
}

pub(crate) async fn complete(store: &RedisStore, request: &ClaimRequest) {
    let settled = store
        .settle([completion(request)].into())
        .await
        .expect("settled");
    assert!(
        matches!(settled[..], [Settled::Now(StateKind::Completed)]),
        "{settled:?}"
    );
}

pub(crate) async fn record(store: &RedisStore, operation: &Operation) -> Option<Record> {
    let mut records = store
        .get([operation.clone()].into())
        .await
        .expect("records");
    records.remove(0)
}

/// Returns everything that an error says, with its sources, and the part of it that a log may show.
pub(crate) fn words(error: &Error) -> String {
    let mut words = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        words = format!("{words} {error} {error:?}");
        source = error.source();
    }
    words
}

/// Lets the tasks behind a store notice that their connections ended.
pub(crate) async fn rest() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Tries again until `is_so` holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    for _ in 0..1_000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}
