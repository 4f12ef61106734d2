//! Failures of a cluster, as its consumers meet them.

use std::time::Duration;

use bytes::Bytes;
use semel_broker_kafka::KafkaSource;
use semel_conformance::source::Message;
use semel_conformance::source::applied;
use semel_core::port::source::{Fetched, Source};
use semel_core::{Advice, Error, ErrorKind};
use tokio::time::timeout;

use crate::cluster::{Topic, brokers, ids, numbers, take};

/// Returns the first reported reason for being away.
async fn away(source: &mut KafkaSource) -> Error {
    let fetched = timeout(Duration::from_secs(20), source.fetch(10)).await;
    match fetched.expect("a word within twenty seconds") {
        Ok(Fetched::Away(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_topic_that_is_missing_is_named_and_read_as_soon_as_it_is_there() {
    let topic = Topic::absent(&brokers());
    let mut source = topic.source();
    let error = away(&mut source).await;
    assert!(error.to_string().contains(&topic.name), "{error}");
    assert!(error.to_string().contains("create it"), "{error}");
    assert!(matches!(error.advice(), Advice::Retry { .. }), "{error:?}");
    topic.create(1, &[]).await;
    topic.number(0..3, 1).await;
    let got = take(&mut source, 3).await;
    assert_eq!(numbers(&got), (0..3).collect());
}

#[tokio::test]
async fn a_cluster_that_is_absent_is_told_and_not_once_a_try() {
    let address = format!("127.0.0.1:{}", free_port::take().expect("a free port"));
    let topic = Topic::absent(&address);
    let mut source = topic.source();
    let error = away(&mut source).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert_eq!(
        error.to_string(),
        format!("Kafka cannot be reached at {address}: connection refused")
    );
    let mut told = 0;
    while let Ok(again) = timeout(Duration::from_secs(3), source.fetch(10)).await {
        assert!(matches!(again, Ok(Fetched::Away(_))), "{again:?}");
        told += 1;
        assert!(told < 3, "again and again");
    }
    // The outage does not hold up the end.
    timeout(Duration::from_secs(20), source.close())
        .await
        .expect("an end")
        .expect("nothing was left to tell");
}

/// A cause that librdkafka knows at once is reported without waiting.
#[tokio::test]
async fn a_cluster_that_is_not_there_is_told_within_two_seconds() {
    let closed = format!("127.0.0.1:{}", free_port::take().expect("a free port"));
    for (address, why) in [
        (&*closed, "connection refused"),
        ("nohost.invalid:9092", "the name does not resolve"),
    ] {
        let topic = Topic::absent(address);
        let begun = std::time::Duration::from_secs(2);
        let looked = timeout(begun, semel_broker_kafka::inspect(&topic.options())).await;
        let error = looked.expect("a word in time").expect_err("no cluster");
        let expected = format!("Kafka cannot be reached at {address}: {why}");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_setting_that_librdkafka_does_not_know_is_named() {
    let topic = Topic::absent(&brokers());
    let mut options = topic.options();
    options
        .properties
        .push(("no.such.setting".into(), "1".into()));
    let error = KafkaSource::new(options).expect_err("no such setting");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    assert!(error.to_string().contains("no.such.setting"), "{error}");
}

#[tokio::test]
async fn a_message_over_the_limit_tells_its_length_and_no_more() {
    let topic = Topic::with(1, &[]).await;
    topic.put(0, &Message::new(vec![b'x'; 300_000])).await;
    topic.put(0, &Message::new("short")).await;
    let mut options = topic.options();
    options.max_message_bytes = 100_000;
    let mut source = KafkaSource::new(options).expect("a source");
    let got = take(&mut source, 2).await;
    assert_eq!(got[0].oversize_bytes, Some(300_000));
    assert_eq!(got[0].payload.len(), 64 << 10);
    assert_eq!(got[1].oversize_bytes, None);
    assert_eq!(got[1].payload, Bytes::from("short"));
}

#[tokio::test]
async fn the_time_of_appending_is_told_from_the_producers() {
    let appended = Topic::with(1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let created = Topic::with(1, &[("message.timestamp.type", "CreateTime")]).await;
    for topic in [&appended, &created] {
        topic.number(0..1, 1).await;
    }
    let got = take(&mut appended.source(), 1).await;
    assert!(got[0].appended_at.is_some(), "{got:?}");
    let got = take(&mut created.source(), 1).await;
    assert_eq!(got[0].appended_at, None, "{got:?}");
    let has_time = got[0]
        .headers
        .iter()
        .any(|(name, _)| &**name == "kafka-create-time");
    assert!(has_time, "{got:?}");
}

#[tokio::test]
async fn coordinates_are_topic_partition_and_offset() {
    let topic = Topic::with(2, &[]).await;
    topic.put(1, &Message::new("a")).await;
    topic.put(1, &Message::new("b")).await;
    let mut source = topic.source();
    let got = take(&mut source, 2).await;
    let places: Vec<_> = got.iter().map(|it| it.coordinates.to_string()).collect();
    assert_eq!(
        places,
        [
            format!("kafka:{}:1:0", topic.name),
            format!("kafka:{}:1:1", topic.name)
        ]
    );
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("a word");
    source.close().await.expect("an end");
}
