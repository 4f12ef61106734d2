//! A user who lacks a right: the error names it, and work goes on as soon as it is granted, with nothing lost and
//! nothing twice.

use std::time::Duration;

use semel_broker_kafka::{KafkaSink, KafkaSource, Options, SinkOptions};
use semel_conformance::source::applied;
use semel_core::port::sink::{Publication, Sink};
use semel_core::port::source::{Fetched, Source};
use semel_core::{Certainty, Code, Error, ErrorKind};
use tokio::time::{Instant, timeout};

use crate::cluster::{Topic, ids, numbers, take};
use crate::own::{Own, PASSWORD, USER};

pub(crate) type Properties = Vec<(Box<str>, Box<str>)>;

/// Returns the login of the user without rights.
pub(crate) fn login(password: &str) -> Properties {
    [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.username", USER),
        ("sasl.password", password),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into()
}

fn options(own: &Own, topic: &Topic) -> Options {
    let mut options = topic.options();
    options.brokers = own.guarded().into();
    options.properties.extend(login(PASSWORD));
    options
}

/// Returns the error that a source reports instead of records, once it is about `words`, and the number of reports.
pub(crate) async fn told(source: &mut KafkaSource, words: &str) -> (Error, u32) {
    let (mut count, begun, mut last) = (0, Instant::now(), String::new());
    loop {
        let left = Duration::from_secs(60).saturating_sub(begun.elapsed());
        let fetched = timeout(left, source.fetch(10)).await;
        match fetched.unwrap_or_else(|_| panic!("nobody spoke of {words}, but of {last}")) {
            Ok(Fetched::Away(error)) => {
                count += 1;
                let shown = format!("{error} {error:?}");
                assert!(!shown.contains("geheim"), "{shown}");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
                assert_eq!(error.code(), Code::SourceUnavailable, "{error:?}");
                last = error.to_string();
                if last.contains(words) {
                    return (error, count);
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn rights_of_a_reader_may_be_granted_while_it_waits() {
    let own = Own::get().await;
    let topic = Topic::on(&own.open(), 1, &[]).await;
    topic.number(0..3, 1).await;
    let mut source = KafkaSource::new(options(own, &topic)).expect("a source");
    let (error, _) = told(&mut source, "grant Read").await;
    assert!(error.to_string().contains(&topic.name), "{error}");
    own.rights("--add", &["--operation", "Read", "--group", &topic.name])
        .await;
    told(&mut source, "may not read or write the topic").await;
    own.rights("--add", &["--operation", "Read", "--topic", &topic.name])
        .await;
    let got = take(&mut source, 3).await;
    assert_eq!(numbers(&got), (0..3).collect());
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    source.close().await.expect("an end");
    assert_eq!(topic.committed(1), [3]);
}

#[tokio::test]
async fn a_commit_that_lacks_a_right_is_made_as_soon_as_it_is_granted() {
    let own = Own::get().await;
    let topic = Topic::on(&own.open(), 1, &[]).await;
    let all = [
        "--operation",
        "Read",
        "--topic",
        &topic.name,
        "--group",
        &topic.name,
    ];
    own.rights("--add", &all).await;
    topic.number(0..3, 1).await;
    let mut source = KafkaSource::new(options(own, &topic)).expect("a source");
    let got = take(&mut source, 3).await;
    own.rights("--remove", &["--operation", "Read", "--group", &topic.name])
        .await;
    source
        .acknowledge(&applied(&ids(&got)))
        .await
        .expect("told");
    let (_, count) = told(&mut source, "may not use the consumer group").await;
    assert!(count < 10, "again and again: {count}");
    assert_eq!(topic.committed(1), [0]);
    own.rights("--add", &["--operation", "Read", "--group", &topic.name])
        .await;
    topic.number(3..4, 1).await;
    // Uncommitted records may come again; that is for the store.
    let begun = Instant::now();
    while topic.committed(1) != [4] {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{:?}",
            topic.committed(1)
        );
        match timeout(Duration::from_secs(1), source.fetch(10)).await {
            Ok(Ok(Fetched::Deliveries(some))) => {
                source
                    .acknowledge(&applied(&ids(&some)))
                    .await
                    .expect("told");
            }
            Ok(Ok(Fetched::Revoked(some))) => source.requeue(&some).await.expect("told"),
            Ok(Ok(Fetched::Away(_) | Fetched::Back)) | Err(_) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
    source.close().await.expect("an end");
}

fn publications(range: std::ops::Range<u32>) -> Vec<Publication> {
    let one = |n: u32| Publication {
        id: format!("id-{n}").into(),
        order: None,
        payload: n.to_string().into(),
        headers: Vec::new(),
    };
    range.map(one).collect()
}

#[tokio::test]
async fn rights_of_a_writer_may_be_granted_while_it_is_refused() {
    let own = Own::get().await;
    let topic = Topic::on(&own.open(), 1, &[]).await;
    let mut options = SinkOptions::new(&own.guarded(), &topic.name);
    options.properties = login(PASSWORD);
    let sink = KafkaSink::new(options).expect("a sink");
    for granted in ["--describe", "--write"] {
        let begun = Instant::now();
        for answer in sink.publish(&publications(0..3)).await {
            let error = answer.expect_err("refused");
            assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
            assert!(error.to_string().contains("grant"), "{error:?}");
            assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(35), "{granted}");
        let operation = if granted == "--describe" {
            "Describe"
        } else {
            "Write"
        };
        own.rights("--add", &["--operation", operation, "--topic", &topic.name])
            .await;
    }
    // Until every part of the broker has heard of it.
    let begun = Instant::now();
    loop {
        let answers = sink.publish(&publications(0..3)).await;
        if answers.iter().all(Result::is_ok) {
            break;
        }
        for error in answers.iter().filter_map(|it| it.as_ref().err()) {
            assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{answers:?}");
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!(topic.all(3), ["0", "1", "2"]);
}

#[tokio::test]
async fn a_wrong_password_is_told_and_not_shown() {
    let own = Own::get().await;
    let topic = Topic::absent(&own.open());
    let mut options = topic.options();
    options.brokers = own.guarded().into();
    options.properties.extend(login("geheim-4712"));
    let mut source = KafkaSource::new(options.clone()).expect("a source");
    let (_, count) = told(&mut source, "refused the user or the password").await;
    assert!(count <= 2, "it is told at once: {count}");
    let error = semel_broker_kafka::inspect(&options)
        .await
        .expect_err("refused");
    assert!(error.to_string().contains("refused the user"), "{error:?}");
    let mut to = SinkOptions::new(&own.guarded(), &topic.name);
    to.properties = login("geheim-4712");
    let sink = KafkaSink::new(to).expect("a sink");
    let error = sink.connect().await.expect_err("refused");
    assert!(error.to_string().contains("refused the user"), "{error:?}");
    assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
}

#[cfg(not(feature = "tls"))]
#[tokio::test]
async fn a_program_without_encryption_says_so() {
    for (name, value) in [
        ("security.protocol", "SASL_SSL"),
        ("sasl.mechanism", "SCRAM-SHA-256"),
    ] {
        let mut options = Options::new("nowhere:1", "t", "g");
        options.properties.push((name.into(), value.into()));
        let error = KafkaSource::new(options).expect_err("not built in");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(
            error.to_string().contains("--features kafka-tls"),
            "{error}"
        );
    }
}
