//! Encrypted connections: trust, our certificate, and the errors when none comes about.
#![cfg(feature = "tls")]

use semel_broker_kafka::{KafkaSink, KafkaSource, Options, SinkOptions};
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Certainty, Code};

use crate::cluster::{Topic, numbers, take};
use crate::own::{Own, PASSWORD, USER};
use crate::rights::{Properties, login, told};

fn properties(all: &[(&str, &str)]) -> Properties {
    all.iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

/// Returns properties with our certificate.
fn certified(own: &Own) -> Properties {
    let text = |path: &std::path::Path| path.display().to_string();
    properties(&[
        ("security.protocol", "SSL"),
        ("ssl.ca.location", &text(&own.authority.path)),
        ("ssl.certificate.location", &text(&own.ours.cert)),
        ("ssl.key.location", &text(&own.ours.key)),
    ])
}

/// Returns properties without one of them, or with another value.
fn but(mut from: Properties, name: &str, value: Option<&str>) -> Properties {
    from.retain(|(it, _)| &**it != name);
    from.extend(value.map(|value| (name.into(), value.into())));
    from
}

fn options(topic: &Topic, brokers: &str, properties: &Properties) -> Options {
    let mut options = topic.options();
    options.brokers = brokers.into();
    options.properties.extend(properties.clone());
    options
}

async fn goes_through(topic: &Topic, brokers: &str, properties: &Properties) {
    let mut to = SinkOptions::new(brokers, &topic.name);
    to.properties.clone_from(properties);
    let sink = KafkaSink::new(to).expect("a sink");
    let one = Publication {
        id: "id".into(),
        order: None,
        payload: "7".into(),
        headers: Vec::new(),
    };
    sink.publish(&[one]).await.remove(0).expect("published");
    let mut source = KafkaSource::new(options(topic, brokers, properties)).expect("a source");
    assert_eq!(numbers(&take(&mut source, 1).await), [7].into());
}

/// Checks that source, sink and look refuse, each in the same words.
async fn refused(topic: &Topic, brokers: &str, properties: &Properties, words: &str) {
    let options = options(topic, brokers, properties);
    let mut source = KafkaSource::new(options.clone()).expect("a source");
    let (_, count) = told(&mut source, words).await;
    assert!(count <= 2, "it is told at once: {count}");
    let error = semel_broker_kafka::inspect(&options)
        .await
        .expect_err("refused");
    assert!(error.to_string().contains(words), "look: {error:?}");
    let mut to = SinkOptions::new(brokers, &topic.name);
    to.properties.clone_from(properties);
    let sink = KafkaSink::new(to).expect("a sink");
    let error = sink.connect().await.expect_err("refused");
    assert!(error.to_string().contains(words), "sink: {error:?}");
    assert_eq!(error.code(), Code::TargetUnavailable);
    assert_eq!(error.certainty(), Certainty::NotApplied, "{error:?}");
    assert!(!format!("{error:?}").contains("geheim"), "{error:?}");
}

#[tokio::test]
async fn a_cluster_is_reached_by_certificate() {
    let own = Own::get().await;
    let topic = Topic::on(&own.open(), 1, &[]).await;
    goes_through(&topic, &own.certified(), &certified(own)).await;
}

#[tokio::test]
async fn a_cluster_is_reached_by_password_over_an_encrypted_connection() {
    let own = Own::get().await;
    let ca = own.authority.path.display().to_string();
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let topic = Topic::on(&own.open(), 1, &[]).await;
        let all = [
            "--operation",
            "All",
            "--topic",
            &topic.name,
            "--group",
            &topic.name,
        ];
        own.rights("--add", &all).await;
        let properties = properties(&[
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", &ca),
            ("sasl.mechanism", mechanism),
            ("sasl.username", USER),
            ("sasl.password", PASSWORD),
        ]);
        goes_through(&topic, &own.encrypted(), &properties).await;
        let wrong = but(properties, "sasl.password", Some("geheim-4712"));
        let words = "refused the user or the password";
        refused(&topic, &own.encrypted(), &wrong, words).await;
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_is_told() {
    let own = Own::get().await;
    let topic = Topic::on(&own.open(), 1, &[]).await;
    let stranger = semel_conformance::certificates::Authority::new();
    let other = stranger.path.display().to_string();
    let words = "ssl.ca.location";
    let strange = but(certified(own), "ssl.ca.location", Some(&other));
    refused(&topic, &own.certified(), &strange, words).await;
    refused(&topic, &own.expired(), &certified(own), words).await;
    let elsewhere = own.certified().replace("127.0.0.1", "localhost");
    refused(&topic, &elsewhere, &certified(own), words).await;
}

#[tokio::test]
async fn a_certificate_of_ours_that_is_missing_is_told() {
    let own = Own::get().await;
    let topic = Topic::on(&own.open(), 1, &[]).await;
    let nobody = but(certified(own), "ssl.certificate.location", None);
    let nobody = but(nobody, "ssl.key.location", None);
    refused(&topic, &own.certified(), &nobody, "wants to know us").await;
}

#[tokio::test]
async fn the_wrong_port_is_told_either_way() {
    let own = Own::get().await;
    let topic = Topic::on(&own.open(), 1, &[]).await;
    refused(&topic, &own.open(), &certified(own), "does not speak TLS").await;
    // librdkafka reports some as if nobody were there.
    let words = "security.protocol";
    refused(&topic, &own.encrypted(), &login(PASSWORD), words).await;
    refused(&topic, &own.encrypted(), &Vec::new(), words).await;
    refused(&topic, &own.guarded(), &Vec::new(), words).await;
}

#[tokio::test]
async fn a_file_that_is_not_there_is_told_at_once() {
    let own = Own::get().await;
    let topic = Topic::absent(&own.open());
    let nowhere = but(certified(own), "ssl.ca.location", Some("/nowhere/ca.pem"));
    let error = KafkaSource::new(options(&topic, &own.certified(), &nowhere));
    let error = error.expect_err("no such file");
    assert!(
        format!("{error} {error:?}").contains("ssl.ca.location"),
        "{error:?}"
    );
}
