//! Publishing, each message confirmed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::MetadataTopic;
use rdkafka::mocking::MockCluster;
use semel_broker_kafka::{KafkaSink, KafkaSource, Options, SinkOptions, StreamOptions};
use semel_conformance::TestClock;
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Certainty, ErrorKind, Window};

use crate::cluster::{Topic, brokers, take};

fn message(id: &str, payload: impl Into<Bytes>) -> Publication {
    Publication {
        id: id.into(),
        order: Some("cart-1".into()),
        payload: payload.into(),
        headers: vec![("reason".into(), "dead".into())],
    }
}

#[tokio::test]
async fn what_is_confirmed_is_there_whole_and_in_order() {
    let topic = Topic::with(1, &[]).await;
    let sink = KafkaSink::new(SinkOptions::new(&topic.brokers, &topic.name)).expect("a sink");
    let batch: Vec<_> = (0..500)
        .map(|n| message(&n.to_string(), n.to_string()))
        .collect();
    let confirmed = sink.publish(&batch).await;
    assert_eq!(confirmed.len(), 500);
    assert!(confirmed.iter().all(Result::is_ok), "{confirmed:?}");
    let all = topic.all(500);
    let expected: Vec<_> = batch.iter().map(|it| it.payload.clone()).collect();
    assert_eq!(all, expected);
    let mut source = topic.source();
    let got = take(&mut source, 500).await;
    for (name, value) in [
        ("semel-id", "0"),
        ("reason", "dead"),
        ("kafka-key", "cart-1"),
    ] {
        let header = (name.into(), Bytes::from(value));
        assert!(
            got[0].headers.contains(&header),
            "{name}: {:?}",
            got[0].headers
        );
    }
}

/// Places are told to a caller that asks for them: the partition and the offset of each message.
#[tokio::test]
async fn places_are_those_in_the_topic() {
    let topic = Topic::with(1, &[]).await;
    for has_id_header in [true, false] {
        let mut options = SinkOptions::new(&topic.brokers, &topic.name);
        options.has_id_header = has_id_header;
        let sink = KafkaSink::new(options).expect("a sink");
        let batch: Vec<_> = (0..20)
            .map(|n: u32| {
                let mut message = message(&n.to_string(), n.to_string());
                if !has_id_header {
                    message.headers.clear();
                }
                message
            })
            .collect();
        let first = if has_id_header { 0 } else { 20 };
        for (answer, offset) in sink.place(&batch).await.into_iter().zip(first..) {
            let placement = answer.expect("confirmed");
            let place = (placement.partition, placement.offset);
            assert_eq!(place, (Some(0), Some(offset)));
            assert!(!placement.is_duplicate);
        }
    }
}

#[tokio::test]
async fn without_ids_all_are_there_in_order_whatever_else_they_have() {
    let topic = Topic::with(1, &[]).await;
    let mut options = SinkOptions::new(&topic.brokers, &topic.name);
    options.has_id_header = false;
    // Fewer than are handed over at once.
    let room = ("queue.buffering.max.messages".into(), "300".into());
    options.properties = vec![room];
    let sink = KafkaSink::new(options).expect("a sink");
    assert!(!sink.sends_ids());
    let batch: Vec<_> = (0..2_500)
        .map(|n: u32| {
            let mut message = message("", n.to_string());
            if n % 700 != 3 {
                message.headers.clear();
            }
            if n % 1_100 == 50 {
                message.headers = vec![("kafka-key".into(), "cart-2".into())];
            }
            message
        })
        .collect();
    let confirmed = sink.publish(&batch).await;
    assert_eq!(confirmed.len(), 2_500);
    assert!(confirmed.iter().all(Result::is_ok), "{confirmed:?}");
    let mut source = topic.source();
    let got = take(&mut source, 2_500).await;
    for (number, (sent, read)) in batch.iter().zip(&got).enumerate() {
        assert_eq!(read.payload, sent.payload);
        let value = |wanted: &str| {
            let mut headers = read.headers.iter();
            headers.find_map(|(name, value)| (&**name == wanted).then_some(&value[..]))
        };
        assert_eq!(value("semel-id"), None);
        let reason = (number % 700 == 3).then_some(&b"dead"[..]);
        assert_eq!(value("reason"), reason, "{number}");
        let key: &[u8] = if number % 1_100 == 50 {
            b"cart-2"
        } else {
            b"cart-1"
        };
        assert_eq!(value("kafka-key"), Some(key), "{number}");
    }
}

#[tokio::test]
async fn without_ids_one_that_is_too_long_fails_alone() {
    let topic = Topic::with(1, &[("max.message.bytes", "10000")]).await;
    let mut options = SinkOptions::new(&topic.brokers, &topic.name);
    options.has_id_header = false;
    options.properties = vec![("message.max.bytes".into(), "20000".into())];
    let sink = KafkaSink::new(options).expect("a sink");
    // Some too long for the broker, some for librdkafka.
    let lengths = [1, 30_000, 2, 15_000, 40_000, 3];
    let batch = lengths.map(|len| Publication {
        headers: Vec::new(),
        ..message("", vec![b'x'; len])
    });
    let confirmed = sink.publish(&batch).await;
    let failed = confirmed.iter().map(|answer| {
        let error = answer.as_ref().err();
        error.map(|error| (error.kind(), error.certainty()))
    });
    let failed: Vec<_> = failed.collect();
    let refused = Some((ErrorKind::InvalidInput, Certainty::NotApplied));
    assert_eq!(failed, [None, refused, None, refused, refused, None]);
    let lengths: Vec<_> = topic.all(3).iter().map(Bytes::len).collect();
    assert_eq!(lengths, [1, 2, 3]);
}

#[tokio::test]
async fn one_that_is_too_long_fails_alone() {
    let topic = Topic::with(1, &[("max.message.bytes", "10000")]).await;
    let sink = KafkaSink::new(SinkOptions::new(&topic.brokers, &topic.name)).expect("a sink");
    let batch = [
        message("a", "a"),
        message("b", vec![b'x'; 20_000]),
        message("c", vec![b'x'; 2_000_000]),
    ];
    let confirmed = sink.publish(&batch).await;
    assert!(
        confirmed[0].is_ok(),
        "it was in the same batch: {confirmed:?}"
    );
    let rest = sink.publish(&[message("d", "d")]).await;
    assert!(rest[0].is_ok(), "{rest:?}");
    for refused in &confirmed[1..] {
        let error = refused.as_ref().expect_err("too long");
        assert_eq!(
            (error.kind(), error.certainty()),
            (ErrorKind::InvalidInput, Certainty::NotApplied),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn one_that_a_compacted_topic_does_not_take_fails_alone() {
    let topic = Topic::with(1, &[("cleanup.policy", "compact")]).await;
    let sink = KafkaSink::new(SinkOptions::new(&topic.brokers, &topic.name)).expect("a sink");
    let without_key = Publication {
        order: None,
        ..message("b", "b")
    };
    for _ in 0..2 {
        let batch = [
            message("a", "a"),
            without_key.clone(),
            message("c", "c"),
            message("d", "d"),
        ];
        let confirmed = sink.publish(&batch).await;
        let is_there: Vec<_> = confirmed.iter().map(Result::is_ok).collect();
        assert_eq!(is_there, [true, false, true, true], "{confirmed:?}");
        let error = confirmed[1].as_ref().expect_err("refused");
        assert_eq!(
            (error.kind(), error.certainty()),
            (ErrorKind::InvalidInput, Certainty::NotApplied),
            "{error:?}"
        );
        assert!(error.to_string().contains("without a key"), "{error}");
    }
    assert_eq!(topic.all(6), ["a", "c", "d", "a", "c", "d"]);
}

#[tokio::test]
async fn a_topic_that_is_missing_is_named() {
    let topic = Topic::absent(&brokers());
    let sink = KafkaSink::new(SinkOptions::new(&topic.brokers, &topic.name)).expect("a sink");
    let confirmed = sink.publish(&[message("a", "a")]).await;
    let error = confirmed[0].as_ref().expect_err("no topic");
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    assert!(error.to_string().contains(&topic.name), "{error}");
}

#[tokio::test]
async fn a_message_waits_for_a_topic_that_is_on_its_way() {
    let topic = Topic::absent(&brokers());
    let sink = KafkaSink::new(SinkOptions::new(&topic.brokers, &topic.name)).expect("a sink");
    let looked = sink.connect().await.expect_err("no topic yet");
    assert_eq!(looked.kind(), ErrorKind::InvalidConfig, "{looked:?}");
    let batch = [message("a", "a")];
    let (confirmed, ()) = tokio::join!(sink.publish(&batch), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        topic.create(1, &[]).await;
    });
    assert!(confirmed[0].is_ok(), "{confirmed:?}");
    assert_eq!(topic.all(1), ["a"]);
}

#[tokio::test]
async fn a_cluster_that_makes_what_it_is_asked_for_makes_no_misspelt_topic() {
    // It creates topics unless it is configured not to.
    let cluster = MockCluster::new(1).expect("a cluster");
    let options = SinkOptions::new(&cluster.bootstrap_servers(), "paymnets");
    let sink = KafkaSink::new(options.clone()).expect("a sink");
    for looked in [
        sink.connect().await,
        sink.publish(&[message("a", "a")]).await.remove(0),
    ] {
        let error = looked.expect_err("no topic");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
    }
    let mut willing = options;
    let setting = ("allow.auto.create.topics".into(), "true".into());
    willing.properties.push(setting);
    let sink = KafkaSink::new(willing).expect("a sink");
    let confirmed = sink.publish(&[message("a", "a")]).await;
    assert!(confirmed[0].is_ok(), "{confirmed:?}");
}

#[tokio::test]
async fn whoever_makes_ready_for_transactions_makes_no_misspelt_topic() {
    let cluster = MockCluster::new(1).expect("a cluster");
    let servers = cluster.bootstrap_servers();
    cluster.create_topic("payments", 1, 1).expect("a topic");
    let window = Window::new(Duration::from_secs(60));
    let made = KafkaSource::streamed(
        Options::new(&servers, "payments", "billing"),
        StreamOptions::new("recepits", "payments", "billing-1", window),
        Arc::new(TestClock::new()),
    );
    let (_source, _stream) = made.expect("a member");
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &servers);
    let reader: BaseConsumer = config.create().expect("a reader");
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let known = reader.fetch_metadata(None, Duration::from_secs(5));
        let known = known.expect("an answer");
        let names: Vec<_> = known.topics().iter().map(MetadataTopic::name).collect();
        assert!(!names.contains(&"recepits"), "{names:?}");
    }
}

#[tokio::test]
async fn while_nobody_answers_nothing_is_sent() {
    let address = format!("127.0.0.1:{}", free_port::take().expect("a free port"));
    let mut options = SinkOptions::new(&address, "payments");
    options.timeout = Duration::from_secs(2);
    let sink = KafkaSink::new(options).expect("a sink");
    let confirmed = sink.publish(&[message("a", "a")]).await;
    let error = confirmed[0].as_ref().expect_err("nobody is there");
    assert_eq!(
        (error.kind(), error.certainty()),
        (ErrorKind::Unavailable, Certainty::NotApplied),
        "{error:?}"
    );
}

#[tokio::test]
async fn nobody_knows_what_became_of_a_message_without_a_confirmation() {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("payments", 1, 1).expect("a topic");
    let mut options = SinkOptions::new(&cluster.bootstrap_servers(), "payments");
    options.timeout = Duration::from_secs(2);
    let sink = KafkaSink::new(options).expect("a sink");
    let confirmed = sink.publish(&[message("a", "a")]).await;
    assert!(confirmed[0].is_ok(), "{confirmed:?}");

    cluster.broker_down(1).expect("a broker");
    for (kind, certainty) in [
        (ErrorKind::Timeout, Certainty::MaybeApplied),
        (ErrorKind::Unavailable, Certainty::NotApplied),
    ] {
        let confirmed = sink.publish(&[message("b", "b")]).await;
        let error = confirmed[0].as_ref().expect_err("nobody is there");
        assert_eq!(
            (error.kind(), error.certainty()),
            (kind, certainty),
            "{error:?}"
        );
    }

    cluster.broker_up(1).expect("a broker");
    let confirmed = sink.publish(&[message("b", "b")]).await;
    assert!(confirmed[0].is_ok(), "{confirmed:?}");
}

#[tokio::test]
async fn what_makes_the_producer_idempotent_is_ours() {
    for name in ["acks", "enable.idempotence", "transactional.id"] {
        let mut options = SinkOptions::new("localhost:9092", "payments");
        options.properties.push((name.into(), "0".into()));
        let error = KafkaSink::new(options).expect_err("ours");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
    let mut options = SinkOptions::new("localhost:9092", "payments");
    let too_many = ("max.in.flight.requests.per.connection".into(), "6".into());
    options.properties.push(too_many);
    let error = KafkaSink::new(options).expect_err("librdkafka refuses it");
    assert!(error.to_string().contains("in.flight"), "{error}");
}
