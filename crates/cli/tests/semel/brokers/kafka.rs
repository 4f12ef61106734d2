//! Kafka.

mod replay;
mod streamed;

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use semel_broker_kafka::{KafkaSink, SinkOptions};
use semel_core::port::sink::Publication;

use super::{Place, behind, name, payments, runtime, send, server};
use crate::ready::Admin;
use crate::site::{Site, wait_for};

/// A program of Kafka's jars, with settings for a quick start.
pub(super) fn java(class: &str) -> Command {
    let jars = server("SEMEL_TEST_KAFKA_JARS", "kafka");
    let mut command = Command::new("java");
    command
        .args(["-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        .args([&format!("-XX:SharedArchiveFile={jars}.jsa"), "-cp"])
        .arg(Path::new(&jars).join("*"))
        .arg(class);
    command
}

pub(crate) struct Topic(pub(crate) String);

behind!(Topic);

impl Topic {
    /// A topic with these settings, which the broker has: the controller creates it, and tells the brokers afterwards.
    pub(super) fn with(settings: &[&str]) -> Self {
        let topic = Self(name());
        let made = java("org.apache.kafka.tools.TopicCommand")
            .args(["--bootstrap-server", &Self::address(), "--create"])
            .args(["--topic", &topic.0, "--partitions", "3"])
            .args(settings.iter().flat_map(|setting| ["--config", setting]))
            .output();
        let made = made.expect("java");
        assert!(made.status.success(), "{made:?}");
        let sink = KafkaSink::new(SinkOptions::new(&Self::address(), &topic.0)).expect("a sink");
        let runtime = runtime();
        wait_for("the topic", || runtime.block_on(sink.connect()).is_ok());
        topic
    }
}

impl Place for Topic {
    fn new() -> Self {
        Self::with(&[])
    }

    fn source(&self, address: &str) -> String {
        let Self(topic) = self;
        format!(
            "kind = \"kafka\"\nbrokers = \"{address}\"\ntopic = \"{topic}\"\ngroup = \"{topic}\"\n\
             [pipelines.payments.source.properties]\n\"session.timeout.ms\" = \"6000\"\n"
        )
    }

    fn address() -> String {
        server("SEMEL_TEST_KAFKA_URL", "kafka")
    }

    fn send(&self, batch: &[Publication]) {
        let sink = KafkaSink::new(SinkOptions::new(&Self::address(), &self.0));
        runtime().block_on(send(sink.expect("a sink"), batch));
    }
}

#[test]
fn what_a_worker_that_is_held_has_not_worked_off_is_its_lag() {
    const COUNT: usize = 30;
    let topic = Topic::new();
    topic.publish(&payments(0..COUNT));
    let admin = Admin::new();
    let config = format!(
        "[store]\nurl = \"embedded:./store\"\n{}[pipelines.payments]\nkey = \"json:/id\"\nwindow = \"30d\"\n\
         effect = {{ kind = \"exec\", command = [\"sh\", \"-c\", \"until [ -e go ]; do sleep 0.02; done\"], timeout = \"5m\" }}\n\
         [pipelines.payments.source]\n{}",
        admin.table(),
        topic.source(&Topic::address())
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let running = site.start(&["run", "--output", "json"]);
    let lag = "semel_source_lag{pipeline=\"payments\"}";
    admin.tells(lag, 30);
    site.write("go", "");
    admin.tells(lag, 0);
    running.signal(Signal::TERM);
    let applied = COUNT as u64;
    running.wait().done().summary().is(&[("applied", applied)]);
}
