//! NATS JetStream.

use std::time::Duration;

use semel_broker_nats::{NatsSink, SinkOptions};
use semel_core::port::sink::Publication;

use super::{
    Place, behind, behind_a_proxy, each_is_there_once, name, payments, runtime, send, server, site,
    until,
};
use crate::gameday::{alerts, failures, played};
use crate::site::Site;

/// A stream and its one subject.
pub(crate) struct Stream(pub(super) String);

behind!(Stream);
behind_a_proxy!(Stream);

impl Stream {
    /// Makes a stream that drops messages at this age.
    pub(super) fn aged(max_age: Duration) -> Self {
        let stream = Self(name());
        runtime().block_on(async {
            let client = async_nats::connect(&Self::address())
                .await
                .expect("a server");
            let config = async_nats::jetstream::stream::Config {
                name: stream.0.clone(),
                subjects: vec![stream.0.clone()],
                max_age,
                ..Default::default()
            };
            let made = async_nats::jetstream::new(client)
                .create_stream(config)
                .await;
            let _ = made.expect("a stream");
        });
        stream
    }
}

impl Place for Stream {
    fn new() -> Self {
        Self::aged(Duration::ZERO)
    }

    fn source(&self, address: &str) -> String {
        let Self(stream) = self;
        let url = if address.contains("://") {
            address.to_owned()
        } else {
            format!("nats://{address}")
        };
        format!(
            "kind = \"nats\"\nurl = \"{url}\"\nstream = \"{stream}\"\nconsumer = \"payments\"\n"
        )
    }

    fn address() -> String {
        server("SEMEL_TEST_NATS_URL", "nats")
    }

    fn send(&self, batch: &[Publication]) {
        let options = SinkOptions::new(Self::address(), &self.0);
        runtime().block_on(async {
            send(NatsSink::new(options).expect("a sink"), batch).await;
        });
    }
}

#[test]
fn a_stream_is_replayed_to_its_end_and_its_consumer_stays_where_it_is() {
    let stream = Stream::new();
    let site = site(&stream, &Stream::address());
    stream.publish(&payments(0..10));
    until(&site, 10, || {});
    stream.publish(&payments(5..15));
    let again = |more: &[&str]| {
        let all = ["replay", "--id", "r", "--yes", "--output", "json"];
        site.semel(&[&all[..], more].concat()).done().summary()
    };
    site.semel(&["replay", "--id", "r"]).code(1).says("as r");
    // The stream itself tells when it took each message in, and the replay ends by itself.
    again(&[]).is(&[
        ("deliveries", 20),
        ("applied", 5),
        ("replayed", 15),
        ("sent_again", 20),
    ]);
    again(&["--newer-than", "1h"]).is(&[("deliveries", 20), ("replayed", 20)]);
    again(&["--newer-than", "1ms"]).is(&[("deliveries", 0)]);
    // The replay acknowledged nothing for the workers: they still get the last messages.
    let summary = until(&site, 15, || {});
    summary.is(&[("deliveries", 10), ("replayed", 10)]);
    each_is_there_once(&site, 15);
}

#[test]
fn the_drill_of_the_window_fails_if_the_stream_outlasts_it() {
    let stream = Stream::aged(Duration::from_secs(14 * 86_400));
    let config = format!(
        "[pipelines.payments]\nkey = \"json:/id\"\neffect = {{ kind = \"file\", path = \"out\" }}\n\
         [pipelines.payments.source]\n{}",
        stream.source(&Stream::address())
    );
    let site = Site::with(&[("semel.toml", &config)]);
    let (code, report) = played(&site, &["ttl", "--config", "semel.toml"]);
    // A stream stamps its messages, so that what is too old is set aside and not repeated.
    let expected = ["what comes again is recognised"];
    assert_eq!(failures(&report), expected, "{report}");
    assert_eq!(code, 1);
    assert_eq!(alerts(&report), ["SemelQuarantineGrowing"], "{report}");
}
