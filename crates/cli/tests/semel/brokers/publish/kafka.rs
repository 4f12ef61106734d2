//! Kafka, read back by its console consumer.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::super::kafka::Topic;
use super::super::{Place, server};
use super::{Message, Target, publishing};

publishing!(Topic);

impl Target for Topic {
    fn sink(&self, address: &str) -> String {
        let Self(topic) = self;
        format!("kind = \"kafka\"\nbrokers = \"{address}\"\ntopic = \"{topic}\"\n")
    }

    fn read(&self) -> Vec<Message> {
        let jars = server("SEMEL_TEST_KAFKA_JARS", "kafka");
        let read = Command::new("java")
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"])
            .arg(Path::new(&jars).join("*"))
            .arg("org.apache.kafka.tools.consumer.ConsoleConsumer")
            .args(["--bootstrap-server", &Self::address(), "--topic", &self.0])
            .args(["--from-beginning", "--timeout-ms", "5000"])
            .args(["--property", "print.headers=true"])
            .output();
        let read = read.expect("java");
        let text = String::from_utf8(read.stdout).expect("text");
        text.lines().map(message).collect()
    }

    const DROPS_REPEATS: bool = false;
    const NO_PLACE: &str = "there is no such topic";
}

/// `NAME:VALUE,NAME:VALUE`, a tab, and the payload.
fn message(line: &str) -> Message {
    let (headers, payload) = line.split_once('\t').expect("headers and a payload");
    let headers = headers.split(',').filter_map(|it| it.split_once(':'));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let headers: BTreeMap<_, _> = headers.collect();
    Message {
        id: headers["semel-id"].clone(),
        payload: payload.to_owned(),
        headers,
    }
}

#[test]
fn a_message_that_is_too_long_is_dead_and_listed() {
    super::a_message_that_is_too_long_is_dead_and_listed::<Topic>();
}
