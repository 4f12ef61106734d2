//! Kafka: workers of one group killed, stopped and joined by others, the broker killed and restarted. Effects of
//! each payment, and outputs in another topic, each once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::{BTreeMap, BTreeSet};

use torture::{Broker, Crew, Kafka, Kind, Shop, Site, Storm, scaled};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_postgresql() {
    let happened = [Kind::Takeover, Kind::Fenced, Kind::Revoked];
    storm(
        "Kafka, PostgreSQL",
        &Shop::in_postgres(),
        61,
        Crew::Three,
        &happened,
    );
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_redis() {
    let happened = [Kind::Takeover, Kind::Fenced, Kind::Revoked];
    storm(
        "Kafka, Redis",
        &Shop::in_redis(),
        63,
        Crew::Three,
        &happened,
    );
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_the_embedded_store_and_one_worker() {
    let happened = [Kind::Takeover];
    storm(
        "Kafka, embedded",
        &Shop::embedded(),
        64,
        Crew::One,
        &happened,
    );
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn outputs_are_committed_once() {
    let mut kafka = broker();
    kafka.create("clean", 3);
    let config = STREAMED.replace("BROKERS", &kafka.brokers()) + &kafka.reader("payments");
    let site = Site::with(&[("semel.toml", &config)]);
    let mut storm = Storm::seeded(62, scaled(60_000, 180_000), Crew::Three);
    let figures = storm.over(&mut kafka, &site, &["payments"]);
    println!("Kafka to Kafka: {figures}");
    // Read by Kafka's own consumer.
    let mut times = BTreeMap::new();
    for line in kafka.read_committed("clean") {
        *times.entry(id(&line)).or_insert(0) += 1;
    }
    let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(repeated.is_empty(), "put out twice: {repeated:?}");
    let expected: BTreeSet<_> = storm
        .payments
        .distinct
        .iter()
        .map(|it| it.id.clone())
        .collect();
    let there: BTreeSet<_> = times.into_keys().collect();
    assert_eq!(there.len(), expected.len(), "an output was lost");
    assert_eq!(there, expected);
    figures.tell("Kafka, Kafka");
}

fn storm(name: &str, shop: &Shop, seed: u64, crew: Crew, happened: &[Kind]) {
    let mut kafka = broker();
    let site = shop.site(&mut kafka);
    let mut storm = Storm::seeded(seed, scaled(20_000, 180_000), crew);
    let figures = storm.over(&mut kafka, &site, shop.readers());
    println!("{name}: {figures}");
    shop.assert_once(&storm.payments, &site);
    figures.were_a_storm(happened);
    figures.tell(name);
}

fn broker() -> Kafka {
    let kafka = Kafka::start();
    kafka.create("payments", 6);
    kafka
}

/// The key of a line: what its payment is called.
fn id(line: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
    value["id"].as_str().expect("an id").to_owned()
}

/// Nothing is set aside here, so nothing is lost with the store.
const STREAMED: &str = r#"
[store]
url = "memory:"
allow_volatile = true

[pipelines.payments]
key = "json:/id"
transport = "json:/event"
fingerprint = ["json:/amount"]
batch = 2000
window = "30d"

[pipelines.payments.effect]
kind = "kafka"
class = "streamed"
brokers = "BROKERS"
topic = "clean"
transaction_timeout = "4s"

[pipelines.payments.source]
"#;
