//! Kafka, read back by its console consumer.

use std::collections::BTreeMap;

use super::super::Place;
use super::super::kafka::{Topic, java};
use super::{Message, Target, publishing};

publishing!(Topic);

impl Target for Topic {
    fn sink(&self, address: &str) -> String {
        let Self(topic) = self;
        format!("kind = \"kafka\"\nbrokers = \"{address}\"\ntopic = \"{topic}\"\n")
    }

    fn read(&self) -> Vec<Message> {
        let message = |(headers, payload): (BTreeMap<String, String>, _)| Message {
            id: headers["semel-id"].clone(),
            payload,
            headers,
        };
        self.records().into_iter().map(message).collect()
    }

    fn name(&self) -> &str {
        &self.0
    }

    fn group(&self) -> &str {
        &self.0
    }

    const SYSTEM: &str = "kafka";
    const DROPS_REPEATS: bool = false;
    const NO_PLACE: &str = "there is no such topic";
}

impl Topic {
    /// Reads headers and payload of each record. No record may only mean that the machine is busy.
    fn records(&self) -> Vec<(BTreeMap<String, String>, String)> {
        let mut waits = ["5000", "45000"]
            .into_iter()
            .map(|wait| self.read_for(wait));
        waits.find(|read| !read.is_empty()).unwrap_or_default()
    }

    /// Reads until no record arrives for `wait` milliseconds.
    fn read_for(&self, wait: &str) -> Vec<(BTreeMap<String, String>, String)> {
        let read = java("org.apache.kafka.tools.consumer.ConsoleConsumer")
            .args(["--bootstrap-server", &Self::address(), "--topic", &self.0])
            .args(["--from-beginning", "--timeout-ms", wait])
            .args(["--property", "print.headers=true"])
            .output();
        let read = read.expect("java");
        let text = String::from_utf8(read.stdout).expect("text");
        text.lines().map(record).collect()
    }
}

/// Parses `NAME:VALUE,NAME:VALUE`, a tab, and the payload.
fn record(line: &str) -> (BTreeMap<String, String>, String) {
    let (headers, payload) = line.split_once('\t').expect("headers and a payload");
    let headers = headers.split(',').filter_map(|it| it.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (headers.collect(), payload.to_owned())
}

#[test]
fn the_id_stays_at_home_where_it_is_not_wanted() {
    let topic = Topic::new();
    let settings = topic.sink(&Topic::address()) + "id_header = false\n";
    let site = super::site(&settings, "");
    site.write("in.ndjson", super::lines((0..50).chain(20..30)));
    site.run().is(&[("applied", 50), ("replayed", 10)]);
    let read = topic.records();
    let mut payloads: Vec<_> = read.iter().map(|(_, payload)| payload.clone()).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, super::sorted(super::payments(0..50)));
    for (headers, _) in &read {
        assert!(headers.is_empty(), "{headers:?}");
    }
}

#[test]
fn a_message_that_is_too_long_is_dead_and_listed() {
    super::a_message_that_is_too_long_is_dead_and_listed::<Topic>();
}
