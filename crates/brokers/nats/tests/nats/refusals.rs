//! Failures that trying again cannot help against, and findings for the operator.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, pull, push};
use async_nats::jetstream::stream::StorageType;
use semel_broker_nats::{NatsSource, Options};
use semel_conformance::source::applied;
use semel_core::port::source::Source;
use semel_core::{Advice, Error, ErrorKind};
use tokio::time::timeout;

use crate::test_stream::{CONSUMER, TestStream};
use crate::{ids, take};

/// Returns the permanent error that a fetch returns at once.
async fn refusal(options: Options) -> Error {
    let mut source = NatsSource::new(options).expect("good options");
    let fetched = timeout(Duration::from_secs(20), source.fetch(1)).await;
    let error = fetched.expect("it is told").expect_err("it is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert_eq!(error.advice(), Advice::Fix);
    error
}

fn as_user(test_stream: &TestStream, login: &str) -> Options {
    let url = test_stream
        .url
        .replace("nats://", &format!("nats://{login}@"));
    Options {
        url,
        ..test_stream.options()
    }
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_shown() {
    let test_stream = TestStream::open().await;
    let error = refusal(as_user(&test_stream, "semel_guarded:s3cret")).await;
    assert!(
        error.to_string().contains("refuses the credentials"),
        "{error}"
    );
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    refusal(as_user(&test_stream, "t0ken")).await;
}

#[tokio::test]
async fn a_password_may_have_any_characters() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(1).await;
    let options = as_user(&test_stream, "semel_guarded:p%40ss%3Aword");
    let mut source = NatsSource::new(options).expect("good options");
    assert_eq!(take(&mut source, 1).await.len(), 1);
}

#[tokio::test]
async fn a_missing_right_is_named() {
    let test_stream = TestStream::open().await;
    test_stream.put_numbers(1).await;
    let error = refusal(as_user(&test_stream, "semel_reader:reader")).await;
    assert!(error.to_string().contains("consumer.create"), "{error}");
    // With a consumer it may read, but not acknowledge.
    test_stream.source().connect().await.expect("a consumer");
    let options = as_user(&test_stream, "semel_reader:reader");
    let mut source = NatsSource::new(options).expect("good options");
    let got = take(&mut source, 1).await;
    let error = source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect_err("it may not");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("$js.ack"), "{error}");
}

#[tokio::test]
async fn a_missing_stream_is_named() {
    let test_stream = TestStream::open().await;
    let options = Options {
        stream: "nowhere".to_owned(),
        ..test_stream.options()
    };
    assert!(
        refusal(options)
            .await
            .to_string()
            .contains("no stream nowhere")
    );
}

#[tokio::test]
async fn a_missing_credentials_file_is_named() {
    let test_stream = TestStream::open().await;
    let file = Some("/nowhere/me.creds".into());
    let error = refusal(Options {
        credentials_file: file,
        ..test_stream.options()
    })
    .await;
    assert!(error.to_string().contains("/nowhere/me.creds"), "{error}");
}

#[tokio::test]
async fn a_consumer_that_settles_unnamed_messages_is_refused() {
    for policy in [AckPolicy::All, AckPolicy::None] {
        let test_stream = TestStream::open().await;
        let config = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: policy,
            ..pull::Config::default()
        };
        test_stream
            .stream()
            .await
            .create_consumer(config)
            .await
            .expect("a consumer");
        let error = refusal(test_stream.options()).await;
        assert!(error.to_string().contains("explicit"), "{error}");
    }
    let test_stream = TestStream::open().await;
    let config = push::Config {
        durable_name: Some(CONSUMER.to_owned()),
        deliver_subject: "somewhere".to_owned(),
        ..push::Config::default()
    };
    test_stream
        .stream()
        .await
        .create_consumer(config)
        .await
        .expect("a consumer");
    assert!(
        refusal(test_stream.options())
            .await
            .to_string()
            .contains("push")
    );
}

#[tokio::test]
async fn another_filter_is_refused() {
    let test_stream = TestStream::open().await;
    test_stream.source().connect().await.expect("a consumer");
    let filter = Some(format!("{}.x", test_stream.name));
    refusal(Options {
        filter_subject: filter,
        ..test_stream.options()
    })
    .await;
}

#[tokio::test]
async fn a_consumer_that_is_made_has_no_findings() {
    let test_stream = TestStream::open().await;
    let mut source = test_stream.source();
    source.connect().await.expect("connected");
    assert_eq!(source.findings(), [""; 0]);
    let info = test_stream
        .stream()
        .await
        .consumer_info(CONSUMER)
        .await
        .expect("made");
    assert_eq!(info.config.ack_policy, AckPolicy::Explicit);
    assert_eq!(info.config.ack_wait, test_stream.options().lease);
    assert_eq!(
        (info.config.max_deliver, info.config.max_ack_pending),
        (-1, 1_000)
    );
    // Another one finds it as it is.
    let mut other = test_stream.source();
    other.connect().await.expect("connected");
    assert_eq!(other.findings(), [""; 0]);
}

#[tokio::test]
async fn what_is_worse_than_it_should_be_is_told() {
    let test_stream = TestStream::open().await;
    test_stream
        .stream()
        .await
        .create_consumer(pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_wait: Duration::from_secs(1),
            max_deliver: 3,
            ..pull::Config::default()
        })
        .await
        .expect("a consumer");
    let mut source = test_stream.source();
    source.connect().await.expect("connected");
    let findings = source.findings().join("\n");
    assert_eq!(source.findings().len(), 2, "{findings}");
    assert!(
        findings.contains("ack_wait") && findings.contains("max_deliver is 3"),
        "{findings}"
    );
}

#[tokio::test]
async fn a_stream_in_memory_is_told() {
    let mut test_stream = TestStream::open().await;
    test_stream.name.push_str("-m");
    test_stream
        .make(|config| config.storage = StorageType::Memory)
        .await;
    let mut source = test_stream.source();
    source.connect().await.expect("connected");
    assert!(
        source.findings().concat().contains("memory"),
        "{:?}",
        source.findings()
    );
}
