//! Horizons of streams of a real server.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull};
use semel_broker_nats::{Options, inspect};
use semel_core::port::horizon::{Horizon, HorizonReport};
use semel_core::{ErrorKind, Timestamp};

use crate::test_stream::{CONSUMER, TestStream};

fn fact<'a>(horizons: &'a HorizonReport, name: &str) -> &'a str {
    let mut facts = horizons.facts.iter();
    let fact = facts.find(|fact| &*fact.name == name);
    &fact
        .unwrap_or_else(|| panic!("no {name}: {horizons:?}"))
        .value
}

async fn horizons(test_stream: &TestStream) -> HorizonReport {
    inspect(&test_stream.options())
        .await
        .expect("an inspection")
}

#[tokio::test]
async fn a_stream_is_known_by_its_age_and_its_oldest_message() {
    let test_stream = TestStream::open().await;
    let hour = Duration::from_secs(3_600);
    let endless = horizons(&test_stream).await;
    assert_eq!(endless.redelivery, Horizon::Endless);
    assert_eq!(endless.oldest, None, "it is empty");
    test_stream.make(|config| config.max_age = hour).await;
    test_stream.put_numbers(2).await;
    let aged = horizons(&test_stream).await;
    assert_eq!(aged.redelivery, Horizon::Within(hour));
    assert_eq!(aged.replay, Horizon::Within(hour));
    assert!(aged.is_stamped);
    let oldest = aged.oldest.expect("a message");
    assert!(
        oldest > Timestamp::from_millis(1_700_000_000_000),
        "{oldest}"
    );
    assert_eq!(fact(&aged, "max_age"), "1h");
    assert_eq!(fact(&aged, "retention"), "limits");
    assert_eq!(fact(&aged, "duplicate_window"), "2m");
    assert_eq!(aged.unread, []);
    // Nothing was made.
    assert_eq!(fact(&aged, "consumer"), "not there yet");
    let mut stream = test_stream.stream().await;
    let info = stream.info().await.expect("the stream");
    assert_eq!(info.state.consumer_count, 0);
}

#[tokio::test]
async fn what_goes_by_number_goes_nobody_knows_when() {
    let test_stream = TestStream::open().await;
    test_stream.make(|config| config.max_messages = 1_000).await;
    assert_eq!(horizons(&test_stream).await.redelivery, Horizon::Unknown);
}

#[tokio::test]
async fn a_consumer_is_known_by_its_limits() {
    let test_stream = TestStream::open().await;
    let config = |policy| pull::Config {
        durable_name: Some(CONSUMER.to_owned()),
        ack_policy: policy,
        ack_wait: Duration::from_secs(1),
        max_deliver: 4,
        ..pull::Config::default()
    };
    let stream = test_stream.stream().await;
    let made = stream.create_consumer(config(AckPolicy::Explicit)).await;
    let _ = made.expect("a consumer");
    let found = horizons(&test_stream).await;
    assert_eq!(found.deliveries, Some(4));
    assert_eq!(fact(&found, "ack_wait"), "1s");
    assert_eq!(fact(&found, "max_deliver"), "4");
    assert_eq!(found.warnings.len(), 2, "ack_wait, max_deliver: {found:?}");
}

#[tokio::test]
async fn what_cannot_be_looked_at_is_an_error() {
    let test_stream = TestStream::open().await;
    let absent = Options::new(&test_stream.url, "no-such-stream", CONSUMER);
    let error = inspect(&absent).await.expect_err("no stream");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    let nobody = free_port::take().expect("a free port");
    let away = Options::new(
        format!("nats://127.0.0.1:{nobody}"),
        &test_stream.name,
        CONSUMER,
    );
    let error = inspect(&away).await.expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
