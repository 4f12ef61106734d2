//! A thousand intents over a network that loses, cuts and delays.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use semel_client::{Error, Intent, Reason, Retry, RetryLayer, Settings, Stopped};
use semel_core::{Backoff, Certainty};
use semel_engine::once::Once;
use semel_engine::system::SystemClock;
use semel_gateway::{IdempotencyLayer, Route};
use semel_store_memory::MemoryStore;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tower::Layer;

use crate::proxy::Proxy;
use crate::scripted::DAY;
use crate::servers::{Books, Server, nowhere};

type Sender = Retry<Client<HttpConnector, Full<Bytes>>>;

/// A client that never gives up as long as a test may take.
fn client() -> Sender {
    let settings = Settings {
        attempts: NonZeroU32::MAX,
        attempt_timeout: Duration::from_secs(2),
        budget: Duration::from_secs(900),
        backoff: Backoff {
            first: Duration::from_millis(5),
            most: Duration::from_millis(100),
        },
        ..Settings::keyed(DAY)
    };
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build_http();
    RetryLayer::new(settings)
        .expect("settings that hold")
        .layer(client)
}

fn charge(url: &str, number: usize) -> (Intent, Request<Full<Bytes>>) {
    let intent = Intent::of("charge", number.to_string()).expect("an intent");
    let request = Request::post(url).header("connection", "close");
    let body = Full::new(Bytes::from(number.to_string()));
    (intent, request.body(body).expect("a request"))
}

/// Sends so many charges, and returns their answers in no order.
async fn send_all(url: &str, count: usize) -> Vec<(usize, Result<Bytes, Error>)> {
    let (client, room) = (client(), Arc::new(Semaphore::new(32)));
    let mut calls = JoinSet::new();
    for number in 0..count {
        let (client, room) = (client.clone(), Arc::clone(&room));
        let (intent, request) = charge(url, number);
        calls.spawn(async move {
            let _turn = room.acquire().await.expect("it is never closed");
            let sent = client.send(&intent, request).await;
            let body = match sent {
                Ok(answer) => {
                    assert_eq!(answer.status(), 201);
                    Ok(answer
                        .into_body()
                        .collect()
                        .await
                        .expect("a body")
                        .to_bytes())
                }
                Err(error) => Err(error),
            };
            (number, body)
        });
    }
    calls.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_intents_are_applied_once_each_whatever_the_network_does() {
    const COUNT: usize = 1_000;
    let once = Once::new(Arc::new(MemoryStore::new(Arc::new(SystemClock::new()))));
    let route = Route {
        wait: Duration::from_millis(100),
        ..Route::default()
    };
    let keys = IdempotencyLayer::new(&once, route).expect("settings that hold");
    let books = Books::default();
    let server = Server::start(books.app().layer(keys)).await;
    let proxy = Proxy::start(server.address, 7).await;
    for (number, sent) in send_all(&proxy.url("/charges"), COUNT).await {
        let body = sent.unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(body, format!("{{\"charge\":{number},\"count\":1}}"));
    }
    let charges = books.charges();
    assert_eq!(charges.len(), COUNT);
    for (key, count) in charges {
        assert_eq!(count, 1, "{key}");
    }
    assert!(proxy.met_every_fate(), "{:?}", proxy.counts());
    assert!(
        proxy.counts().values().sum::<u32>() > 1_300,
        "{:?}",
        proxy.counts()
    );
}

/// The same network and the same client before a server that knows nothing of keys: what the keys are for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ignores_keys_applies_some_intents_twice() {
    let books = Books::default();
    let server = Server::start(books.app()).await;
    let proxy = Proxy::start(server.address, 7).await;
    let sent = send_all(&proxy.url("/charges"), 200).await;
    assert!(sent.iter().all(|(_, sent)| sent.is_ok()));
    assert!(books.charges().values().any(|count| *count > 1));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_certainly_not_applied() {
    let address = nowhere().await;
    let settings = Settings {
        attempts: NonZeroU32::new(3).expect("three"),
        ..Settings::unkeyed()
    };
    let http = Client::builder(TokioExecutor::new()).build_http();
    let retry = RetryLayer::new(settings)
        .expect("settings that hold")
        .layer(http);
    let (intent, request) = charge(&format!("http://{address}/charges"), 1);
    let error = retry
        .send(&intent, request)
        .await
        .expect_err("nobody listens");
    assert_eq!(
        (error.reason(), error.stopped()),
        (Reason::Unreached, Stopped::Attempts)
    );
    assert_eq!(
        (error.certainty(), error.attempts()),
        (Certainty::NotApplied, 3)
    );
}
