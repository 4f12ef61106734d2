//! NATS JetStream.

use std::time::Duration;

use semel_broker_nats::{NatsSink, SinkOptions};

use super::{Place, behind, name, publish, runtime, server};

/// A stream and its one subject.
pub(super) struct Stream(pub(super) String);

behind!(Stream);

impl Stream {
    /// A stream whose messages go when they are so old.
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

    fn publish(&self, payloads: &[String]) {
        let options = SinkOptions::new(Self::address(), &self.0);
        runtime().block_on(async {
            publish(NatsSink::new(options).expect("a sink"), payloads).await;
        });
    }
}
