//! Versions of accounts from Kafka, while workers of one group are killed, stopped and joined by others, and broker and
//! store are killed and restarted. Each account has its versions in their order.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::BTreeSet;
use std::time::Duration;

use torture::{
    Broker, Crew, Kafka, Kind, Moments, Postgres, Provider, Site, Storm, Versions, scaled,
};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn versions_of_an_account_are_applied_in_their_order() {
    let mut kafka = Kafka::with_payments();
    let mut server = Postgres::start();
    let provider = Provider::slow(Duration::from_millis(scaled(20, 250)));
    let url = format!("{}?sslmode=disable", server.url());
    let config = ORDERED
        .replace("STORE", &url)
        .replace("URL", &provider.url());
    let config = config + &kafka.reader("moves");
    let site = Site::with(&[("semel.toml", &config)]);
    let mut moments = Moments::seeded(65);
    let versions = Versions::generate(500, scaled(6_000, 200_000), &mut moments);
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
    figures.tell("Kafka, PostgreSQL, versions", &kinds, &more);
}

/// The keys that workers have reported as stale.
fn stale(site: &Site) -> BTreeSet<String> {
    let said = site.text("stderr.log");
    let lines = said
        .lines()
        .filter(|line| line.contains("\"decision\":\"stale\""));
    // A killed worker may leave half a line.
    let told = lines.filter_map(|line| serde_json::from_str(line).ok());
    let key = |line: serde_json::Value| Some(line["key"].as_str()?.to_owned());
    told.filter_map(key).collect()
}

/// Different accounts are handled concurrently, each in its order.
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
