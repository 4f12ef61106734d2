//! Kafka: workers of one group killed, stopped and joined by others, the broker killed and restarted. Effects of
//! each payment, and outputs in another topic, each once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use torture::{
    Broker, Crew, Kafka, Keep, Kind, Moments, Postgres, Provider, Site, Storm, Versions,
    happens_once, scaled,
};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_postgresql() {
    happens_once(&mut broker(), Keep::Postgres, 61);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_redis() {
    happens_once(&mut broker(), Keep::Redis, 63);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_the_embedded_store_and_one_worker() {
    happens_once(&mut broker(), Keep::Embedded, 64);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn outputs_are_committed_once() {
    let mut kafka = broker();
    kafka.create("clean", 3);
    // Small transactions in a campaign, which lasts: there is to be something under way all the time.
    let batch = scaled("2000", "50");
    let config = STREAMED
        .replace("BROKERS", &kafka.brokers())
        .replace("BATCH", batch);
    let config = config + &kafka.reader("payments");
    let site = Site::with(&[("semel.toml", &config)]);
    let mut storm = Storm::seeded(62, scaled(60_000, 1_000_000), Crew::Three);
    // Its store is memory alone.
    let kinds = [Kind::Revoked];
    let figures = storm.over(&mut kafka, &mut || false, &site, &["payments"], &kinds);
    println!("Kafka to Kafka: {figures}");
    // Read by Kafka's own consumer.
    let mut times = BTreeMap::new();
    for line in kafka.read_committed("clean") {
        *times.entry(id(&line)).or_insert(0) += 1;
    }
    let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert!(repeated.is_empty(), "put out twice: {repeated:?}");
    let expected: BTreeSet<_> = storm
        .stream
        .distinct
        .iter()
        .map(|it| it.id.clone())
        .collect();
    let there: BTreeSet<_> = times.into_keys().collect();
    assert_eq!(there.len(), expected.len(), "an output was lost");
    assert_eq!(there, expected);
    figures.were_a_storm(&kinds);
    figures.tell("Kafka, Kafka", &[]);
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn versions_of_an_account_are_applied_in_their_order() {
    let mut kafka = broker();
    let mut server = Postgres::start();
    let provider = Provider::slow(Duration::from_millis(scaled(20, 250)));
    let url = format!("{}?sslmode=disable", server.url());
    let config = ORDERED
        .replace("STORE", &url)
        .replace("URL", &provider.url());
    let config = config + &kafka.reader("moves");
    let site = Site::with(&[("semel.toml", &config)]);
    let mut moments = Moments::seeded(65);
    let versions = Versions::generate(500, scaled(20_000, 200_000), &mut moments);
    let mut storm = Storm::of(versions, moments, Crew::Three);
    let mut kill_store = || {
        server.kill_and_restart();
        true
    };
    let kinds = [Kind::Takeover, Kind::Fenced, Kind::Revoked];
    let figures = storm.over(&mut kafka, &mut kill_store, &site, &["moves"], &kinds);
    let versions = storm.stream;
    let late = versions.out_of_order(&provider.carried_out());
    assert_eq!(late, [""; 0], "out of order");
    let wrong: Vec<_> = provider
        .wrong(&versions.payments)
        .into_iter()
        .map(|(id, what)| format!("{id}: {what}\n{}", site.told_of(&id)))
        .take(3)
        .collect();
    assert_eq!(wrong, [""; 0]);
    let told = stale(&site);
    let wrongly: Vec<_> = told.difference(&versions.stale).collect();
    assert!(wrongly.is_empty(), "called stale: {wrongly:?}");
    assert!(!told.is_empty(), "no version was stale");
    println!(
        "Kafka, versions of 500 accounts: {figures}; {} of {} older versions told, none applied",
        told.len(),
        versions.stale.len()
    );
    figures.were_a_storm(&kinds);
    let more = [("stale versions", versions.stale.len() as u64)];
    figures.tell("Kafka, PostgreSQL, versions", &more);
}

/// The keys that workers have called stale.
fn stale(site: &Site) -> BTreeSet<String> {
    let said = site.text("stderr.log");
    let lines = said
        .lines()
        .filter(|line| line.contains("\"decision\":\"stale\""));
    // Whoever is killed may leave half a line.
    let told = lines.filter_map(|line| serde_json::from_str(line).ok());
    let key = |line: serde_json::Value| Some(line["key"].as_str()?.to_owned());
    told.filter_map(key).collect()
}

fn broker() -> Kafka {
    let kafka = Kafka::start().in_small_pieces();
    // As many as let whoever joins take one from each of three.
    kafka.create("payments", 12);
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
batch = BATCH
window = "30d"

[pipelines.payments.effect]
kind = "kafka"
class = "streamed"
brokers = "BROKERS"
topic = "clean"
transaction_timeout = "4s"

[pipelines.payments.source]
"#;

/// Accounts are worked on beside each other, each in its order.
const ORDERED: &str = r#"
[store]
url = "STORE"

[pipelines.moves]
key = "json:/id"
order = "json:/account"
entity = "json:/account"
version = "json:/version"
batch = 200
concurrency = 64
window = "30d"
lease = "2s"
retry = { attempts = 50, backoff = "5ms..20ms", crashes = 1000 }

[pipelines.moves.effect]
kind = "http"
url = "URL"
class = "keyed"
provider_window = "60d"

[pipelines.moves.source]
"#;
