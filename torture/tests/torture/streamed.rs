//! Kafka to Kafka: workers of one group killed, stopped and joined by others, the broker killed and restarted. Each
//! output is committed once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use std::collections::{BTreeMap, BTreeSet};

use torture::{Broker, Crew, Kafka, Kind, Site, Storm, scaled};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn outputs_are_committed_once() {
    let mut kafka = Kafka::with_payments();
    kafka.create("clean", 3);
    // Slow transactions in a campaign, which takes long: something is to be under way all the time, and in every
    // partition that a worker has.
    let (batch, transform) = scaled(("2000", ""), ("500", TRANSFORM));
    let config = STREAMED
        .replace("BROKERS", &kafka.brokers())
        .replace("BATCH", batch)
        .replace("TRANSFORM", transform);
    let config = config + &kafka.reader("payments");
    let site = Site::with(&[("semel.toml", &config), ("same.py", SAME)]);
    let mut storm = Storm::seeded(62, scaled(15_000, 1_000_000), Crew::Three);
    // Its store is in memory only.
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
    figures.tell("Kafka, Kafka", &kinds, &[]);
}

/// The key of a line: the id of its payment.
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
TRANSFORM

[pipelines.payments.source]
"#;

const TRANSFORM: &str = "transform = { command = [\"python3\", \"-S\", \"same.py\"] }";

/// Writes its input unchanged, and takes its time.
const SAME: &str = r#"
import json, sys, time

for line in sys.stdin:
    request = json.loads(line)
    time.sleep(0.001)
    print(json.dumps({"id": request["id"], "status": "done", "result": request["payload"]}), flush=True)
"#;
